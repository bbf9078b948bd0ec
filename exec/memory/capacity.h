// Capacity: says, before anything runs, which buffer of a role does not fit its device.
#ifndef TIDELINE_EXEC_MEMORY_CAPACITY_H_
#define TIDELINE_EXEC_MEMORY_CAPACITY_H_

#include <array>
#include <cstdint>

#include "base/status.h"
#include "planner/program/program.h"

namespace tideline {

// OK when every rank's extents fit: device memory per rank, pinned memory summed over the ranks of
// a node. Else a RunError (exit 1) naming the rank, the first buffer in list order that lies beyond
// the capacity, and the tide (live bytes by category) when it is allocated. Precondition: addresses
// are assigned.
Status CheckCapacity(const Program& program, int ranks_per_node, int64_t device_bytes,
                     int64_t pinned_bytes_per_node);

}  // namespace tideline

#endif  // TIDELINE_EXEC_MEMORY_CAPACITY_H_
