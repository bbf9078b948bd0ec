// The first part of the verifier: a Program's numbers mean something, so that everything after it
// may index and add without looking. O(size of the Program + ranks x affines).
#ifndef TIDELINE_PLANNER_PROGRAM_VERIFY_STRUCTURE_H_
#define TIDELINE_PLANNER_PROGRAM_VERIFY_STRUCTURE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "base/status.h"
#include "planner/program/program.h"

namespace tideline {

// No role has more lanes: vector clocks are instructions x lanes.
inline constexpr size_t kMaximumLanes = 64;

// Byte counts and offsets are below this, so that sums of a few of them do not overflow.
inline constexpr int64_t kMaximumBytes = int64_t{1} << 60;

// OK, or an InternalError with what, where and why. Checks: the mesh and its ranks, the interned
// tables, and per instruction its ids, lane, operands (count, access, bytes, inside their buffers
// on every rank of the role) and waits.
Status VerifyStructure(const Program& program);

// The part of it that looks at the mesh, the ranks and the interned tables.
Status VerifyTables(const Program& program);

// Bytes of one operand of a kernel; nullopt when they are negative or above kMaximumBytes.
std::optional<int64_t> BytesOf(const OperandSpec& spec);

// The number of members of a group: the same for every rank.
int64_t GroupSize(const Program& program, const Group& group);

// "role `stage 2`, body 0, compute instruction #17 `layers.3.mlp.up`": how messages of the verifier
// begin.
std::string Where(const Program& program, const Role& role, size_t section, uint32_t instruction);

// "buffer 12 `layers.3.x`".
std::string BufferText(const Program& program, const Role& role, uint32_t buffer);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_VERIFY_STRUCTURE_H_
