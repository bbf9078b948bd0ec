// Activation checkpointing: what a transformer layer drops after forward is made again directly
// before its backward.
#ifndef TIDELINE_PLANNER_TECHNIQUES_CHECKPOINT_LOWER_H_
#define TIDELINE_PLANNER_TECHNIQUES_CHECKPOINT_LOWER_H_

#include "base/status.h"
#include "planner/draft/draft.h"

namespace tideline {

bool UsesCheckpoint(const Plan& plan);

// Fills Draft::replay: for every transformer layer the fewest forward nodes that make the dropped
// storages again from what is kept, their collectives included. "selective" drops the probabilities
// of attention; "full" drops everything but the layer's input. Embedding and head keep what they
// need: the one saves only ids, the other runs backward at once. O(nodes).
Status LowerCheckpoint(Draft& draft);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_CHECKPOINT_LOWER_H_
