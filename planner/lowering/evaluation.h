// The draft that the evaluation of a batch is emitted from.
#ifndef TIDELINE_PLANNER_LOWERING_EVALUATION_H_
#define TIDELINE_PLANNER_LOWERING_EVALUATION_H_

#include "planner/draft/draft.h"

namespace tideline {

// `draft` with the same tensors and of a model with batch norms only the forward nodes: the norms
// take the running statistics instead of the batch's, and nothing makes, gathers or tracks
// statistics. Other models stay as they are. O(nodes).
Draft ForEvaluation(const Draft& draft);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_LOWERING_EVALUATION_H_
