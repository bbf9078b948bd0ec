// What `execute --dry-run` prints: what every rank would do in a step, and what that is predicted
// to take. The checks of the real run come before it (exec/interpreter/interpreter.h, dry_run).
#ifndef TIDELINE_CLI_DRY_RUN_H_
#define TIDELINE_CLI_DRY_RUN_H_

#include <cstdint>
#include <string>

#include "base/status.h"
#include "cli/step_report.h"
#include "exec/interpreter/run_report.h"
#include "planner/plan/plan.h"
#include "planner/program/program.h"

namespace tideline {

// As text or as one JSON document. `checked` is what the worker's checks gave: where a resume would
// begin. `steps` in total, those before a resume included. Errors: those of Simulate.
StatusOr<std::string> DryRunResult(const Plan& plan, const std::string& device,
                                   const Program& program, const RunReport& checked, int64_t steps,
                                   bool json);

}  // namespace tideline

#endif  // TIDELINE_CLI_DRY_RUN_H_
