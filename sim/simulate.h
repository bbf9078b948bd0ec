// Simulate: one step of a Program on a cluster, in virtual time.
//
//   TL_ASSIGN_OR_RETURN(SimulationResult result, Simulate(program, cluster, {}, nullptr));
//   result.step_time_s;                      // DEFINITIONS 18
//   result.mean.compute / result.step_time_s;  // where the time goes, DEFINITIONS 19
//
// Cost: gpt3-175b on 128 nodes of 8 in seconds with folding (bench/sim_simulate_bench.cc). Memory
// is proportional to the instructions of the roles and the units of the simulated ranks.
//
// At most one Simulate runs in a process at a time, on one thread, and SimGrid aborts on violated
// internal assertions: programs that must survive that, or evaluate many plans, go through
// sim/evaluator.h.
#ifndef TIDELINE_SIM_SIMULATE_H_
#define TIDELINE_SIM_SIMULATE_H_

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "base/status.h"
#include "models/cluster/cluster_spec.h"
#include "planner/program/attribution.h"
#include "planner/program/program.h"
#include "traces/run/run_sink.h"

namespace tideline {

struct SimulationOptions {
  bool fold = true;                // simulate one node per class (sim/fold/fold.h)
  bool explicit_steps = false;     // ring collectives step by step instead of one flow per edge
  std::map<int32_t, double> slow;  // rank -> factor on its kernel times, > 0 (stragglers)
  int32_t max_bodies = 8;          // played at most while the spacing is not steady
};

// One rank, simulated or stood for.
struct RankResult {
  int32_t rank = 0;
  int32_t simulated_as = 0;  // the rank that was played for it; itself when unfolded
  double step_s = 0;
  TimeSplit<double> split;                         // adds up to step_s
  std::array<int64_t, kSpaces> live_peak_bytes{};  // of all played bodies, without runtime
  int64_t node_bytes_sent = 0;                     // per step, over NVLink or PCIe to GPUs
  int64_t network_bytes_sent = 0;                  // per step, through NICs
  int64_t host_bytes_copied = 0;                   // per step, to and from the host
};

struct SimulationResult {
  double step_time_s = 0;
  bool steady = false;            // false: the spacing still changed after max_bodies
  TimeSplit<double> mean;         // over ranks
  std::vector<RankResult> ranks;  // every rank, ascending
  int32_t node_classes = 0;       // nodes really simulated
  int32_t bodies_played = 0;
  int64_t activities = 0;  // flows and timers of the engine
};

// `sink` may be null; it gets the events and memory samples of the simulated ranks in the first two
// bodies, the second being the steady one, in no order across ranks. Errors: exit 5 for a cluster
// that lacks what the Program needs or is smaller than it, exit 2 for a bad `slow`, exit 1 for a
// deadlock, with the blocked instructions of each rank.
StatusOr<SimulationResult> Simulate(const Program& program, const ClusterSpec& cluster,
                                    const SimulationOptions& options, RunSink* sink);

}  // namespace tideline

#endif  // TIDELINE_SIM_SIMULATE_H_
