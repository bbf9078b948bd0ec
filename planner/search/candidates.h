// Candidates: every combination of decisions that the rooms propose, with its estimate.
#ifndef TIDELINE_PLANNER_SEARCH_CANDIDATES_H_
#define TIDELINE_PLANNER_SEARCH_CANDIDATES_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "planner/plan/pins.h"
#include "planner/plan/plan.h"
#include "planner/plan/workload.h"
#include "planner/search/estimate.h"

namespace tideline {

struct Candidate {
  Pins pins;
  Plan plan;
  Estimate estimate;
};

// In the order of the proposals. Error (exit 3) when the pins leave none: says which pin
// contradicts what, with the numbers.
StatusOr<std::vector<Candidate>> EnumerateCandidates(const Workload& workload, const Pins& pinned);

// "tp=8,pp=2,dp=4".
std::string FamilyPin(const Plan& plan);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_SEARCH_CANDIDATES_H_
