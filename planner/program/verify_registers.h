// The verifier's part about registers: what they are, and that none is read before it is written.
//
// Registers live on the host lane, so the order of the list is the order of their reads and writes.
// O(instructions + registers).
#ifndef TIDELINE_PLANNER_PROGRAM_VERIFY_REGISTERS_H_
#define TIDELINE_PLANNER_PROGRAM_VERIFY_REGISTERS_H_

#include "base/status.h"
#include "planner/program/program.h"

namespace tideline {

// Names are unique, bounds make sense, and what kernels and host tasks refer to is in the table and
// of the right kind: after it every id but Instruction::guard may be used without looking.
Status VerifyRegisterTables(const Program& program);

// In every section: a register that does not persist is written before it is read, under the same
// guard; a guard is not written any more once it has guarded something; communication is guarded by
// replicated registers only; an evaluation writes no persistent register.
// Precondition: VerifyStructure(program).
Status VerifyRegisterUse(const Program& program);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_VERIFY_REGISTERS_H_
