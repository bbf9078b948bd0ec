// What verbs that make a Run share: its metadata from plan and program, and the files it goes to.
#ifndef TIDELINE_CLI_RUN_FILES_H_
#define TIDELINE_CLI_RUN_FILES_H_

#include <string>

#include "base/status.h"
#include "cli/step_report.h"
#include "planner/plan/plan.h"
#include "planner/program/program.h"
#include "traces/run/run_recorder.h"

namespace tideline {

// `source` is "simulated" or "emulated". The metrics are the report's scalars under their JSON
// keys.
RunMetadata MetadataOf(const Plan& plan, const Program& program, const StepReport& report,
                       const std::string& source);

// Writes the recorded Run as a Run file and as a Chrome/Perfetto trace; an empty path writes
// nothing.
Status WriteRunFiles(const RunRecorder& run, const std::string& run_path,
                     const std::string& perfetto_path);

// Draws live device bytes by category over time, a panel per recorded rank, as SVG. Needs the
// metadata.
Status WriteTide(const RunRecorder& run, const std::string& path);

}  // namespace tideline

#endif  // TIDELINE_CLI_RUN_FILES_H_
