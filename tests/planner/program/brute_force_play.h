// Plays a section of all ranks together, in every order of what they can do, looking only at who
// waits for whom and whether those that meet agree.
#ifndef TIDELINE_TESTS_PLANNER_PROGRAM_BRUTE_FORCE_PLAY_H_
#define TIDELINE_TESTS_PLANNER_PROGRAM_BRUTE_FORCE_PLAY_H_

#include <string>
#include <vector>

#include "planner/program/program.h"

namespace tideline {

// One section per rank; nullptr where a rank has nothing to play.
using SectionOfRanks = std::vector<const Section*>;

// Each rank strictly in list order. Empty, or how it gets stuck or disagrees.
std::string PlayLists(const Program& program, const SectionOfRanks& sections);

// All lanes of all ranks at once.
std::string PlayLanes(const Program& program, const SectionOfRanks& sections);

}  // namespace tideline

#endif  // TIDELINE_TESTS_PLANNER_PROGRAM_BRUTE_FORCE_PLAY_H_
