#include "exec/emulator/order_checker.h"

#include "gtest/gtest.h"

namespace tideline {
namespace {

class OrderCheckerTest : public ::testing::Test {
 protected:
  OrderCheckerTest() : checker_(0), a_(checker_.AddStream("a")), b_(checker_.AddStream("b")) {
    checker_.AddReservation(memory_, sizeof memory_, "arena");
  }

  Status Do(int stream, const char* name, int64_t begin, int64_t end, Access access) {
    const Range range = {memory_ + begin, end - begin, access};
    return checker_.Access(stream, name, ++tag_, {&range, 1});
  }
  Status Write(int stream, const char* name, int64_t begin, int64_t end) {
    return Do(stream, name, begin, end, Access::kWrite);
  }
  Status Read(int stream, const char* name, int64_t begin, int64_t end) {
    return Do(stream, name, begin, end, Access::kRead);
  }
  void Edge(int from, int to) { checker_.Join(to, checker_.ClockOf(from)); }

  char memory_[1024] = {};
  uint64_t tag_ = 0;
  OrderChecker checker_;
  const int a_, b_;
};

TEST_F(OrderCheckerTest, OneStreamNeverRaces) {
  EXPECT_TRUE(Write(a_, "w1", 0, 100).ok());
  EXPECT_TRUE(Read(a_, "r", 10, 90).ok());
  EXPECT_TRUE(Write(a_, "w2", 50, 200).ok());
}

TEST_F(OrderCheckerTest, NamesBothInstructionsTheBytesAndTheEdge) {
  EXPECT_TRUE(Write(a_, "make", 0, 100).ok());
  const Status race = Read(b_, "use", 40, 60);
  ASSERT_FALSE(race.ok());
  EXPECT_EQ(race.message(),
            "race on device 0: 'use' (instruction 2, stream b) reads bytes [40, 60) of 'arena', "
            "which 'make' (instruction 1, stream a) writes, and nothing orders the two; 'use' must "
            "wait for 'make'");
}

TEST_F(OrderCheckerTest, AnEdgeRemovesTheRace) {
  EXPECT_TRUE(Write(a_, "make", 0, 100).ok());
  Edge(a_, b_);
  EXPECT_TRUE(Read(b_, "use", 0, 100).ok());
}

TEST_F(OrderCheckerTest, AnEdgeTakenTooEarlyDoesNot) {
  Edge(a_, b_);
  EXPECT_TRUE(Write(a_, "make", 0, 100).ok());
  EXPECT_FALSE(Read(b_, "use", 0, 100).ok());
}

TEST_F(OrderCheckerTest, WriteAfterReadNeedsAnEdgeToo) {
  EXPECT_TRUE(Write(a_, "make", 0, 100).ok());
  Edge(a_, b_);
  EXPECT_TRUE(Read(b_, "use", 0, 100).ok());
  const Status race = Write(a_, "again", 99, 101);
  ASSERT_FALSE(race.ok());
  EXPECT_NE(race.message().find("'use' (instruction 2, stream b) reads"), std::string::npos);
}

TEST_F(OrderCheckerTest, TwoReadersDoNotRace) {
  EXPECT_TRUE(Write(a_, "make", 0, 100).ok());
  Edge(a_, b_);
  EXPECT_TRUE(Read(a_, "one", 0, 100).ok());
  EXPECT_TRUE(Read(b_, "two", 0, 100).ok());
}

TEST_F(OrderCheckerTest, NeighbouringBytesDoNotRace) {
  EXPECT_TRUE(Write(a_, "left", 0, 100).ok());
  EXPECT_TRUE(Write(b_, "right", 100, 200).ok());
}

TEST_F(OrderCheckerTest, EdgesAreTransitive) {
  const int c = checker_.AddStream("c");
  EXPECT_TRUE(Write(a_, "make", 0, 100).ok());
  Edge(a_, b_);
  EXPECT_TRUE(Write(b_, "pass", 200, 300).ok());
  Edge(b_, c);
  EXPECT_TRUE(Read(c, "use", 0, 100).ok());
}

TEST_F(OrderCheckerTest, FindsReadsOfUnwrittenBytes) {
  EXPECT_TRUE(Write(a_, "make", 0, 100).ok());
  const Status status = Read(a_, "use", 90, 120);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("'use' (instruction 2, stream a) reads bytes [100, 120)"),
            std::string::npos)
      << status;
}

TEST_F(OrderCheckerTest, ForgottenBytesAreUnwritten) {
  EXPECT_TRUE(Write(a_, "make", 0, 100).ok());
  const Range range = {memory_ + 20, 10, Access::kWrite};
  EXPECT_TRUE(checker_.Access(a_, "alloc", 9, {&range, 1}, true).ok());
  EXPECT_TRUE(Read(a_, "left", 0, 20).ok());
  EXPECT_FALSE(Read(a_, "middle", 0, 25).ok());
}

TEST_F(OrderCheckerTest, FindsBytesOutsideTheReservation) {
  EXPECT_FALSE(Write(a_, "over", 1000, 1025).ok());
  EXPECT_FALSE(Write(a_, "before", -1, 3).ok());
}

TEST_F(OrderCheckerTest, JoinAllOrdersEverything) {
  EXPECT_TRUE(Write(a_, "make", 0, 100).ok());
  checker_.JoinAll();
  EXPECT_TRUE(Read(b_, "use", 0, 100).ok());
  EXPECT_TRUE(Read(OrderChecker::kHost, "host", 0, 100).ok());
}

TEST_F(OrderCheckerTest, AReservationTakenBackIsForgotten) {
  EXPECT_TRUE(Write(a_, "make", 0, 100).ok());
  checker_.RemoveReservation(memory_);
  checker_.AddReservation(memory_, sizeof memory_, "again");
  EXPECT_TRUE(Write(b_, "other", 0, 100).ok());
  EXPECT_FALSE(Read(b_, "use", 100, 101).ok());
}

}  // namespace
}  // namespace tideline
