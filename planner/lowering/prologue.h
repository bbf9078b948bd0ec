// Prologue of one role: parameters, master weights and optimizer states get their first values.
//
// Every parameter is drawn whole (this tp rank's box of it) in fp32, then rounded into the compute
// type and, of sharded buckets, cut; so initial values depend on no plan (DEFINITIONS 8).
#ifndef TIDELINE_PLANNER_LOWERING_PROLOGUE_H_
#define TIDELINE_PLANNER_LOWERING_PROLOGUE_H_

#include "planner/lowering/stage_context.h"

namespace tideline {

void EmitPrologue(StageContext& context);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_LOWERING_PROLOGUE_H_
