// Data parallelism: every replica runs its share of the micro-batches.
#ifndef TIDELINE_PLANNER_TECHNIQUES_DATA_PARALLEL_LOWER_H_
#define TIDELINE_PLANNER_TECHNIQUES_DATA_PARALLEL_LOWER_H_

#include "base/status.h"
#include "planner/draft/draft.h"

namespace tideline {

bool UsesDataParallel(const Plan& plan);

// Sets mesh[dp] and the micro-batches of one replica, and has replicas share the statistics of
// batch norms. The emitted body then reduces every bucket over dp as soon as its gradients are
// complete.
Status LowerDataParallel(Draft& draft);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_DATA_PARALLEL_LOWER_H_
