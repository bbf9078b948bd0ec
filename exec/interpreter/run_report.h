// What a run on devices gives back, whichever process it ran in.
#ifndef TIDELINE_EXEC_INTERPRETER_RUN_REPORT_H_
#define TIDELINE_EXEC_INTERPRETER_RUN_REPORT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/device/device.h"
#include "planner/program/attribution.h"
#include "planner/program/program.h"

namespace tideline {

// Bytes, by Space. `observed` is none unless the run was eager.
struct RankReport {
  std::array<int64_t, kSpaces> extent{};         // of the layout
  std::array<int64_t, kSpaces> reserved_peak{};  // really reserved
  std::array<int64_t, kSpaces> live_peak{};      // allocs and frees as they happened
  std::array<std::optional<ObservedMemory>, kSpaces> observed;
  TimeSplit<int64_t> time_ns;         // summed over the counted steps
  std::vector<int64_t> step_time_ns;  // of the steps played, in order
};

struct TouchedOp {
  Op op = Op::kAdd;
  int64_t declared_bytes = 0;
  int64_t touched_bytes = 0;
};

// The gradients of one step, before clipping and without the loss scale.
struct StepGradients {
  std::optional<double> norm;  // none: not known; infinite: some were no finite numbers
  double loss_scale = 0;       // that they were computed with; 0: none
  bool skipped = false;        // nothing was updated
  bool operator==(const StepGradients&) const = default;
};

struct RunReport {
  std::vector<double> losses;      // of every step from 0
  int64_t resumed_from_step = -1;  // -1: not resumed
  // The first step played warms up and is not counted unless it is the only one.
  int64_t counted_steps = 0;
  std::vector<RankReport> ranks;
  std::vector<TouchedOp> touched;  // with CheckLevel::kKernels; ops that ran
  // What the gates of the steps found; empty where the plan has none. By step from 0, as many as
  // `losses`; those of steps before a resume are not known.
  std::vector<StepGradients> gradients;
  // Empty, or why the run was stopped at the last of `losses`: a loss that is no finite number, or
  // gradients that are none and cannot be skipped.
  std::string finding;
};

// A step that is done.
struct StepResult {
  int64_t step = 0;
  double loss = 0;
  double seconds = 0;                           // the longest of the ranks' times
  std::optional<StepGradients> gradients = {};  // none: the plan has no gate
};

// Called by one thread at a time.
class RunObserver {
 public:
  virtual ~RunObserver() = default;
  // A step has finished on every rank.
  virtual void OnStep(const StepResult& result) = 0;
  // Something the user should know: a damaged checkpoint, an empty folder.
  virtual void OnNote(std::string_view text) = 0;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_INTERPRETER_RUN_REPORT_H_
