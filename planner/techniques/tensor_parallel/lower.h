// 1-D tensor parallelism (Megatron-LM), optionally with the sequence cut between the cut operators.
#ifndef TIDELINE_PLANNER_TECHNIQUES_TENSOR_PARALLEL_LOWER_H_
#define TIDELINE_PLANNER_TECHNIQUES_TENSOR_PARALLEL_LOWER_H_

#include "base/status.h"
#include "planner/draft/draft.h"

namespace tideline {

bool UsesTensorParallel(const Plan& plan);

// Replaces the training graph by that of one tp rank. Cuts start at the parameters
// (Tensor::tensor_parallel_dim) and flow through the nodes by the letters of the op table:
// a cut letter that is summed over leaves a partial sum, partial sums flow
// through additions and are reduced where something else needs the value. The bias of a
// row-parallel product is added after the sum; the cross entropy of cut logits is split into row
// maximum, partial sums and finish. With sequence sharding sums are reduce-scattered along the
// sequence, norms and residuals work on shards, and shards are gathered before the products, again
// in backward. Errors (exit 5) name the tensor and the extents that do not divide.
Status LowerTensorParallel(Draft& draft);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_TENSOR_PARALLEL_LOWER_H_
