// Live bound: the most bytes that can be alive at once on a rank, over every interleaving that the
// order of one section allows (DEFINITIONS 2). Exact.
//
// A set of instructions that can have happened is a downset of happens-before; an alloc in it
// weighs +bytes, a free -bytes. The heaviest downset is a maximum closure, found by minimum cut
// (Picard 1976; Boykov and Kolmogorov 2004). Only what the cut can tell apart is a node: waits that
// others imply are dropped, and a stretch of a lane between needed waits is two nodes, its best
// prefix and the rest. Near linear on Programs: 10^5 instructions take some 30 ms.
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
