#include "sim/interpreter/compiled_section.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/synthetic_program.h"

namespace tideline {
namespace {

struct Written {
  Program program;
  CompiledSection compiled;
  std::vector<LaneUnit> Lane(uint16_t lane) const {
    return {compiled.units.begin() + compiled.lane_begin[lane],
            compiled.units.begin() + compiled.lane_begin[lane + 1]};
  }
};

// `write` fills body 0 of the only role; launches of kernels cost `launch_s`, copies 2 x that.
template <typename Write>
Written Compile(Write write, double launch_s = 1, double slowdown = 1) {
  Written result;
  ProgramBuilder build(&result.program);
  build.AddRole("all");
  SetMesh(result.program, 1, 1, 1, false);
  Hand hand(&result.program, &build, 0);
  write(hand);
  HostProfile host;
  host.kernel_launch_s = launch_s;
  host.copy_launch_s = 2 * launch_s;
  host.host_task_s = 10;
  std::vector<double> seconds;
  for (const Kernel& kernel : result.program.kernels) {
    seconds.push_back(static_cast<double>(kernel.work.bytes_read) / 1e9);
  }
  const Role& role = result.program.roles[0];
  const StatusOr<CompiledSection> compiled = CompileSection(
      {.program = &result.program, .host = &host, .kernel_seconds = seconds, .slowdown = slowdown},
      role, role.bodies[0], 0.5);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  result.compiled = *compiled;
  return result;
}

TEST(CompiledSectionTest, KernelsNobodyWatchesAreOneUnit) {
  const Written it = Compile([](Hand& hand) {
    hand.Compute(3);
    const uint32_t buffer = hand.Buffer("b", 8);
    hand.Alloc(kComputeLane, buffer);
    hand.Compute(1);
    hand.Free(kComputeLane, buffer);
  });
  const std::vector<LaneUnit> units = it.Lane(kComputeLane);
  ASSERT_EQ(units.size(), 1u);
  EXPECT_TRUE(units[0].has_memory);
  EXPECT_EQ(it.compiled.Parts(units[0]).size(), 4u);
  EXPECT_DOUBLE_EQ(units[0].busy_s, 4);
  EXPECT_DOUBLE_EQ(units[0].launch_s, 1.5);    // 0.5 once, then 1 per kernel
  EXPECT_DOUBLE_EQ(units[0].host_end_s, 5.5);  // max(1.5 + 3 + 1, 2.5 + 1)
}

TEST(CompiledSectionTest, WatchedKernelsAndWaitsEndARun) {
  const Written it = Compile([](Hand& hand) {
    hand.Compute(1);
    const uint32_t watched = hand.Compute(1);
    hand.Compute(1);
    const uint32_t copy = hand.CopyToHost(8, {watched});
    hand.Compute(1);
    hand.Compute(1, {copy});
    hand.Compute(1, {copy});  // the lane has waited for it already
  });
  const std::vector<LaneUnit> units = it.Lane(kComputeLane);
  ASSERT_EQ(units.size(), 3u);
  EXPECT_EQ(it.compiled.Parts(units[0]).size(), 2u);
  EXPECT_EQ(it.compiled.Parts(units[1]).size(), 2u);
  EXPECT_EQ(it.compiled.Parts(units[2]).size(), 2u);
  ASSERT_EQ(it.compiled.Waits(units[2]).size(), 1u);
  EXPECT_EQ(it.compiled.Waits(units[2])[0].unit, 0u);
  const std::vector<LaneUnit> copies = it.Lane(2);
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_DOUBLE_EQ(copies[0].launch_s, 5.5);  // 0.5 + 3 kernels + its own 2
  EXPECT_EQ(copies[0].bytes, 8);
  EXPECT_EQ(it.compiled.Waits(copies[0])[0].unit, 0u);  // the run that `watched` ends
}

TEST(CompiledSectionTest, HostTasksEndARunBecauseLaterLaunchesMove) {
  const Written it = Compile([](Hand& hand) {
    hand.Compute(1);
    hand.HostTask();
    hand.Compute(1);
  });
  const std::vector<LaneUnit> units = it.Lane(kComputeLane);
  ASSERT_EQ(units.size(), 2u);
  EXPECT_EQ(units[0].host_tasks_before, 0u);
  EXPECT_EQ(units[1].host_tasks_before, 1u);
  EXPECT_EQ(it.compiled.host_tasks, 1u);
  EXPECT_DOUBLE_EQ(it.Lane(kHostLane)[0].launch_s, 1.5);
  EXPECT_DOUBLE_EQ(it.Lane(kHostLane)[0].busy_s, 10);
}

TEST(CompiledSectionTest, SlowdownStretchesKernelsOnly) {
  const Written it = Compile([](Hand& hand) { hand.Compute(2); }, 1, 1.5);
  EXPECT_DOUBLE_EQ(it.Lane(kComputeLane)[0].busy_s, 3);
  EXPECT_DOUBLE_EQ(it.Lane(kComputeLane)[0].launch_s, 1.5);
}

// The closed form of a run against kernel after kernel, for random runs and starts.
TEST(CompiledSectionTest, RunsEndWhenTheirKernelsDo) {
  std::mt19937 generator(7);
  std::uniform_real_distribution<double> seconds(0.001, 3);
  for (int round = 0; round < 200; ++round) {
    const int kernels = 1 + round % 17;
    std::vector<double> durations;
    for (int i = 0; i < kernels; ++i) {
      durations.push_back(std::round(seconds(generator) * 1e6) / 1e6);
    }
    const double launch_s = round % 3 == 0 ? 0 : seconds(generator) / 2;
    const Written it = Compile(
        [&](Hand& hand) {
          for (const double duration : durations) hand.Compute(duration);
        },
        launch_s);
    const LaneUnit unit = it.Lane(kComputeLane)[0];
    const double base_s = 5, ready_s = base_s + seconds(generator) * 4;
    double end_s = ready_s;
    for (int i = 0; i < kernels; ++i) {
      const double launched_s = base_s + 0.5 + launch_s * (i + 1);
      end_s = std::max(end_s, launched_s) + durations[i];
    }
    EXPECT_NEAR(std::max(ready_s + unit.busy_s, base_s + unit.host_end_s), end_s, 1e-9);
  }
}

}  // namespace
}  // namespace tideline
