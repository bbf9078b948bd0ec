// The optimizer's settings on the command line: --lr and --lr-schedule. What they leave out has the
// default of plan.proto.
#ifndef TIDELINE_CLI_OPTIMIZER_OPTIONS_H_
#define TIDELINE_CLI_OPTIMIZER_OPTIONS_H_

#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "models/ir/attributes.h"

namespace tideline {

std::vector<OptionRecord> OptimizerOptions();

// Errors are usage errors (exit 2) that name the option and the key.
StatusOr<AdamSettings> ReadOptimizer(const OptionValues& options);

}  // namespace tideline

#endif  // TIDELINE_CLI_OPTIMIZER_OPTIONS_H_
