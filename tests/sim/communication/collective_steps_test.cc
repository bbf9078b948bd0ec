#include "sim/communication/collective_steps.h"

#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace tideline {
namespace {

constexpr int32_t kSizes[] = {2, 3, 4, 5, 7, 8, 13, 16, 64};

Collective AllReduce(CollectiveAlgorithm algorithm, int64_t bytes) {
  Collective collective;
  collective.algorithm = algorithm;
  collective.block = bytes / 4;
  return collective;
}

int64_t BytesSentBy(const std::vector<CollectiveStep>& steps, int32_t member) {
  int64_t bytes = 0;
  for (const CollectiveStep& step : steps) {
    for (const Transfer& transfer : step.transfers) {
      if (transfer.from == member) bytes += transfer.bytes;
    }
  }
  return bytes;
}

TEST(CollectiveStepsTest, OneMemberMovesNothing) {
  EXPECT_TRUE(StepsOf(AllReduce(CollectiveAlgorithm::kRing, 1024), 1, 1, false).empty());
  EXPECT_TRUE(StepsOf(AllReduce(CollectiveAlgorithm::kTree, 1024), 1, 1, true).empty());
}

// 4 members, 4096 B: 2 * 3 hops of 1024 B, at once or one by one.
TEST(CollectiveStepsTest, RingsAtOnceAndByStepsMoveTheSame) {
  const Collective collective = AllReduce(CollectiveAlgorithm::kRing, 4096);
  const std::vector<CollectiveStep> at_once = StepsOf(collective, 4, 4, false);
  ASSERT_EQ(at_once.size(), 1u);
  EXPECT_EQ(at_once[0].latency_hops, 6);
  EXPECT_EQ(at_once[0].transfers[3], (Transfer{3, 0, 6144}));
  const std::vector<CollectiveStep> by_steps = StepsOf(collective, 4, 4, true);
  ASSERT_EQ(by_steps.size(), 6u);
  EXPECT_EQ(by_steps[5].transfers[0], (Transfer{0, 1, 1024}));
  for (int32_t member = 0; member < 4; ++member) {
    EXPECT_EQ(BytesSentBy(by_steps, member), BytesSentBy(at_once, member));
  }
}

// The gathered tensor is n times the block: 3 members of 400 B, each edge carries 800.
TEST(CollectiveStepsTest, GathersCountTheWholeTensor) {
  Collective collective;
  collective.kind = CollectiveKind::kAllGather;
  collective.outer = 2;
  collective.block = 50;
  EXPECT_EQ(FullBytes(collective, 3), 1200);
  const std::vector<CollectiveStep> steps = StepsOf(collective, 3, 3, false);
  EXPECT_EQ(steps[0].transfers[0].bytes, 800);
  EXPECT_EQ(steps[0].latency_hops, 2);
  collective.kind = CollectiveKind::kReduceScatter;
  EXPECT_EQ(StepsOf(collective, 3, 3, false)[0].transfers[0].bytes, 800);
}

TEST(CollectiveStepsTest, BroadcastsRunDownALine) {
  Collective collective;
  collective.kind = CollectiveKind::kBroadcast;
  collective.block = 100;
  const std::vector<CollectiveStep> steps = StepsOf(collective, 4, 4, false);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].transfers.size(), 3u);
  EXPECT_EQ(steps[0].transfers[2], (Transfer{2, 3, 400}));
  EXPECT_EQ(steps[0].latency_hops, 3);
}

// Whether the steps really reduce: every member ends with every member's contribution. A transfer
// of a tree or a hand-over carries all that its sender has; halving-doubling is followed for the
// whole exchange, in which both partners end a step with the union of what they had.
TEST(CollectiveStepsTest, EveryContributionReachesEveryMember) {
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::kTree, CollectiveAlgorithm::kHalvingDoubling}) {
    for (const int32_t members : kSizes) {
      std::vector<std::set<int32_t>> has(members);
      for (int32_t member = 0; member < members; ++member) has[member] = {member};
      for (const CollectiveStep& step :
           StepsOf(AllReduce(algorithm, 1 << 20), members, members, false)) {
        const std::vector<std::set<int32_t>> before = has;
        for (const Transfer& transfer : step.transfers) {
          has[transfer.to].insert(before[transfer.from].begin(), before[transfer.from].end());
        }
      }
      for (const std::set<int32_t>& contributions : has) {
        EXPECT_EQ(contributions.size(), static_cast<size_t>(members)) << members;
      }
    }
  }
}

// 2 nodes of 3 members, 600 B: each sends 1000 B, 2/3 to its right neighbour and 1/3 to the right
// neighbour of its like on the next node.
TEST(CollectiveStepsTest, RingsOverNodesLeaveThroughEveryMember) {
  const auto steps = StepsOf(AllReduce(CollectiveAlgorithm::kRing, 600), 6, 3, false);
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].latency_hops, 10);
  ASSERT_EQ(steps[0].transfers.size(), 12u);
  EXPECT_EQ(steps[0].transfers[2], (Transfer{1, 2, 667}));
  EXPECT_EQ(steps[0].transfers[3], (Transfer{1, 5, 333}));
  EXPECT_EQ(steps[0].transfers[10], (Transfer{5, 3, 667}));
  EXPECT_EQ(steps[0].transfers[11], (Transfer{5, 0, 333}));
}

TEST(CollectiveStepsTest, RingWidthIsTheMembersPerNode) {
  const auto width = [](const std::vector<int32_t>& members) { return RingWidth(members, 4); };
  EXPECT_EQ(width({0, 1, 2, 3}), 4);
  EXPECT_EQ(width({0, 1, 2, 3, 4, 5, 6, 7}), 4);
  EXPECT_EQ(width({1, 3, 5, 7, 8, 11}), 2);
  EXPECT_EQ(width({0, 4, 8}), 1);
  EXPECT_EQ(width({0, 1, 2, 4, 5}), 1);
  EXPECT_EQ(width({2}), 1);
}

// No member is twice the source or the sink of a step: steps do not queue on their own ports.
TEST(CollectiveStepsTest, AStepUsesEachPortOnce) {
  for (const CollectiveAlgorithm algorithm :
       {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree,
        CollectiveAlgorithm::kHalvingDoubling}) {
    for (const int32_t members : kSizes) {
      for (const CollectiveStep& step :
           StepsOf(AllReduce(algorithm, 1 << 20), members, members, true)) {
        std::set<int32_t> from, to;
        for (const Transfer& transfer : step.transfers) {
          EXPECT_TRUE(from.insert(transfer.from).second);
          EXPECT_TRUE(to.insert(transfer.to).second);
          EXPECT_NE(transfer.from, transfer.to);
        }
      }
    }
  }
}

// 8 members: 2 * (1/2 + 1/4 + 1/8) = 7/4 of the tensor per member, as in a ring.
TEST(CollectiveStepsTest, HalvingDoublingSendsAsMuchAsARing) {
  for (const int32_t members : {2, 4, 8, 16}) {
    const auto steps =
        StepsOf(AllReduce(CollectiveAlgorithm::kHalvingDoubling, 1 << 20), members, members, false);
    const auto ring =
        StepsOf(AllReduce(CollectiveAlgorithm::kRing, 1 << 20), members, members, false);
    for (int32_t member = 0; member < members; ++member) {
      EXPECT_EQ(BytesSentBy(steps, member), BytesSentBy(ring, member)) << members;
    }
  }
}

}  // namespace
}  // namespace tideline
