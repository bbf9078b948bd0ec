#include "tests/sim/play.h"

#include <gtest/gtest.h>

#include <utility>

namespace tideline {

SimulationResult MustSimulate(const Program& program, const ClusterSpec& cluster,
                              const SimulationOptions& options, RunSink* sink) {
  StatusOr<SimulationResult> result = Simulate(program, cluster, options, sink);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  for (const RankResult& rank : result->ranks) {
    EXPECT_NEAR(rank.split.Total(), rank.step_s, 1e-9 * rank.step_s) << rank.rank;
  }
  return *std::move(result);
}

}  // namespace tideline
