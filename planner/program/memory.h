// Memory of a Program: lifetimes, layout and the figures people look at (DEFINITIONS 1-2, 20).
#ifndef TIDELINE_PLANNER_PROGRAM_MEMORY_H_
#define TIDELINE_PLANNER_PROGRAM_MEMORY_H_

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "planner/program/program.h"

namespace tideline {

// Inserts kAlloc and kFree of every non-persistent buffer that the sections of `role` touch
// (DEFINITIONS 1), with the waits a free needs. Precondition: none is there yet; every
// non-persistent buffer is used in one section only.
void InsertLifetimes(Role& role);

// Lays out every role's buffers in every space and writes Buffer::address and Role::extent. Two
// buffers share bytes only if the kFree of one happens before the kAlloc of the other on one rank.
// Deterministic; alignment kAlignment.
void AssignAddresses(Program& program);

// The figures of one role in one space, in unrounded bytes except `extent`; category runtime is not
// in them.
struct MemoryFigures {
  int64_t extent = 0;       // arena bytes of the layout (needs AssignAddresses)
  int64_t live_bound = 0;   // largest live sum over all interleavings, exact (maximum closure)
  int64_t serial_peak = 0;  // static replay in list order
  std::array<int64_t, kCategories>
      peak_by_category{};  // split at the first instruction that reaches serial_peak
  std::array<int64_t, kCategories> category_max{};  // each category's own maximum, in list order
};
MemoryFigures MeasureMemory(const Program& program, const Role& role, Space space);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_MEMORY_H_
