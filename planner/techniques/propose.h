// How a room proposes: given what is pinned and what other rooms have decided so far, the ways in
// which its own decisions could go.
#ifndef TIDELINE_PLANNER_TECHNIQUES_PROPOSE_H_
#define TIDELINE_PLANNER_TECHNIQUES_PROPOSE_H_

#include <vector>

#include "planner/plan/pins.h"
#include "planner/plan/workload.h"

namespace tideline {

struct ProposeContext {
  const Workload& workload;
  const Pins& pinned;
};

// Extends `partial` by the room's decisions, one entry per alternative; pinned decisions are kept.
// Empty when nothing fits. Alternatives that can win under no objective are left out unless pinned.
using Proposer = std::vector<Pins> (*)(const ProposeContext& context, const Pins& partial);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_PROPOSE_H_
