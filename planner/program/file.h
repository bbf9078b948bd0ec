// The file form of a Program (program.proto).
//
// Serialize is deterministic. Parse trusts nothing: what it returns has passed the structural part
// of the verifier, and it takes memory in proportion to the bytes. Columns keep both linear; 10^6
// instructions are some 10 MB and well under a second.
#ifndef TIDELINE_PLANNER_PROGRAM_FILE_H_
#define TIDELINE_PLANNER_PROGRAM_FILE_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "planner/program/program.h"

namespace tideline {

// Precondition: VerifyStructure holds (what lowering makes and Parse returns).
std::string Serialize(const Program& program);

// Errors (exit 5) name the field: not a protocol buffer, another version, unknown fields, values
// out of range, columns of unequal length, whatever VerifyStructure refuses.
StatusOr<Program> Parse(std::string_view bytes);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_FILE_H_
