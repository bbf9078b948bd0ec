// The verifier's twin for tiny Programs: explores every interleaving and judges by what goes wrong.
//
// Each rank runs alone through all states its lanes can reach (how far each lane has come), with
// real memory: buffers that are alive, bytes that are written. Wrong is an access to a dead buffer,
// a read of an unwritten byte, a birth over living bytes, two instructions that can run at the same
// time and touch a byte that one of them writes, a buffer born twice or never freed. Then all ranks
// play in list order, in every way: stuck or mismatched communication is wrong. It knows neither
// happens-before nor intervals and shares no code with the verifier or the layout.
#ifndef TIDELINE_TESTS_PLANNER_PROGRAM_BRUTE_FORCE_H_
#define TIDELINE_TESTS_PLANNER_PROGRAM_BRUTE_FORCE_H_

#include <array>
#include <cstdint>
#include <string>

#include "planner/program/program.h"

namespace tideline {

// Empty when nothing can go wrong, else what did. Precondition: ids are in range.
std::string BruteForce(const Program& program, const std::array<int64_t, kSpaces>& capacity);

// Empty when playing all lanes of all ranks at once can never get stuck, whatever the interleaving
// (what list order alone must guarantee); else where. For few instructions only.
std::string BruteForceConcurrently(const Program& program);

// The largest live sum over all states of all sections, with the persistent buffers.
int64_t EnumerateLiveBound(const Role& role, Space space);

}  // namespace tideline

#endif  // TIDELINE_TESTS_PLANNER_PROGRAM_BRUTE_FORCE_H_
