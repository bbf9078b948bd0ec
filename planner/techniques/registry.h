// The techniques: who proposes decisions and who rewrites a draft, in order.
#ifndef TIDELINE_PLANNER_TECHNIQUES_REGISTRY_H_
#define TIDELINE_PLANNER_TECHNIQUES_REGISTRY_H_

#include <span>
#include <string_view>

#include "base/status.h"
#include "planner/draft/draft.h"
#include "planner/plan/plan.h"
#include "planner/techniques/propose.h"

namespace tideline {

// One room's part of lowering.
struct LoweringPass {
  std::string_view name;
  // Whether the plan's decisions make the pass change anything.
  bool (*applies)(const Plan& plan);
  Status (*run)(Draft& draft);
};

// One room's part of the search, in the order in which decisions are made: tensor_parallel,
// data_parallel, pipeline, zero, checkpoint. Each may read what those before it have decided.
std::span<const Proposer> Proposers();

// The explicit list. Each pass may rely on those before it having run.
std::span<const LoweringPass> LoweringPasses();

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_REGISTRY_H_
