// What a simulation records: memory over time and events.
#include <algorithm>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "sim/simulate.h"
#include "tests/sim/play.h"
#include "traces/run/run_recorder.h"

namespace tideline {
namespace {

// ---- Memory ----

// On the compute lane: a (10) from 0 to 2, b (7) from 1 to 3; c (5) is allocated on the h2d lane at
// 0 and freed there when the copy is over at 0.5, when only a is live besides. Persistent: 100.
// Peak 100 + 10 + 7.
TEST(SimulateRecordTest, MemoryFollowsAllocAndFree) {
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
  RunRecorder run;
  const SimulationResult result = MustSimulate(program, TestCluster(1, 1), {}, &run);
  EXPECT_EQ(result.ranks[0].live_peak_bytes[0], 117);
  EXPECT_EQ(result.ranks[0].live_peak_bytes[1], 0);
  std::vector<std::pair<int64_t, int64_t>> activations;  // of the first body
  for (const MemorySample& sample : run.samples()) {
    if (sample.category == static_cast<uint8_t>(Category::kActivation) && activations.size() < 4) {
      activations.emplace_back(sample.time_ns, sample.live_bytes);
    }
  }
  const std::vector<std::pair<int64_t, int64_t>> expected = {
      {0, 10}, {1000000000, 17}, {2000000000, 7}, {3000000000, 0}};
  EXPECT_EQ(activations, expected);
}

// c lives on another lane just while a and b do: 10 + 7 + 5 when the copy takes until 1.5 s.
TEST(SimulateRecordTest, LanesMeetInTheTide) {
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
TEST(SimulateRecordTest, TheSinkGetsEveryInstruction) {
  const Program program = OneRole(1, 1, 2, [](Hand& hand) {
    hand.Compute(3);
    hand.Compute(0.5);
    hand.Compute(0.5);
    hand.AllReduce(Axis::kTensor, 1000);
  });
  ClusterSpec cluster = TestCluster(1, 2);
  cluster.host.kernel_launch_s = 1;
  RunRecorder run;
  MustSimulate(program, cluster, {.fold = false, .slow = {}}, &run);
  EXPECT_EQ(run.events().size(), 2u * 2u * 4u);  // ranks, bodies, instructions
  std::vector<std::pair<int64_t, int64_t>> times;
  for (const RunEvent& event : run.events()) {
    if (event.rank != 1 || event.step != 0 || event.lane != kComputeLane) continue;
    times.emplace_back(event.start_ns, event.end_ns);
    EXPECT_EQ(run.names()[event.name], "kernel");
  }
  const std::vector<std::pair<int64_t, int64_t>> expected = {
      {1000000000, 4000000000}, {4000000000, 4500000000}, {4500000000, 5000000000}};
  EXPECT_EQ(times, expected);
  EXPECT_EQ(std::count_if(run.lanes().begin(), run.lanes().end(),
                          [&](const RunLane& lane) { return run.names()[lane.name] == "compute"; }),
            2);
}

}  // namespace
}  // namespace tideline
