// Ways to trade memory for recomputation.
#ifndef TIDELINE_PLANNER_TECHNIQUES_CHECKPOINT_PROPOSE_H_
#define TIDELINE_PLANNER_TECHNIQUES_CHECKPOINT_PROPOSE_H_

#include <vector>

#include "planner/techniques/propose.h"

namespace tideline {

// none, selective and full.
std::vector<Pins> ProposeCheckpoint(const ProposeContext& context, const Pins& partial);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_CHECKPOINT_PROPOSE_H_
