#include "exec/comm/reduction.h"

#include <cmath>

#include "gtest/gtest.h"

namespace tideline {
namespace {

// Writes out the sum that the steps make of r0, r1, ...
std::string Written(ReductionOrder order, int32_t members, int32_t first) {
  std::vector<std::string> rows;
  for (int32_t rank = 0; rank < members; ++rank) rows.push_back(std::to_string(rank));
  const ReductionSteps steps = StepsOf(order, members, first);
  for (const ReductionStep& step : steps.steps) {
    rows[step.into] = "(" + rows[step.into] + "+" + rows[step.from] + ")";
  }
  return rows[steps.result];
}

TEST(ReductionTest, OrdersAreWrittenOut) {
  EXPECT_EQ(Written(ReductionOrder::kRank, 1, 0), "0");
  EXPECT_EQ(Written(ReductionOrder::kRank, 4, 3), "(((0+1)+2)+3)");
  EXPECT_EQ(Written(ReductionOrder::kRing, 4, 2), "(((2+3)+0)+1)");
  EXPECT_EQ(Written(ReductionOrder::kTree, 4, 0), "((0+1)+(2+3))");
  EXPECT_EQ(Written(ReductionOrder::kTree, 5, 0), "(((0+1)+2)+(3+4))");
  EXPECT_EQ(Written(ReductionOrder::kTree, 7, 0), "(((0+1)+(2+3))+((4+5)+6))");
  // Recursive halving of 4: first partners at distance 2, then 1.
  EXPECT_EQ(Written(ReductionOrder::kHalvingDoubling, 4, 0), "((0+2)+(1+3))");
  EXPECT_EQ(Written(ReductionOrder::kHalvingDoubling, 8, 0), "(((0+4)+(2+6))+((1+5)+(3+7)))");
  // 6 = 4 + 2: ranks 0,1 and 2,3 act as one each.
  EXPECT_EQ(Written(ReductionOrder::kHalvingDoubling, 6, 0), "(((0+1)+4)+((2+3)+5))");
}

TEST(ReductionTest, EveryOrderAddsEveryRankOnce) {
  for (const ReductionOrder order : {ReductionOrder::kRank, ReductionOrder::kRing,
                                     ReductionOrder::kTree, ReductionOrder::kHalvingDoubling}) {
    for (int32_t members = 1; members <= 17; ++members) {
      for (int32_t first = 0; first < members; ++first) {
        std::vector<float> values(members);
        std::vector<float*> rows;
        for (int32_t rank = 0; rank < members; ++rank) {
          values[rank] = std::ldexp(1.0f, rank);
          rows.push_back(&values[rank]);
        }
        const float sum = *Reduce(StepsOf(order, members, first), Reduction::kSum, rows, 1);
        EXPECT_EQ(sum, std::ldexp(1.0f, members) - 1.0f);
      }
    }
  }
}

TEST(ReductionTest, MaximumKeepsNan) {
  float a = 1.0f, b = std::nanf(""), c = 3.0f;
  float* rows[] = {&a, &b, &c};
  EXPECT_TRUE(
      std::isnan(*Reduce(StepsOf(ReductionOrder::kRank, 3, 0), Reduction::kMaximum, rows, 1)));
}

TEST(ReductionTest, RingChunksCoverTheCountWithTheLongerOnesFirst) {
  // 10 elements over 4 members: 3, 3, 2, 2.
  const int64_t ends[] = {3, 3, 3, 6, 6, 6, 8, 8, 10, 10};
  const int32_t numbers[] = {0, 0, 0, 1, 1, 1, 2, 2, 3, 3};
  for (int64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(RingChunkAt(i, 10, 4).end, ends[i]);
    EXPECT_EQ(RingChunkAt(i, 10, 4).number, numbers[i]);
  }
  // Fewer elements than members: one element each, the rest of the chunks are empty.
  EXPECT_EQ(RingChunkAt(2, 3, 8).end, 3);
  EXPECT_EQ(RingChunkAt(2, 3, 8).number, 2);
}

}  // namespace
}  // namespace tideline
