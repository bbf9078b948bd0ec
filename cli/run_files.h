// What verbs that make a Run share: its metadata from plan and program, and the files it goes to.
#ifndef TIDELINE_CLI_RUN_FILES_H_
#define TIDELINE_CLI_RUN_FILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "cli/command.h"
#include "cli/step_report.h"
#include "planner/plan/plan.h"
#include "planner/program/program.h"
#include "traces/run/run_recorder.h"

namespace tideline {

// `source` is "simulated" or "emulated". The metrics are the report's scalars under their JSON
// keys.
RunMetadata MetadataOf(const Plan& plan, const Program& program, const StepReport& report,
                       const std::string& source);

// Lower, for a plan that was read from `path`: every complaint is about that file (exit 5 where it
// would be the command line's otherwise).
StatusOr<Program> LowerPlanOf(const std::string& path, const Plan& plan);

// Which files of a Run a command line asks for; an empty path writes nothing.
struct RunOutputs {
  std::string run;                       // -o: the Run file
  std::string perfetto;                  // --perfetto: Chrome trace JSON
  std::string tide;                      // --tide: SVG
  bool every_tide = false;               // --tide-ranks all
  std::vector<int32_t> tide_ranks = {};  // --tide-ranks 0,3: a panel each; else one per tide
  bool any() const { return !run.empty() || !perfetto.empty() || !tide.empty(); }
};

// --perfetto, --tide and --tide-ranks.
std::vector<OptionRecord> RunFileOptions();

// What -o and the options above say, for a plan of `ranks` ranks. Usage errors (exit 2): "-" as a
// file, ranks that are not there, --tide-ranks without --tide.
StatusOr<RunOutputs> ReadRunOutputs(const CommandContext& context, int32_t ranks);

// Writes the files that `outputs` names out of the recorded Run, which needs its metadata, and
// notes each on stderr. `played_as`: of a folded simulation, the rank that was played for each
// rank.
Status WriteRunFiles(const RunRecorder& run, const RunOutputs& outputs,
                     const std::vector<int32_t>& played_as, const CommandContext& context);

}  // namespace tideline

#endif  // TIDELINE_CLI_RUN_FILES_H_
