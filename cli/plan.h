// tideline plan: searches the plans of a model on a cluster.
#ifndef TIDELINE_CLI_PLAN_H_
#define TIDELINE_CLI_PLAN_H_

#include <memory>

#include "cli/command.h"

namespace tideline {

std::unique_ptr<Command> MakePlanCommand();

}  // namespace tideline

#endif  // TIDELINE_CLI_PLAN_H_
