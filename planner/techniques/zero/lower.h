// ZeRO: model states sharded over dp.
#ifndef TIDELINE_PLANNER_TECHNIQUES_ZERO_LOWER_H_
#define TIDELINE_PLANNER_TECHNIQUES_ZERO_LOWER_H_

#include "base/status.h"
#include "planner/draft/draft.h"

namespace tideline {

bool UsesZero(const Plan& plan);

// Sets the stage and when gradients are reduced. The parameter layout then pads and cuts buckets,
// and the emitted body reduce-scatters gradients and gathers parameters.
Status LowerZero(Draft& draft);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_ZERO_LOWER_H_
