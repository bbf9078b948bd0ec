// The techniques that rewrite a draft, in the order in which they do.
#ifndef TIDELINE_PLANNER_TECHNIQUES_REGISTRY_H_
#define TIDELINE_PLANNER_TECHNIQUES_REGISTRY_H_

#include <span>
#include <string_view>

#include "base/status.h"
#include "planner/lowering/draft.h"
#include "planner/plan/plan.h"

namespace tideline {

// One room's part of lowering.
struct LoweringPass {
  std::string_view name;
  // Whether the plan's decisions make the pass change anything.
  bool (*applies)(const Plan& plan);
  Status (*run)(Draft& draft);
};

// The explicit list. Each pass may rely on those before it having run.
std::span<const LoweringPass> LoweringPasses();

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_REGISTRY_H_
