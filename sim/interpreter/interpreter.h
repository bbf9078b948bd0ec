// Interpreter: plays the bodies of a Program in virtual time until the step time is known.
//
// Dates of a rank's own work are computed (sim/interpreter/virtual_rank.h); transfers meet
// (sim/interpreter/meetings.h) and become flows of the engine. A transfer starts when its last end
// is ready, pays its latency, and is over for all ends when its last flow has arrived.
//
// The prologue is not played (making parameters is not part of a step): bodies start at 0 with the
// persistent buffers in place. Bodies follow the schedule, each rank starting one when all its
// lanes have finished the one before, until the spacing is steady: the last body took every rank
// equally long, or each as long as the body before. Then nothing changes any more and playing
// stops; two bodies are enough for most Programs.
//
// Memory: O(units) per simulated rank and O(instructions) per role. One thread.
#ifndef TIDELINE_SIM_INTERPRETER_INTERPRETER_H_
#define TIDELINE_SIM_INTERPRETER_INTERPRETER_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "models/cluster/cluster_spec.h"
#include "planner/program/attribution.h"
#include "planner/program/program.h"
#include "sim/communication/communicators.h"
#include "sim/engine/engine.h"
#include "sim/fold/fold.h"
#include "sim/interpreter/meetings.h"
#include "traces/run/run_sink.h"

namespace tideline {

struct PlayInput {
  const Program& program;
  const ClusterSpec& cluster;
  const Communicators& communicators;
  const Folding& folding;
  std::span<const double> slowdown;        // per rank: multiplies kernel times
  std::span<const double> kernel_seconds;  // per Program::kernels
  bool explicit_steps = false;             // rings by steps
  int32_t max_bodies = 8;                  // played at most, steady or not
  RunSink* sink = nullptr;  // events of the simulated ranks in the first two bodies; may be null
};

// Of one simulated rank, over the last body it played.
struct RankPlay {
  double step_s = 0;  // spacing to the body before
  TimeSplit<double> split;
  std::array<int64_t, kSpaces> live_peak{};  // over all played bodies
  std::array<int64_t, kMedia> bytes_sent{};
};

struct PlayResult {
  double step_time_s = 0;       // the largest spacing
  bool steady = false;          // false: the spacing still changed after max_bodies
  int32_t bodies = 0;           // played to their end
  std::vector<RankPlay> ranks;  // in the order of Folding::ranks
};

// `engine` is fresh. Errors: exit 1 with the blocked instructions of each rank for a deadlock, or
// with both instructions where ends of a transfer do not match; what Build of platform and meetings
// give.
StatusOr<PlayResult> Play(const PlayInput& input, Engine& engine);

}  // namespace tideline

#endif  // TIDELINE_SIM_INTERPRETER_INTERPRETER_H_
