// Ways to cut operators over tp.
#ifndef TIDELINE_PLANNER_TECHNIQUES_TENSOR_PARALLEL_PROPOSE_H_
#define TIDELINE_PLANNER_TECHNIQUES_TENSOR_PARALLEL_PROPOSE_H_

#include <vector>

#include "planner/techniques/propose.h"

namespace tideline {

// tp: divisors of the GPUs that divide heads, key heads and the MLP's columns. sequence_parallel:
// both where tp > 1 divides the sequence.
std::vector<Pins> ProposeTensorParallel(const ProposeContext& context, const Pins& partial);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_TENSOR_PARALLEL_PROPOSE_H_
