// LossLog: the losses of a run as CSV, a line per step, written while it runs.
//
//   step,loss,learning_rate,seconds
//   0,5.545177459716797,1e-05,0.041235
//
// With clipping or loss scaling each line goes on with the norm of the step's gradients and the
// loss scale they were computed with (0: none):
//
//   step,loss,learning_rate,seconds,gradient_norm,loss_scale
//   0,5.545177459716797,1e-05,0.041235,0.8125,65536
//
// Each line is one write to the end of the file, so a killed run keeps its lines so far; that is
// why the file is not replaced in one step as the others are. A run that begins at step s (a
// resume) cuts off the lines from s on, and a last line without its end, before it writes its
// first; a run from step 0 so begins anew. Until then an existing file is left as it was.
//
// Errors: exit 5 for a file that is no loss log where a run is resumed, exit 1 when it cannot be
// written; both name the path. One thread.
#ifndef TIDELINE_CLI_LOSS_LOG_H_
#define TIDELINE_CLI_LOSS_LOG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "exec/interpreter/run_report.h"
#include "models/ir/attributes.h"

namespace tideline {

class LossLog {
 public:
  // `adam` gives the learning rates; `gated`: the plan clips gradients or scales the loss.
  LossLog(std::string path, const AdamSettings& adam, bool gated = false);
  LossLog(const LossLog&) = delete;
  LossLog& operator=(const LossLog&) = delete;
  ~LossLog();

  // Whether an existing file can be gone on with; changes nothing.
  Status CheckContinues() const;

  // Makes the file ready for a run whose first step is `step`. Once, before the first Append.
  Status Begin(int64_t step);
  bool begun() const { return descriptor_ >= 0; }

  // The next step; what is not known is left empty.
  Status Append(int64_t step, double loss, std::optional<double> seconds,
                const std::optional<StepGradients>& gradients = {});

  const std::string& path() const { return path_; }

 private:
  Status Write(std::string_view text) const;

  const std::string path_;
  const AdamSettings adam_;
  const std::string_view heading_;
  int descriptor_ = -1;
};

// Writes the steps that a run reports into a log, and passes everything on to another observer. A
// log that fails is said at once, and the run goes on without it.
class LossLogger : public RunObserver {
 public:
  // Both must outlive it.
  LossLogger(LossLog* log, RunObserver* next) : log_(log), next_(next) {}
  void OnStep(const StepResult& result) override;
  void OnNote(std::string_view text) override { next_->OnNote(text); }

  // After a run: adds the step that a diverged run stopped in, and cuts lines beyond the end of a
  // run that had nothing left to do. The log's first failure, if it had any.
  Status Finish(const RunReport& run);

 private:
  LossLog* log_;
  RunObserver* next_;
  Status status_;
};

}  // namespace tideline

#endif  // TIDELINE_CLI_LOSS_LOG_H_
