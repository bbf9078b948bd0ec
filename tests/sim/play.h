// Playing small Programs in the simulator's tests: one that is written in place, and a simulation
// that must succeed.
#ifndef TIDELINE_TESTS_SIM_PLAY_H_
#define TIDELINE_TESTS_SIM_PLAY_H_

#include "sim/simulate.h"
#include "tests/sim/synthetic_program.h"

namespace tideline {

// Seconds; durations of a TestCluster are exact but for their sums' rounding.
inline constexpr double kTight = 1e-9;

// A Program of one role on a mesh, its section written by `write(hand)`.
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

// Simulates; a failure is the test's, and so is a rank whose parts of time do not add up to its
// step.
SimulationResult MustSimulate(const Program& program, const ClusterSpec& cluster,
                              const SimulationOptions& options = {}, RunSink* sink = nullptr);

}  // namespace tideline

#endif  // TIDELINE_TESTS_SIM_PLAY_H_
