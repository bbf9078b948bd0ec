// Body of one role: one training step, or the evaluation of one batch.
//
// An evaluation is the forward half of a step: the loss of a batch, by the same instructions in the
// same order, with nothing saved for backward and nothing that lasts changed.
//
// Units run in the order of the stage's list. Each micro-batch has its own instance of every
// storage; lifetimes are inserted later from what is touched. Lookahead is bounded so that the live
// bound is honest (DEFINITIONS 2): a receive or a copy of tokens may start when the unit two before
// the next one has ended, a unit starts when the sends of the units two before it are done, and
// with ZeRO 3 the parameters of one block are gathered while the block before it runs.
#ifndef TIDELINE_PLANNER_LOWERING_BODY_H_
#define TIDELINE_PLANNER_LOWERING_BODY_H_

#include "planner/lowering/stage_context.h"

namespace tideline {

enum class BodyKind : uint8_t { kTraining, kEvaluation };

// Appends a body to the role.
void EmitBody(StageContext& context, BodyKind kind);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_LOWERING_BODY_H_
