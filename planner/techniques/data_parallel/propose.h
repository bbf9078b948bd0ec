// Ways to share the batch.
#ifndef TIDELINE_PLANNER_TECHNIQUES_DATA_PARALLEL_PROPOSE_H_
#define TIDELINE_PLANNER_TECHNIQUES_DATA_PARALLEL_PROPOSE_H_

#include <vector>

#include "planner/techniques/propose.h"

namespace tideline {

// dp: divisors of the GPUs that tp leaves and of the batch. micro_batch: powers of two up to
// DataParallelOptions::largest_micro_batch that divide a replica's share.
std::vector<Pins> ProposeDataParallel(const ProposeContext& context, const Pins& partial);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_DATA_PARALLEL_PROPOSE_H_
