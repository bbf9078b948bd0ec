// Small random Programs, structurally sound, about half of them with something wrong in order,
// lifetimes, addresses, communication or capacity.
#ifndef TIDELINE_TESTS_PLANNER_PROGRAM_RANDOM_PROGRAM_H_
#define TIDELINE_TESTS_PLANNER_PROGRAM_RANDOM_PROGRAM_H_

#include <array>
#include <cstdint>
#include <random>

#include "planner/program/program.h"

namespace tideline {

struct RandomProgram {
  Program program;
  std::array<int64_t, kSpaces> capacity{INT64_MAX, INT64_MAX};
};

inline constexpr size_t kRandomProgramInstructions = 14;

// At most kRandomProgramInstructions over all roles, 1 to 3 ranks, up to 6 lanes. With `broken`,
// one or two mutations are applied and waits are left out now and then; without, the Program should
// be right (it still may deadlock or read unwritten bytes, rarely).
RandomProgram MakeRandomProgram(std::mt19937_64& random, bool broken);

}  // namespace tideline

#endif  // TIDELINE_TESTS_PLANNER_PROGRAM_RANDOM_PROGRAM_H_
