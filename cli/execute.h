// tideline execute: runs a plan on devices, in a worker process.
#ifndef TIDELINE_CLI_EXECUTE_H_
#define TIDELINE_CLI_EXECUTE_H_

#include <memory>

#include "cli/command.h"
#include "exec/interpreter/run_report.h"
#include "exec/worker/protocol.h"
#include "planner/plan/plan.h"
#include "planner/program/program.h"

namespace tideline {

std::unique_ptr<Command> MakeExecuteCommand();

// A request to play `program` on emulated devices with the memory of the plan's GPUs; everything
// else has its default.
WorkerRequest RequestFor(const Plan& plan, const Program& program);

// Shows steps as progress and notes on stderr. `context` must outlive it.
std::unique_ptr<RunObserver> MakeStepWatcher(int64_t steps, CommandContext* context);

}  // namespace tideline

#endif  // TIDELINE_CLI_EXECUTE_H_
