// Estimate: step time and memory of a plan in closed form, to rank thousands of candidates before
// any is lowered.
//
// Memory adds model state, what the micro-batches in flight keep, and the transient peak of the
// block whose backward runs; layout gaps are not in it. Time adds the schedule's makespan
// (micro-batches and stages in closed form), what gradient reduction cannot hide, and the update.
// Microseconds each.
#ifndef TIDELINE_PLANNER_SEARCH_ESTIMATE_H_
#define TIDELINE_PLANNER_SEARCH_ESTIMATE_H_

#include <cstdint>

#include "planner/plan/plan.h"
#include "planner/search/block_profile.h"

namespace tideline {

struct Estimate {
  double step_time_s = 0;
  int64_t memory_bytes = 0;  // device, runtime reserve included, of the fullest stage
  int64_t instructions = 0;  // of all roles: what lowering and simulating it costs
};

// `profile` must be of the plan's tp, sequence_parallel, micro_batch and types.
Estimate EstimatePlan(const Plan& plan, const ModelProfile& profile);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_SEARCH_ESTIMATE_H_
