// RunState: what the rank threads of one run share: losses, the run's sink, figures per rank, the
// first error.
#ifndef TIDELINE_EXEC_INTERPRETER_RUN_STATE_H_
#define TIDELINE_EXEC_INTERPRETER_RUN_STATE_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "exec/interpreter/interpreter.h"
#include "exec/interpreter/register_file.h"
#include "exec/interpreter/section_trace.h"

namespace tideline {

class RunState {
 public:
  // `first_step` steps were done before; `losses` are theirs.
  RunState(const Program& program, const ExecuteHooks& hooks, std::vector<double> losses,
           int64_t steps);

  // A rank read the loss of `step`. Errors: ranks read different bits (internal); the loss is no
  // finite number (exit 4), which is then the run's divergence.
  Status OnLoss(int32_t rank, int64_t step, float loss);

  // A rank played the gate of `step`. Errors: ranks found different norms (internal); gradients are
  // no finite numbers and cannot be skipped (exit 4), which is then the run's divergence.
  Status OnGate(int32_t rank, int64_t step, const GateReading& reading);

  // A rank wrote a replicated register. Error (internal): another rank wrote something else at the
  // same time of its own count.
  Status OnRegister(int32_t rank, uint32_t id, double value);

  // A rank has played a section; `step` -1 for prologue and epilogue.
  void OnSection(int32_t rank, int64_t step, const SectionTrace& trace, MemoryTide& tide);

  void OnNote(std::string_view text);

  // From now on a divergence is kept but stops nothing.
  void KeepGoing() { keeps_going_ = true; }

  // Empty, or which loss of which step was no finite number, and what to do about it. To be asked
  // when no rank plays any more.
  const std::string& divergence() const { return divergence_; }
  int64_t diverged_step() const { return diverged_step_; }

  // The losses of the first `steps` steps.
  std::vector<double> LossesOf(int64_t steps);
  // The same of their gradients; empty where the Program has no gate.
  std::vector<StepGradients> GradientsOf(int64_t steps);

  RankReport& rank(int32_t rank) { return ranks_[rank]; }
  std::vector<RankReport> TakeRanks() { return std::move(ranks_); }

 private:
  Status Diverge(int64_t step, const std::string& what);
  void Report(int64_t step);

  const Program& program_;
  const ExecuteHooks hooks_;
  const int64_t first_step_;
  const int64_t steps_;
  std::mutex mutex_;
  std::vector<uint32_t> names_;  // of the sink, by Program::names
  std::vector<double> losses_;
  std::vector<int32_t> loss_reader_;      // by step; -1: not read yet
  bool gated_ = false;                    // some gate was played
  std::vector<StepGradients> gradients_;  // by step
  // Writes of replicated registers that not every rank has made yet.
  struct Written {
    int32_t rank = 0;  // the first that made it
    double value = 0;
    size_t ranks = 0;
  };
  std::map<std::pair<uint32_t, int64_t>, Written> written_;  // by register and count
  std::vector<std::vector<int64_t>> writes_;                 // by rank and register
  bool keeps_going_ = false;
  std::string divergence_;
  int64_t diverged_step_ = -1;
  struct Progress {
    size_t ranks = 0;
    int64_t longest_ns = 0;
  };
  std::map<int64_t, Progress> progress_;
  std::vector<RankReport> ranks_;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_INTERPRETER_RUN_STATE_H_
