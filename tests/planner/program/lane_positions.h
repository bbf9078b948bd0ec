// How far each lane of a section has come, and what can run next: the states that brute force
// walks.
#ifndef TIDELINE_TESTS_PLANNER_PROGRAM_LANE_POSITIONS_H_
#define TIDELINE_TESTS_PLANNER_PROGRAM_LANE_POSITIONS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/program/program.h"

namespace tideline {

// Instructions done, by lane. Sections of tests have fewer than 256.
using Positions = std::vector<uint8_t>;

// A section as lists per lane.
struct Lanes {
  explicit Lanes(const Section& section, size_t lanes) : lists(lanes) {
    for (uint32_t index = 0; index < section.instructions.size(); ++index) {
      std::vector<uint32_t>& list = lists[section.instructions[index].lane];
      place.push_back(static_cast<uint8_t>(list.size()));
      list.push_back(index);
    }
  }

  // Instructions that can run next: the head of each lane whose waits are all done.
  std::vector<uint32_t> Enabled(const Section& section, const Positions& positions) const {
    std::vector<uint32_t> enabled;
    for (size_t lane = 0; lane < lists.size(); ++lane) {
      if (positions[lane] == lists[lane].size()) continue;
      const uint32_t index = lists[lane][positions[lane]];
      bool ready = true;
      for (const uint32_t wait : section.Waits(section.instructions[index])) {
        ready &= place[wait] < positions[section.instructions[wait].lane];
      }
      if (ready) enabled.push_back(index);
    }
    return enabled;
  }

  std::vector<std::vector<uint32_t>> lists;
  std::vector<uint8_t> place;  // of each instruction on its lane
};

}  // namespace tideline

#endif  // TIDELINE_TESTS_PLANNER_PROGRAM_LANE_POSITIONS_H_
