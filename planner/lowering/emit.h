// Emit: the instructions of a draft.
#ifndef TIDELINE_PLANNER_LOWERING_EMIT_H_
#define TIDELINE_PLANNER_LOWERING_EMIT_H_

#include "planner/draft/draft.h"
#include "planner/program/program.h"

namespace tideline {

// One role per stage, with prologue and one body, with `evaluation` a second one outside the
// schedule; ranks in mesh order; no lifetimes or addresses yet (InsertLifetimes and AssignAddresses
// follow). Works after any pass. Linear in the instructions.
Program Emit(const Draft& draft, bool evaluation = false);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_LOWERING_EMIT_H_
