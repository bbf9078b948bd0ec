// Verifier: proves a Program safe for every interleaving its order allows, or names what is wrong.
//
// Checked, in this order (the first finding is reported: role, section, instruction index and name,
// buffer):
// 1. structure: ids in range, operands inside their buffers, waits earlier in the list and on
// another lane;
//    registers of sound bounds, each written before it is read;
// 2. lifetimes: kAlloc before, kFree after every access in the happens-before relation; every
// buffer of a section is
//    allocated and freed once; what a body leaves resident is what it found (persistent buffers
//    only);
// 3. every byte read was written before it (happens-before), persistent ones by the prologue or the
// body itself; a write under a guard counts only for reads under the same guard;
// 4. no two unordered accesses to overlapping bytes of a buffer (or, with addresses, of the arena)
// of which one writes;
// 5. every peer's sends match its receives in order and bytes; every group issues the same
// collectives in one order, under the same guards;
//    playing every rank strictly in list order does not deadlock;
// 6. the extent of every space is within its capacity.
// Happens-before on one rank: lane order and waits (vector clocks per lane); sections follow each
// other. Edges through other ranks do not count for 2-4 (DEFINITIONS 2). Cost: O(instructions x
// lanes + accesses x log). Ranks of one role are verified once.
#ifndef TIDELINE_PLANNER_PROGRAM_VERIFIER_H_
#define TIDELINE_PLANNER_PROGRAM_VERIFIER_H_

#include <array>
#include <cstdint>
#include <string_view>

#include "base/status.h"
#include "planner/program/program.h"

namespace tideline {

struct VerifyOptions {
  std::array<int64_t, kSpaces> capacity{INT64_MAX, INT64_MAX};  // bytes per rank
  std::string_view after_pass;  // named in the message: "after pass zero"
};

// OK, or an InternalError that says what, where and why (a Program read from a file is wrapped as
// InputError by the caller).
Status Verify(const Program& program, const VerifyOptions& options = {});

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_VERIFIER_H_
