// RunState: what the rank threads of one run share: losses, the run's sink, figures per rank, the
// first error.
#ifndef TIDELINE_EXEC_INTERPRETER_RUN_STATE_H_
#define TIDELINE_EXEC_INTERPRETER_RUN_STATE_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "base/status.h"
#include "exec/interpreter/interpreter.h"
#include "exec/interpreter/section_trace.h"

namespace tideline {

class RunState {
 public:
  // `first_step` steps were done before; `losses` are theirs.
  RunState(const Program& program, const ExecuteHooks& hooks, std::vector<double> losses,
           int64_t steps);

  // A rank read the loss of `step`. Ranks that read it must read the same bits: the error is
  // internal.
  Status OnLoss(int32_t rank, int64_t step, float loss);

  // A rank has played a section; `step` -1 for prologue and epilogue.
  void OnSection(int32_t rank, int64_t step, const SectionTrace& trace, MemoryTide& tide);

  void OnNote(std::string_view text);

  // The losses of the first `steps` steps.
  std::vector<double> LossesOf(int64_t steps);

  RankReport& rank(int32_t rank) { return ranks_[rank]; }
  std::vector<RankReport> TakeRanks() { return std::move(ranks_); }

 private:
  void Report(int64_t step);

  const Program& program_;
  const ExecuteHooks hooks_;
  const int64_t first_step_;
  const int64_t steps_;
  std::mutex mutex_;
  std::vector<uint32_t> names_;  // of the sink, by Program::names
  std::vector<double> losses_;
  std::vector<int32_t> loss_reader_;  // by step; -1: not read yet
  struct Progress {
    size_t ranks = 0;
    int64_t longest_ns = 0;
  };
  std::map<int64_t, Progress> progress_;
  std::vector<RankReport> ranks_;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_INTERPRETER_RUN_STATE_H_
