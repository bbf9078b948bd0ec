// Why a layout is higher than its live bound: the highest buffer, and the holes below it that were
// too small when it came to life. For people; O(n log n) in the instructions of its section.
#ifndef TIDELINE_PLANNER_PROGRAM_EXPLAIN_EXTENT_H_
#define TIDELINE_PLANNER_PROGRAM_EXPLAIN_EXTENT_H_

#include <cstdint>

#include "planner/program/program.h"

namespace tideline {

// Ids are into Role::buffers.
struct ExtentReason {
  uint32_t highest = kNoId;  // ends at the extent; kNoId: only persistent buffers do
  int64_t free_bytes = 0;    // below it, of no buffer that may have been alive at its birth
  int64_t largest_hole = 0;  // of those, in one piece
  uint32_t below = kNoId;    // the buffers that bound the largest hole; kNoId: the arena's begin
  uint32_t above = kNoId;
};

// Precondition: `role` has lifetimes and addresses.
ExtentReason ExplainExtent(const Role& role, Space space);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_EXPLAIN_EXTENT_H_
