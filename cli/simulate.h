// tideline simulate: one step of a plan in virtual time.
#ifndef TIDELINE_CLI_SIMULATE_H_
#define TIDELINE_CLI_SIMULATE_H_

#include <memory>

#include "cli/command.h"
#include "cli/step_report.h"
#include "planner/plan/plan.h"
#include "planner/program/program.h"
#include "sim/simulate.h"

namespace tideline {

std::unique_ptr<Command> MakeSimulateCommand();

// Memory and times of one simulated step. `result` may be null.
StatusOr<StepReport> SimulatedReport(const Plan& plan, const Program& program,
                                     const SimulationOptions& options, RunSink* sink,
                                     SimulationResult* result);

}  // namespace tideline

#endif  // TIDELINE_CLI_SIMULATE_H_
