// The simulator as the search's evaluator: each plan is lowered and simulated in a child process.
#ifndef TIDELINE_CLI_SIMULATOR_EVALUATOR_H_
#define TIDELINE_CLI_SIMULATOR_EVALUATOR_H_

#include <memory>

#include "base/progress.h"
#include "base/status.h"
#include "planner/search/evaluator.h"

namespace tideline {

// Reports each evaluated plan as progress. Precondition: the process has one thread.
StatusOr<std::unique_ptr<PlanEvaluator>> MakeSimulatorEvaluator(const ProgressOptions& progress);

}  // namespace tideline

#endif  // TIDELINE_CLI_SIMULATOR_EVALUATOR_H_
