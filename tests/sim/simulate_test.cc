#include "sim/simulate.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"
#include "tests/sim/play.h"

namespace tideline {
namespace {

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

// Stage 0 computes 3 s and sends for 1 s: a step of 4 s. Stage 1 all-reduces over tp, 0.5 s, what
// it received, then computes 1 s. It is done 1.5 s after the message and waits for the next one
// until stage 0 has computed: 4 - 1 (message) - 0.5 - 1 = 1.5 s of bubble, though what its kernel
// waits for is the all-reduce, at which both ranks are at the same time.
TEST(SimulateTest, APipelinesBubbleIsOneBehindACollectiveToo) {
  Program program;
  ProgramBuilder build(&program);
  build.AddRole("stage 0");
  build.AddRole("stage 1");
  SetMesh(program, 1, 2, 2, true);
  Hand first(&program, &build, 0);
  first.Send(Axis::kPipeline, 1, 100000000000, {first.Compute(3)});
  Hand second(&program, &build, 1);
  const uint32_t received = second.Receive(Axis::kPipeline, -1, 100000000000);
  second.Compute(1, {second.AllReduce(Axis::kTensor, 50000000000, {received})});
  const SimulationResult result = MustSimulate(program, TestCluster(1, 4));
  EXPECT_NEAR(result.step_time_s, 4, kTight);
  const TimeSplit<double>& split = result.ranks[2].split;
  EXPECT_NEAR(split.compute, 1, kTight);
  EXPECT_NEAR(split.bubble, 1.5, kTight);
  EXPECT_NEAR(split.exposed_comm, 1 + 0.5, kTight);
  EXPECT_NEAR(split.stall, 0, kTight);
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
