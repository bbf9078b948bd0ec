// Calibrated emulated devices share the cores of their node.
#include <string>

#include "gtest/gtest.h"
#include "tests/sim/play.h"
#include "traces/run/run_recorder.h"

namespace tideline {
namespace {

// Reductions move 100e9 B/s through one core, copies 50e9 (TestCluster's rates).
ClusterSpec OnCores(int32_t gpus, int32_t cores) {
  ClusterSpec cluster = TestCluster(1, gpus);
  cluster.emulated = true;
  cluster.device.calibrated = true;
  cluster.node.host_cores = cores;
  return cluster;
}

Program Kernels(int32_t ranks) {
  return OneRole(ranks, 1, 1, [](Hand& hand) {
    hand.Compute(1);
    hand.Compute(1);
  });
}

// n devices with 2 s of work each on c cores: 2 s while there is a core for each, else 2 n / c.
TEST(SimulateCoresTest, KernelsDivideTheCores) {
  const struct {
    int32_t gpus, cores;
    double step_s;
  } cases[] = {{1, 1, 2}, {1, 7, 2}, {2, 2, 2}, {2, 1, 4}, {3, 2, 3}, {5, 2, 5}, {8, 3, 16.0 / 3}};
  for (const auto& [gpus, cores, step_s] : cases) {
    const SimulationResult result = MustSimulate(Kernels(gpus), OnCores(gpus, cores));
    EXPECT_NEAR(result.step_time_s, step_s, kTight * 10) << gpus << " on " << cores;
    EXPECT_NEAR(result.mean.compute, step_s, kTight * 10) << gpus << " on " << cores;
  }
}

// Nominal devices are as many processors as they say.
TEST(SimulateCoresTest, DevicesThatWereNotMeasuredShareNothing) {
  ClusterSpec cluster = OnCores(4, 1);
  cluster.device.calibrated = false;
  EXPECT_NEAR(MustSimulate(Kernels(4), cluster).step_time_s, 2, kTight);
}

// On one core rank 0 (2 s of work) and rank 1 (4 s) share until rank 0 is done at 4, then rank 1
// has the core for its other 2. A collective of no weight holds the steps together.
TEST(SimulateCoresTest, AFreeCoreGoesToWhoIsLeft) {
  SimulationOptions options;
  options.slow = {{1, 2.0}};
  const Program program =
      OneRole(2, 1, 1, [](Hand& hand) { hand.AllReduce(Axis::kData, 4, {hand.Compute(2)}); });
  const SimulationResult result = MustSimulate(program, OnCores(2, 1), options);
  ASSERT_EQ(result.ranks.size(), 2u);
  EXPECT_NEAR(result.ranks[0].split.compute, 4, kTight * 10);
  EXPECT_NEAR(result.ranks[1].split.compute, 6, kTight * 10);
}

// All-reduce of 25e9 B over two ranks reads and writes 2 x 2 x 25e9 B at 100e9 B/s: 1 s, whatever
// the number of cores; beside it a kernel of 1 s is hidden on two cores and not on one.
TEST(SimulateCoresTest, CollectivesAreWorkOfOneCore) {
  const Program alone =
      OneRole(2, 1, 1, [](Hand& hand) { hand.AllReduce(Axis::kData, 25000000000); });
  EXPECT_NEAR(MustSimulate(alone, OnCores(2, 1)).step_time_s, 1, kTight * 10);
  EXPECT_NEAR(MustSimulate(alone, OnCores(2, 9)).step_time_s, 1, kTight * 10);
  const Program beside = OneRole(2, 1, 1, [](Hand& hand) {
    hand.AllReduce(Axis::kData, 25000000000);
    hand.Compute(1);
  });
  EXPECT_NEAR(MustSimulate(beside, OnCores(2, 3)).step_time_s, 1, kTight * 10);
  EXPECT_NEAR(MustSimulate(beside, OnCores(2, 1)).step_time_s, 3, kTight * 10);
}

// 50e9 B to the device at 50e9 B/s on one core, together with a kernel of 1 s.
TEST(SimulateCoresTest, CopiesAndMessagesAreWorkOfOneCore) {
  const Program copies = OneRole(1, 1, 1, [](Hand& hand) {
    hand.CopyToDevice(50000000000);
    hand.Compute(1);
  });
  EXPECT_NEAR(MustSimulate(copies, OnCores(1, 2)).step_time_s, 1, kTight * 10);
  EXPECT_NEAR(MustSimulate(copies, OnCores(1, 1)).step_time_s, 2, kTight * 10);
  const Program messages = OneRole(1, 2, 1, [](Hand& hand) {
    hand.Send(Axis::kPipeline, 1, 100000000000);
    hand.Receive(Axis::kPipeline, -1, 100000000000);
  });
  EXPECT_NEAR(MustSimulate(messages, OnCores(2, 2)).step_time_s, 1, kTight * 10);
  EXPECT_NEAR(MustSimulate(messages, OnCores(2, 1)).step_time_s, 2, kTight * 10);
}

// Two kernels that follow each other are one piece of work: with half a core each takes twice as
// long, and the events say so.
TEST(SimulateCoresTest, EventsAreStretched) {
  RunRecorder recorder;
  SimulationOptions options;
  options.fold = false;
  MustSimulate(Kernels(2), OnCores(2, 1), options, &recorder);
  int kernels = 0;
  for (const RunEvent& event : recorder.events()) {
    if (event.step != 0) continue;
    EXPECT_NEAR(static_cast<double>(event.end_ns - event.start_ns), 2e9, 10);
    ++kernels;
  }
  EXPECT_EQ(kernels, 4);
}

}  // namespace
}  // namespace tideline
