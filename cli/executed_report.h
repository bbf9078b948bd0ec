// What an execution is reported as: the figures of its step, and the whole result as text and JSON.
#ifndef TIDELINE_CLI_EXECUTED_REPORT_H_
#define TIDELINE_CLI_EXECUTED_REPORT_H_

#include <optional>
#include <string>

#include "base/status.h"
#include "cli/step_report.h"
#include "exec/interpreter/run_report.h"
#include "planner/plan/plan.h"
#include "planner/program/program.h"

namespace tideline {

// The step figures of an execution: what was reserved and observed, and the measured times
// (DEFINITIONS 18: the median over steps 2..N, the largest over ranks; none with a single step).
StatusOr<StepReport> ExecutedReport(const Plan& plan, const Program& program, const RunReport& run);

// The result of `execute`. `report` is none when nothing was left to run: its figures are null in
// the JSON then, and left out of the text.
std::string ExecutedJson(const Plan& plan, const std::string& device,
                         const std::optional<StepReport>& report, const RunReport& run);
std::string ExecutedText(const Plan& plan, const std::string& device,
                         const std::optional<StepReport>& report, const RunReport& run);

}  // namespace tideline

#endif  // TIDELINE_CLI_EXECUTED_REPORT_H_
