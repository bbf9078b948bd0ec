// The second part of the verifier: lifetimes, bytes written before they are read, no unordered
// accesses of which one writes, no two buffers alive on the same address. Happens-before is that of
// one rank (planner/program/order.h). O(instructions x lanes + accesses x (log + lanes)).
#ifndef TIDELINE_PLANNER_PROGRAM_VERIFY_MEMORY_H_
#define TIDELINE_PLANNER_PROGRAM_VERIFY_MEMORY_H_

#include <cstdint>

#include "base/status.h"
#include "planner/program/program.h"

namespace tideline {

// Checks every section of one role. Buffers that an operand reaches through an affine are checked
// for each combination of affine values that some rank of the role has, the others once.
// Precondition: VerifyStructure.
Status VerifyMemory(const Program& program, uint32_t role);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_VERIFY_MEMORY_H_
