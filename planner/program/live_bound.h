// Live bound: the most bytes that can be alive at once on a rank, over every interleaving that the
// order of one section allows (DEFINITIONS 2). Exact.
//
// A set of instructions that can have happened is a downset of happens-before; an alloc in it
// weighs +bytes, a free -bytes. The heaviest downset is a maximum closure; by duality (Picard 1976)
// it weighs the bytes of all allocs less the most that can be shipped from allocs to frees that
// happen before them, each alloc and free giving and taking its bytes once. That flow is built in
// list order, each alloc going to the newest free with room, or by augmenting paths over allocs
// that shipped before (Ford and Fulkerson 1956). What a search without success has reached is never
// looked at again: it only ships into itself, and later frees come before none of its allocs. So
// the cost is near linear where lanes do not run far ahead of each other: 10^5 instructions take
// some 20 ms.
#ifndef TIDELINE_PLANNER_PROGRAM_LIVE_BOUND_H_
#define TIDELINE_PLANNER_PROGRAM_LIVE_BOUND_H_

#include <cstdint>
#include <span>

#include "planner/program/order.h"
#include "planner/program/program.h"

namespace tideline {

// `bytes` per buffer of the role: 0 for those that do not count. Buffers that are alive throughout
// are the caller's to add.
int64_t LiveBound(const Section& section, const HappensBefore& order, size_t lanes,
                  std::span<const int64_t> bytes);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_LIVE_BOUND_H_
