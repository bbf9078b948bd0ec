#include "sim/simulate.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/synthetic_program.h"

namespace tideline {
namespace {

constexpr double kTight = 1e-9;

SimulationResult MustSimulate(const Program& program, const ClusterSpec& cluster,
                              const SimulationOptions& options = {}, RunSink* sink = nullptr) {
  StatusOr<SimulationResult> result = Simulate(program, cluster, options, sink);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  for (const RankResult& rank : result->ranks) {
    EXPECT_NEAR(rank.split.Total(), rank.step_s, 1e-9 * rank.step_s) << rank.rank;
  }
  return *std::move(result);
}

// A Program of one role on a mesh, written by `write`.
template <typename Write>
Program OneRole(int32_t dp, int32_t pp, int32_t tp, Write write) {
  Program program;
  ProgramBuilder build(&program);
  build.AddRole("all");
  SetMesh(program, dp, pp, tp, /*role_per_stage=*/false);
  Hand hand(&program, &build, 0);
  write(hand);
  return program;
}

// Keeps everything.
class Memory : public RunSink {
 public:
  uint32_t Intern(std::string_view name) override {
    names.emplace_back(name);
    return static_cast<uint32_t>(names.size() - 1);
  }
  void DeclareLane(int32_t, uint16_t, std::string_view name) override { lanes.emplace_back(name); }
  void Add(const RunEvent& event) override { events.push_back(event); }
  void Add(const MemorySample& sample) override { samples.push_back(sample); }
  std::vector<std::string> names, lanes;
  std::vector<RunEvent> events;
  std::vector<MemorySample> samples;
};

TEST(SimulateTest, KernelsOfOneRankAddUp) {
  const Program program = OneRole(1, 1, 1, [](Hand& hand) {
    hand.Compute(1);
    hand.Compute(2);
    hand.Compute(3);
  });
  const SimulationResult result = MustSimulate(program, TestCluster(1, 1));
  EXPECT_NEAR(result.step_time_s, 6, kTight);
  EXPECT_NEAR(result.mean.compute, 6, kTight);
  EXPECT_TRUE(result.steady);
  EXPECT_EQ(result.bodies_played, 2);
}

TEST(SimulateTest, AnEmptyBodyTakesNoTime) {
  const Program program = OneRole(1, 1, 1, [](Hand&) {});
  EXPECT_EQ(MustSimulate(program, TestCluster(1, 1)).step_time_s, 0);
}

// Launches of 2 s, kernels of 1 s: kernel j starts at 2j, the fifth ends at 11. The host is waited
// for 2 s before the first and 1 s before each other: 6 s.
TEST(SimulateTest, LaunchCostsBoundSmallKernels) {
  const Program program = OneRole(1, 1, 1, [](Hand& hand) {
    for (int i = 0; i < 5; ++i) hand.Compute(1);
  });
  ClusterSpec cluster = TestCluster(1, 1);
  cluster.host.kernel_launch_s = 2;
  const SimulationResult result = MustSimulate(program, cluster);
  EXPECT_NEAR(result.step_time_s, 11, kTight);
  EXPECT_NEAR(result.mean.compute, 5, kTight);
  EXPECT_NEAR(result.mean.host, 6, kTight);
}

// Launches at 1, 2, 3; kernels 3, 0.5, 0.5: 1-4, 4-4.5, 4.5-5. With 0.25 s once per step: 5.25.
TEST(SimulateTest, LaunchesRunAheadOfLongKernels) {
  const Program program = OneRole(1, 1, 1, [](Hand& hand) {
    hand.Compute(3);
    hand.Compute(0.5);
    hand.Compute(0.5);
  });
  ClusterSpec cluster = TestCluster(1, 1);
  cluster.host.kernel_launch_s = 1;
  EXPECT_NEAR(MustSimulate(program, cluster).step_time_s, 5, kTight);
  cluster.host.step_s = 0.25;
  EXPECT_NEAR(MustSimulate(program, cluster).step_time_s, 5.25, kTight);
}

// The host task waits for the first kernel (ends 1 + 3 = 4), takes 2 s, and only then the second
// kernel is launched: 6 + 1 = 7, runs 1 s.
TEST(SimulateTest, AHostTaskHoldsLaterLaunches) {
  const Program program = OneRole(1, 1, 1, [](Hand& hand) {
    const uint32_t first = hand.Compute(3);
    hand.HostTask({first});
    hand.Compute(1);
  });
  ClusterSpec cluster = TestCluster(1, 1);
  cluster.host.kernel_launch_s = 1;
  cluster.host.host_task_s = 2;
  const SimulationResult result = MustSimulate(program, cluster);
  EXPECT_NEAR(result.step_time_s, 8, kTight);
  EXPECT_NEAR(result.mean.host, 4, kTight);
  EXPECT_NEAR(result.mean.compute, 4, kTight);
}

// A ring over 4 ports: 2 * 3/4 * 4e9 B / 100e9 B/s + 6 * 1e-3 s = 0.066 s, by one flow per edge and
// by steps.
TEST(SimulateTest, RingAllReduceMeetsItsClosedForm) {
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
TEST(SimulateTest, OtherCollectivesMoveTheirShares) {
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
TEST(SimulateTest, TreesAndHalvingDoublingGoByLevels) {
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
TEST(SimulateTest, AbsentPeersAreBubblesAndMovingBytesAreExposed) {
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
TEST(SimulateTest, GroupsShareANic) {
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
TEST(SimulateTest, RingsOverNodesUseEveryNic) {
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
TEST(SimulateTest, LeafUplinksAreShared) {
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

// A copy of 50e9 B takes 1 s on PCIe: beside a kernel of 1 s nothing is lost, before it 1 s is.
// Both directions at once do not disturb each other. DRAM of 50e9 B/s under two GPUs doubles it.
TEST(SimulateTest, CopiesOverlapKernelsAndShareDram) {
  const Program beside = OneRole(1, 1, 1, [](Hand& hand) {
    hand.CopyToDevice(50000000000);
    hand.CopyToHost(50000000000);
    hand.Compute(1);
  });
  EXPECT_NEAR(MustSimulate(beside, TestCluster(1, 1)).step_time_s, 1, kTight);
  const Program before =
      OneRole(1, 1, 2, [](Hand& hand) { hand.Compute(1, {hand.CopyToDevice(50000000000)}); });
  ClusterSpec cluster = TestCluster(1, 2);
  const SimulationResult result = MustSimulate(before, cluster);
  EXPECT_NEAR(result.step_time_s, 2, kTight);
  EXPECT_NEAR(result.mean.exposed_comm, 1, kTight);
  EXPECT_EQ(result.ranks[1].host_bytes_copied, 50000000000);
  cluster.node.dram_bandwidth = 50e9;
  EXPECT_NEAR(MustSimulate(before, cluster).step_time_s, 3, kTight);
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
TEST(SimulateTest, PipelinesTakeTheirMakespan) {
  constexpr double kBytes = 1e-8;
  EXPECT_NEAR(OneForwardOneBackward({1, 1, 1, 1}, {2, 2, 2, 2}, 8, 0), 33, kBytes);
  EXPECT_NEAR(OneForwardOneBackward({1, 2, 1}, {2, 4, 2}, 4, 0), 28, kBytes);
  EXPECT_NEAR(OneForwardOneBackward({1, 2, 1}, {2, 4, 2}, 4, 0.5), 30, kBytes);
  EXPECT_NEAR(OneForwardOneBackward({1, 1}, {2, 2}, 4, 0.5), 17, kBytes);
}

// ---- Memory ----

// On the compute lane: a (10) from 0 to 2, b (7) from 1 to 3; c (5) is allocated on the h2d lane at
// 0 and freed there when the copy is over at 0.5, when only a is live besides. Persistent: 100.
// Peak 100 + 10 + 7.
TEST(SimulateTest, MemoryFollowsAllocAndFree) {
  const Program program = OneRole(1, 1, 1, [](Hand& hand) {
    hand.Buffer("parameters", 100, Category::kParameter, true);
    const uint32_t a = hand.Buffer("a", 10), b = hand.Buffer("b", 7);
    const uint32_t c = hand.Buffer("c", 5, Category::kWorkspace);
    const uint16_t h2d = hand.LaneOf({LaneKind::kHostToDevice, kNoId});
    hand.Alloc(kComputeLane, a);
    hand.Compute(1);
    hand.Alloc(h2d, c);
    hand.CopyToDevice(25000000000);
    hand.Free(h2d, c);
    hand.Alloc(kComputeLane, b);
    hand.Compute(1);
    hand.Free(kComputeLane, a);
    hand.Compute(1);
    hand.Free(kComputeLane, b);
  });
  Memory memory;
  const SimulationResult result = MustSimulate(program, TestCluster(1, 1), {}, &memory);
  EXPECT_EQ(result.ranks[0].live_peak_bytes[0], 117);
  EXPECT_EQ(result.ranks[0].live_peak_bytes[1], 0);
  std::vector<std::pair<int64_t, int64_t>> activations;  // of the first body
  for (const MemorySample& sample : memory.samples) {
    if (sample.category == static_cast<uint8_t>(Category::kActivation) && activations.size() < 4) {
      activations.emplace_back(sample.time_ns, sample.live_bytes);
    }
  }
  const std::vector<std::pair<int64_t, int64_t>> expected = {
      {0, 10}, {1000000000, 17}, {2000000000, 7}, {3000000000, 0}};
  EXPECT_EQ(activations, expected);
}

// c lives on another lane just while a and b do: 10 + 7 + 5 when the copy takes until 1.5 s.
TEST(SimulateTest, LanesMeetInTheTide) {
  const Program program = OneRole(1, 1, 1, [](Hand& hand) {
    const uint32_t a = hand.Buffer("a", 10), b = hand.Buffer("b", 7), c = hand.Buffer("c", 5);
    const uint16_t h2d = hand.LaneOf({LaneKind::kHostToDevice, kNoId});
    hand.Alloc(kComputeLane, a);
    hand.Compute(1);
    hand.Alloc(h2d, c);
    hand.CopyToDevice(75000000000);
    hand.Free(h2d, c);
    hand.Alloc(kComputeLane, b);
    hand.Compute(1);
    hand.Free(kComputeLane, a);
    hand.Free(kComputeLane, b);
  });
  EXPECT_EQ(MustSimulate(program, TestCluster(1, 1)).ranks[0].live_peak_bytes[0], 22);
}

// ---- Events ----

// Fused kernels come out one by one at their own times: launches at 1, 2, 3; see above.
TEST(SimulateTest, TheSinkGetsEveryInstruction) {
  const Program program = OneRole(1, 1, 2, [](Hand& hand) {
    hand.Compute(3);
    hand.Compute(0.5);
    hand.Compute(0.5);
    hand.AllReduce(Axis::kTensor, 1000);
  });
  ClusterSpec cluster = TestCluster(1, 2);
  cluster.host.kernel_launch_s = 1;
  Memory memory;
  MustSimulate(program, cluster, {.fold = false, .slow = {}}, &memory);
  EXPECT_EQ(memory.events.size(), 2u * 2u * 4u);  // ranks, bodies, instructions
  std::vector<std::pair<int64_t, int64_t>> times;
  for (const RunEvent& event : memory.events) {
    if (event.rank != 1 || event.step != 0 || event.lane != kComputeLane) continue;
    times.emplace_back(event.start_ns, event.end_ns);
    EXPECT_EQ(memory.names[event.name], "kernel");
  }
  const std::vector<std::pair<int64_t, int64_t>> expected = {
      {1000000000, 4000000000}, {4000000000, 4500000000}, {4500000000, 5000000000}};
  EXPECT_EQ(times, expected);
  EXPECT_EQ(std::count(memory.lanes.begin(), memory.lanes.end(), "compute"), 2);
}

// ---- Schedules, stragglers ----

// Ranks that never meet have spacings of their own; the slowest counts.
TEST(SimulateTest, TheSlowestRankSetsTheStep) {
  const Program program = OneRole(1, 1, 4, [](Hand& hand) { hand.Compute(2); });
  const SimulationResult result = MustSimulate(program, TestCluster(1, 4), {.slow = {{2, 1.5}}});
  EXPECT_NEAR(result.step_time_s, 3, kTight);
  EXPECT_NEAR(result.ranks[1].step_s, 2, kTight);
  EXPECT_TRUE(result.steady);
}

TEST(SimulateTest, AStragglerHoldsItsGroupUp) {
  const Program program = OneRole(1, 1, 4, [](Hand& hand) {
    hand.Compute(1, {hand.AllReduce(Axis::kTensor, 1000000000, {hand.Compute(2)})});
  });
  // 2 * 3/4 * 1e9 / 100e9 = 0.015.
  EXPECT_NEAR(MustSimulate(program, TestCluster(1, 4)).step_time_s, 3.015, kTight);
  const SimulationResult slow = MustSimulate(program, TestCluster(1, 4), {.slow = {{1, 1.2}}});
  EXPECT_NEAR(slow.step_time_s, 3.615, kTight);
  EXPECT_NEAR(slow.ranks[0].split.bubble, 0.4 + 0.2, kTight);
}

// A warm-up body of 5 s comes first; the steady one takes 2 s.
TEST(SimulateTest, WarmUpBodiesAreNotTheStep) {
  Program program;
  ProgramBuilder build(&program);
  build.AddRole("all");
  SetMesh(program, 1, 1, 1, false);
  Hand(&program, &build, 0).Compute(5);
  Hand(&program, &build, 0).Compute(2);
  program.schedule = {{.body = 0, .times = 1}, {.body = 1, .times = 0}};
  const SimulationResult result = MustSimulate(program, TestCluster(1, 1));
  EXPECT_NEAR(result.step_time_s, 2, kTight);
  EXPECT_EQ(result.bodies_played, 3);
}

// ---- Errors ----

TEST(SimulateTest, DeadlocksNameWhatIsBlocked) {
  Program program;
  ProgramBuilder build(&program);
  build.AddRole("first");
  build.AddRole("second");
  SetMesh(program, 1, 2, 1, true);
  for (uint32_t role = 0; role < 2; ++role) {
    Hand hand(&program, &build, role);
    const int32_t other = role == 0 ? 1 : -1;
    const uint32_t got = hand.Receive(Axis::kPipeline, other, 8);
    hand.Send(Axis::kPipeline, other, 8, {got});
  }
  const StatusOr<SimulationResult> result = Simulate(program, TestCluster(1, 2), {}, nullptr);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(ExitCode(result.status()), 1);
  const std::string text(result.status().message());
  EXPECT_NE(text.find("rank 0: receive 'receive' (instruction 0 of body 0, lane 'receive pp+1') "
                      "waits for rank 1"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("send 'send' (instruction 1 of body 0, lane 'send pp-1') waits for receive"),
            std::string::npos)
      << text;
}

TEST(SimulateTest, EndsOfATransferMustMatch) {
  Program program;
  ProgramBuilder build(&program);
  build.AddRole("first");
  build.AddRole("second");
  SetMesh(program, 1, 2, 1, true);
  Hand(&program, &build, 0).Send(Axis::kPipeline, 1, 8);
  Hand(&program, &build, 1).Receive(Axis::kPipeline, -1, 16);
  const StatusOr<SimulationResult> result = Simulate(program, TestCluster(1, 2), {}, nullptr);
  ASSERT_FALSE(result.ok());
  const std::string text(result.status().message());
  EXPECT_NE(text.find("rank 0 is at send 'send'"), std::string::npos) << text;
  EXPECT_NE(text.find("with 8 bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("with 16 bytes"), std::string::npos) << text;
}

TEST(SimulateTest, TheProgramMustFitTheCluster) {
  const Program program = OneRole(1, 1, 4, [](Hand& hand) { hand.Compute(1); });
  const StatusOr<SimulationResult> result = Simulate(program, TestCluster(1, 3), {}, nullptr);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(ExitCode(result.status()), 5);
  EXPECT_NE(result.status().message().find("has 3 GPUs"), std::string::npos);
  for (const auto& [rank, factor] : {std::pair(4, 1.5), std::pair(-1, 1.5), std::pair(0, 0.0)}) {
    const StatusOr<SimulationResult> slow =
        Simulate(program, TestCluster(1, 4), {.slow = {{rank, factor}}}, nullptr);
    EXPECT_EQ(ExitCode(slow.status()), 2);
  }
}

}  // namespace
}  // namespace tideline
