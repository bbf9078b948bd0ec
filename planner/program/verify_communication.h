// The third part of the verifier: messages and collectives of all ranks fit together.
//
// Every section is played across all ranks, each strictly in list order: a message needs both ends,
// a collective all members. It must end, and what meets must agree (bytes of messages; kind, size,
// type and order of collectives). Messages meet on
// channels (planner/program/program.h). Sections are closed: nothing meets across their boundaries.
//
// The outcome does not depend on who moves first, so when all ranks of a role see the same roles at
// the other ends, roles play instead of ranks. O(communication instructions of the roles) then,
// else of the ranks.
#ifndef TIDELINE_PLANNER_PROGRAM_VERIFY_COMMUNICATION_H_
#define TIDELINE_PLANNER_PROGRAM_VERIFY_COMMUNICATION_H_

#include "base/status.h"
#include "planner/program/program.h"

namespace tideline {

// Precondition: VerifyStructure.
Status VerifyCommunication(const Program& program);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_VERIFY_COMMUNICATION_H_
