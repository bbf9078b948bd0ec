// Collective: what one collective does to the bytes of its members, executed literally.
//
// Elements are taken through fp32 in blocks of 1,024: the members' values are loaded, added in the
// declared order (exec/comm/reduction.h), rounded once and stored to every member that gets them.
// O(members x count) time, O(members) scratch. In place and out of place give the same bits.
#ifndef TIDELINE_EXEC_COMM_COLLECTIVE_H_
#define TIDELINE_EXEC_COMM_COLLECTIVE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "exec/device/operation.h"
#include "planner/program/program.h"

namespace tideline {

std::string_view Name(ReductionOrder order);  // "rank"

// Bytes of one member's input and output when they are apart.
int64_t InputBytes(const Collective& collective, int32_t members);
int64_t OutputBytes(const Collective& collective, int32_t members);

// "all_reduce fp32 [outer 1, block 64] sum in order rank": what two members must agree on.
std::string Describe(const Collective& collective);

// With one outer piece, a pointer to the member's own part of the other buffer means in place: both
// then are the whole buffer.
void RecogniseInPlace(const Collective& collective, int32_t member, const void*& input,
                      void*& output);

// Counts not negative and without overflow, a type that can be reduced, input and output apart or
// equal. Errors (exit 1) name the field.
Status ValidateCollective(const Collective& collective, int32_t members, const void* input,
                          const void* output);

// The bytes that member `member` reads and writes. In place with more than 64 outer pieces the
// member's own part of an all-gather counts as written only.
void AppendRanges(const Collective& collective, int32_t members, int32_t member, const void* input,
                  const void* output, absl::InlinedVector<Range, 6>& ranges);

struct MemberBuffers {
  const void* input = nullptr;
  void* output = nullptr;  // equal to input: in place
};

// Precondition: ValidateCollective held for every member.
void RunCollective(const Collective& collective, std::span<const MemberBuffers> members);

}  // namespace tideline

#endif  // TIDELINE_EXEC_COMM_COLLECTIVE_H_
