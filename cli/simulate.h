// tideline simulate: one step of a plan in virtual time.
#ifndef TIDELINE_CLI_SIMULATE_H_
#define TIDELINE_CLI_SIMULATE_H_

#include <cstdint>
#include <memory>
#include <vector>

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

// For each rank the one that was played for it, as WriteRunFiles takes it.
std::vector<int32_t> PlayedAsOf(const SimulationResult& result);

}  // namespace tideline

#endif  // TIDELINE_CLI_SIMULATE_H_
