// Ways to shard model states over dp.
#ifndef TIDELINE_PLANNER_TECHNIQUES_ZERO_PROPOSE_H_
#define TIDELINE_PLANNER_TECHNIQUES_ZERO_PROPOSE_H_

#include <vector>

#include "planner/techniques/propose.h"

namespace tideline {

// Stages 0 to 3 where dp > 1, else 0. Stages 2 and 3 of several micro-batches also with gradients
// reduced after each: only then is no whole gradient kept, at the price of more communication.
std::vector<Pins> ProposeZero(const ProposeContext& context, const Pins& partial);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_ZERO_PROPOSE_H_
