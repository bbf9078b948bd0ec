// UpdateGate: what stands between the gradients and the update of a step with clipping or loss
// scaling.
//
// Once every gradient is final, each rank sums the squares of the elements it counts (exactly, so
// the cut does not matter: base/square_sum.h), the sums are added over all ranks, and each host
// reads the total and writes the registers that guard and scale the update
// (planner/program/program.h). Of elements that several ranks hold - replicas over dp without ZeRO,
// parameters that tp does not cut, tied ones on several stages - one copy counts. Gradients that
// are no finite numbers make the sum none, so the same pass finds overflow.
#ifndef TIDELINE_PLANNER_LOWERING_UPDATE_GATE_H_
#define TIDELINE_PLANNER_LOWERING_UPDATE_GATE_H_

#include "planner/lowering/section_writer.h"
#include "planner/lowering/stage_context.h"

namespace tideline {

// The gate of a plan, its registers added to the Program: once per Program.
UpdateGate AddGate(const GradientControl& control, Program* program);

// This rank's part of a bucket's final gradients: whole or the shard.
Operand FinalGradient(StageContext& context, size_t bucket);

// Appends the gate. Every gradient of the section must be final. Precondition: the plan has one.
void EmitGate(StageContext& context, SectionWriter& writer);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_LOWERING_UPDATE_GATE_H_
