// The optimizer's settings on the command line: --lr, --lr-schedule, --clip-norm and --loss-scale.
// What they leave out has the default of plan.proto.
#ifndef TIDELINE_CLI_OPTIMIZER_OPTIONS_H_
#define TIDELINE_CLI_OPTIMIZER_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "models/ir/attributes.h"
#include "planner/program/program.h"

namespace tideline {

std::vector<OptionRecord> OptimizerOptions();

// Errors are usage errors (exit 2) that name the option and the key.
StatusOr<AdamSettings> ReadOptimizer(const OptionValues& options);

// --clip-norm and --loss-scale.
struct GradientOptions {
  double clip_norm = 0;              // 0: none
  std::optional<double> loss_scale;  // none: the type's default
  int64_t loss_scale_steps = GradientControl().growth_steps;
};

// Errors as above.
StatusOr<GradientOptions> ReadGradientOptions(const OptionValues& options);

}  // namespace tideline

#endif  // TIDELINE_CLI_OPTIMIZER_OPTIONS_H_
