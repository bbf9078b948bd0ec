// Time on links: collectives, shared NICs and uplinks, pipelines.
#include <algorithm>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "sim/simulate.h"
#include "tests/sim/play.h"

namespace tideline {
namespace {

// A ring over 4 ports: 2 * 3/4 * 4e9 B / 100e9 B/s + 6 * 1e-3 s = 0.066 s, by one flow per edge and
// by steps.
TEST(SimulateCommunicationTest, RingAllReduceMeetsItsClosedForm) {
  const Program program = OneRole(
      1, 1, 4, [](Hand& hand) { hand.Compute(1, {hand.AllReduce(Axis::kTensor, 4000000000)}); });
  ClusterSpec cluster = TestCluster(1, 4);
  cluster.node.nvlink_latency_s = 1e-3;
  for (const bool explicit_steps : {false, true}) {
    const SimulationResult result =
        MustSimulate(program, cluster, {.explicit_steps = explicit_steps, .slow = {}});
    EXPECT_NEAR(result.step_time_s, 1.066, kTight);
    EXPECT_NEAR(result.mean.exposed_comm, 0.066, kTight);
    EXPECT_EQ(result.ranks[2].node_bytes_sent, 6000000000);
    EXPECT_EQ(result.ranks[2].network_bytes_sent, 0);
  }
}

// All-gather and reduce-scatter of 4e9 B in all: 3/4 * 4e9 / 100e9 = 0.03 s. A broadcast moves all
// of its 1e9 B over every edge: 0.01 s.
TEST(SimulateCommunicationTest, OtherCollectivesMoveTheirShares) {
  for (const auto& [kind, seconds] : {std::pair(CollectiveKind::kAllGather, 0.03),
                                      std::pair(CollectiveKind::kReduceScatter, 0.03),
                                      std::pair(CollectiveKind::kBroadcast, 0.01)}) {
    Program program;
    ProgramBuilder build(&program);
    build.AddRole("all");
    SetMesh(program, 1, 1, 4, false);
    Hand hand(&program, &build, 0);
    Collective collective;
    collective.kind = kind;
    collective.group = build.Intern(Group{.axes = {Axis::kTensor}, .subset = {}});
    collective.block = 250000000;
    hand.Collective(collective);
    EXPECT_NEAR(MustSimulate(program, TestCluster(1, 4)).step_time_s, seconds, kTight)
        << Name(kind);
  }
}

// 8 ranks, S = 1e9 B, 100e9 B/s, 1 ms: tree 2 * 3 levels of (1 ms + 0.01 s) = 0.066; halving and
// doubling 2 * 3 * 1 ms + 2 * 7/8 * 0.01 = 0.0235. With 6 ranks the two extra ones hand in and get
// back the whole: 2 * (1 ms + 0.01) + 2 * 2 * 1 ms + 2 * 3/4 * 0.01 = 0.041.
TEST(SimulateCommunicationTest, TreesAndHalvingDoublingGoByLevels) {
  struct Case {
    CollectiveAlgorithm algorithm;
    int32_t ranks;
    double seconds;
  };
  for (const Case& it :
       {Case{CollectiveAlgorithm::kTree, 8, 0.066}, Case{CollectiveAlgorithm::kTree, 6, 0.066},
        Case{CollectiveAlgorithm::kHalvingDoubling, 8, 0.0235},
        Case{CollectiveAlgorithm::kHalvingDoubling, 6, 0.041}}) {
    Program program;
    ProgramBuilder build(&program);
    build.AddRole("all");
    SetMesh(program, 1, 1, it.ranks, false);
    Hand hand(&program, &build, 0);
    Collective collective;
    collective.algorithm = it.algorithm;
    collective.group = build.Intern(Group{.axes = {Axis::kTensor}, .subset = {}});
    collective.block = 250000000;
    hand.Collective(collective);
    ClusterSpec cluster = TestCluster(1, it.ranks);
    cluster.node.nvlink_latency_s = 1e-3;
    EXPECT_NEAR(MustSimulate(program, cluster).step_time_s, it.seconds, kTight) << it.ranks;
  }
}

// Rank 0 is ready at 1 s, rank 1 at 3 s; the all-reduce takes 2 * 1/2 * 1e9 / 100e9 = 0.01 s. Rank
// 0 waits 2 s for its peer and 0.01 s for bytes, rank 1 only for bytes.
TEST(SimulateCommunicationTest, AbsentPeersAreBubblesAndMovingBytesAreExposed) {
  Program program;
  ProgramBuilder build(&program);
  build.AddRole("quick");
  build.AddRole("slow");
  SetMesh(program, 1, 2, 1, true);
  for (uint32_t role = 0; role < 2; ++role) {
    Hand hand(&program, &build, role);
    const uint32_t first = hand.Compute(role == 0 ? 1 : 3);
    hand.Compute(1, {hand.AllReduce(Axis::kPipeline, 1000000000, {first})});
  }
  const SimulationResult result = MustSimulate(program, TestCluster(1, 2));
  EXPECT_NEAR(result.step_time_s, 4.01, kTight);
  EXPECT_NEAR(result.ranks[0].split.bubble, 2, kTight);
  EXPECT_NEAR(result.ranks[0].split.exposed_comm, 0.01, kTight);
  EXPECT_NEAR(result.ranks[1].split.bubble, 0, kTight);
  EXPECT_NEAR(result.ranks[1].split.exposed_comm, 0.01, kTight);
  EXPECT_NEAR(result.mean.bubble, 1, kTight);
}

// Two groups {0,2} and {1,3} over two nodes: with a NIC each 1e9 / 10e9 = 0.1 s; sharing one, 0.2.
TEST(SimulateCommunicationTest, GroupsShareANic) {
  const Program program =
      OneRole(2, 1, 2, [](Hand& hand) { hand.AllReduce(Axis::kData, 1000000000); });
  ClusterSpec cluster = TestCluster(2, 2);
  EXPECT_NEAR(MustSimulate(program, cluster).step_time_s, 0.1, kTight);
  cluster.node.nics = 1;
  for (const bool fold : {true, false}) {
    const SimulationResult result = MustSimulate(program, cluster, {.fold = fold, .slow = {}});
    EXPECT_NEAR(result.step_time_s, 0.2, kTight);
    EXPECT_EQ(result.node_classes, fold ? 1 : 2);
    EXPECT_EQ(result.ranks[3].network_bytes_sent, 1000000000);
  }
}

// dp 4 on two nodes of two GPUs, S = 1e9 B: each member sends 1.5e9 B, half of it to its neighbour
// over NVLink and half to the other node over its own NIC: 0.75e9 / 10e9 = 0.075 s. With one NIC
// for both 0.15 s.
TEST(SimulateCommunicationTest, RingsOverNodesUseEveryNic) {
  const Program program =
      OneRole(4, 1, 1, [](Hand& hand) { hand.AllReduce(Axis::kData, 1000000000); });
  ClusterSpec cluster = TestCluster(2, 2);
  for (const int32_t nics : {2, 1}) {
    cluster.node.nics = nics;
    for (const bool fold : {true, false}) {
      const SimulationResult result = MustSimulate(program, cluster, {.fold = fold, .slow = {}});
      EXPECT_NEAR(result.step_time_s, 0.15 / nics, kTight);
      EXPECT_EQ(result.node_classes, fold ? 1 : 2);
      EXPECT_EQ(result.ranks[1].network_bytes_sent, 750000000);
      EXPECT_EQ(result.ranks[1].node_bytes_sent, 750000000);
    }
  }
}

// Two nodes on each of two leafs, 4 groups that all cross: 2 flows up each uplink of 10e9 B/s,
// which alone would take 0.1 s.
TEST(SimulateCommunicationTest, LeafUplinksAreShared) {
  const Program program =
      OneRole(2, 1, 2, [](Hand& hand) { hand.AllReduce(Axis::kData, 1000000000); });
  ClusterSpec cluster = TestCluster(4, 1);
  cluster.fabric.leaf_sizes = {2, 2};
  cluster.fabric.leaf_uplink_bandwidth = 10e9;
  for (const bool fold : {true, false}) {
    const SimulationResult result = MustSimulate(program, cluster, {.fold = fold, .slow = {}});
    EXPECT_NEAR(result.step_time_s, 0.2, kTight);
    EXPECT_EQ(result.node_classes, fold ? 2 : 4);
  }
}

// ---- Pipelines: worked cases, makespans by hand ----

// 1F1B of p stages, one node each, `hop_s` per message.
double OneForwardOneBackward(const std::vector<double>& forward,
                             const std::vector<double>& backward, int32_t micro_batches,
                             double hop_s) {
  const int32_t stages = static_cast<int32_t>(forward.size());
  Program program;
  ProgramBuilder build(&program);
  for (int32_t stage = 0; stage < stages; ++stage) build.AddRole("stage");
  SetMesh(program, 1, stages, 1, true);
  for (int32_t stage = 0; stage < stages; ++stage) {
    Hand hand(&program, &build, stage);
    const auto run_forward = [&] {
      Hand::Waits waits;
      if (stage > 0) waits.push_back(hand.Receive(Axis::kPipeline, -1, 1));
      const uint32_t done = hand.Compute(forward[stage], waits);
      if (stage + 1 < stages) hand.Send(Axis::kPipeline, 1, 1, {done});
    };
    const auto run_backward = [&] {
      Hand::Waits waits;
      if (stage + 1 < stages) waits.push_back(hand.Receive(Axis::kPipeline, 1, 1));
      const uint32_t done = hand.Compute(backward[stage], waits);
      if (stage > 0) hand.Send(Axis::kPipeline, -1, 1, {done});
    };
    const int32_t warm_up = std::min(stages - stage - 1, micro_batches);
    for (int32_t m = 0; m < warm_up; ++m) run_forward();
    for (int32_t m = warm_up; m < micro_batches; ++m) {
      run_forward();
      run_backward();
    }
    for (int32_t m = 0; m < warm_up; ++m) run_backward();
  }
  ClusterSpec cluster = TestCluster(stages, 1);
  cluster.node.nic_latency_s = hop_s;
  return MustSimulate(program, cluster).step_time_s;
}

// A message of one byte takes 1e-10 s, so makespans are met to 1e-8 s.
// p = 4, m = 8, F = 1, B = 2: (8 + 4 - 1) * 3 = 33.
// p = 3, m = 4, F = 1 2 1, B = 2 4 2: stage 1 does F0 at 1-3 and F1 at 3-5, waits for stage 2 (F0
// 3-4, B0 4-6) until 6, and is then busy: 1 + 4 * (2 + 4) + 1 = 26, and stage 0's last B makes
// it 28. With hops of 0.5 s the chain to stage 1, to stage 2 and back, and to stage 0 grows by 4 of
// them: 30. p = 2, m = 4, F = 1, B = 2, hops of 0.5 s: stage 0 ends B0..B3 at 7, 10, 14, 17.
TEST(SimulateCommunicationTest, PipelinesTakeTheirMakespan) {
  constexpr double kBytes = 1e-8;
  EXPECT_NEAR(OneForwardOneBackward({1, 1, 1, 1}, {2, 2, 2, 2}, 8, 0), 33, kBytes);
  EXPECT_NEAR(OneForwardOneBackward({1, 2, 1}, {2, 4, 2}, 4, 0), 28, kBytes);
  EXPECT_NEAR(OneForwardOneBackward({1, 2, 1}, {2, 4, 2}, 4, 0.5), 30, kBytes);
  EXPECT_NEAR(OneForwardOneBackward({1, 1}, {2, 2}, 4, 0.5), 17, kBytes);
}

}  // namespace
}  // namespace tideline
