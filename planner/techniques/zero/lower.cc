#include "planner/techniques/zero/lower.h"

namespace tideline {

// Without replicas there is nothing to shard over, and the plan means the same as with stage 0.
bool UsesZero(const Plan& plan) { return plan.zero > 0 && plan.dp > 1; }

Status LowerZero(Draft& draft) {
  draft.zero = draft.plan.zero;
  draft.reduce = draft.plan.reduce;
  return absl::OkStatus();
}

}  // namespace tideline
