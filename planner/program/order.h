// The happens-before relation of one section on one rank: lane order and waits, nothing else.
//
// Vector clocks (Fidge 1988, Mattern 1989), one component per lane. An instruction without waits
// shares the row of its predecessor on the lane, so memory is O(n + waiting instructions x lanes)
// and building is O(n + waits x lanes). A query is O(1).
#ifndef TIDELINE_PLANNER_PROGRAM_ORDER_H_
#define TIDELINE_PLANNER_PROGRAM_ORDER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "planner/program/program.h"

namespace tideline {

class HappensBefore {
 public:
  // Precondition: lanes of the instructions are below `lanes`, waits point to earlier instructions.
  HappensBefore(const Section& section, size_t lanes);

  // The place of `instruction` on its own lane, from 0.
  uint32_t Position(uint32_t instruction) const { return position_[instruction]; }

  // How many instructions of `lane`, from its first, happen before `instruction` or are it.
  uint32_t Seen(uint32_t instruction, uint16_t lane) const {
    return lane == lane_[instruction] ? position_[instruction] + 1
                                      : rows_[size_t{row_[instruction]} * lanes_ + lane];
  }

  // `first` happens before `second`; false for an instruction and itself.
  bool Before(uint32_t first, uint32_t second) const {
    return first != second && Seen(second, lane_[first]) > position_[first];
  }

  // What a wait adds: false when `waiting` would come after `awaited` without it, by lane order or
  // by another of its waits.
  bool Needed(const Section& section, uint32_t waiting, uint32_t awaited) const;

  // The instruction before this one on its lane; kNoId for the first.
  uint32_t Previous(uint32_t instruction) const { return previous_[instruction]; }

 private:
  size_t lanes_;
  std::vector<uint16_t> lane_;
  std::vector<uint32_t> position_;
  std::vector<uint32_t> previous_;
  std::vector<uint32_t> row_;
  std::vector<uint32_t> rows_;  // rows x lanes; a row's entry for its own lane is unused
};

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_ORDER_H_
