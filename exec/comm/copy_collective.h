// A collective as copies and adds by kernels of ours (--comm copy): what runs several ranks on one
// GPU, which NCCL does not do.
//
// CopyPasses cuts a collective into passes, each one kernel launch in which every element is
// loaded from the members that have it, added in the declared order (exec/comm/reduction.h) in
// fp32, rounded once, and stored to every member that gets it. The bits are those of RunCollective
// (exec/comm/collective.h). An all-reduce in ring order takes a pass per chunk, a reduce-scatter
// and an all-gather one per member, the others one. All members' memory must be readable by the
// device that runs the passes.
#ifndef TIDELINE_EXEC_COMM_COPY_COLLECTIVE_H_
#define TIDELINE_EXEC_COMM_COPY_COLLECTIVE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "exec/comm/collective.h"
#include "exec/comm/reduction.h"
#include "exec/device/operation.h"
#include "exec/device/table.h"
#include "planner/program/program.h"

namespace tideline {

inline constexpr int kMaxCopyMembers = 32;

// Element (outer, i), i in [0, block), of [0, outer) x [0, block): read from every source at
// from_first + outer * from_outer + i, written to every destination likewise.
struct CopyPass {
  int64_t outer = 1, block = 0;
  int64_t from_first = 0, from_outer = 0;
  int64_t to_first = 0, to_outer = 0;
  Reduction reduction = Reduction::kSum;
  Table<const void*, kMaxCopyMembers> sources;
  Table<void*, kMaxCopyMembers> destinations;
  // Over the sources' values; none: one source that is copied.
  Table<ReductionStep, kMaxCopyMembers> steps;
  int32_t result = 0;
};

// Precondition: ValidateCollective held for every member. Errors (exit 6): more than
// kMaxCopyMembers members.
StatusOr<std::vector<CopyPass>> CopyPasses(const Collective& collective,
                                           std::span<const MemberBuffers> members);

// Plays a pass on the calling thread; the host build's.
void RunCopyPass(const CopyPass& pass, DType dtype);

// Launches it on `stream`; compiled by nvcc.
Status LaunchCopyPass(Stream stream, uint64_t tag, const CopyPass& pass, DType dtype);

}  // namespace tideline

#endif  // TIDELINE_EXEC_COMM_COPY_COLLECTIVE_H_
