#include "planner/program/order.h"

#include <algorithm>

namespace tideline {

HappensBefore::HappensBefore(const Section& section, size_t lanes) : lanes_(lanes) {
  const size_t count = section.instructions.size();
  lane_.resize(count);
  position_.resize(count);
  previous_.resize(count);
  row_.resize(count);
  rows_.assign(lanes, 0);  // Row 0: nothing has happened.
  std::vector<uint32_t> current_row(lanes, 0), last(lanes, kNoId), length(lanes, 0);
  for (uint32_t index = 0; index < count; ++index) {
    const Instruction& instruction = section.instructions[index];
    const uint16_t lane = instruction.lane;
    lane_[index] = lane;
    position_[index] = length[lane]++;
    previous_[index] = last[lane];
    last[lane] = index;
    if (instruction.waits_begin != instruction.waits_end) {
      const size_t old_row = size_t{current_row[lane]} * lanes;
      const size_t new_row = rows_.size();
      rows_.resize(new_row + lanes);
      std::copy_n(rows_.begin() + old_row, lanes, rows_.begin() + new_row);
      for (const uint32_t wait : section.Waits(instruction)) {
        for (size_t other = 0; other < lanes; ++other) {
          const uint32_t seen = Seen(wait, static_cast<uint16_t>(other));
          rows_[new_row + other] = std::max(rows_[new_row + other], seen);
        }
      }
      current_row[lane] = static_cast<uint32_t>(new_row / lanes);
    }
    row_[index] = current_row[lane];
  }
}

bool HappensBefore::Needed(const Section& section, uint32_t waiting, uint32_t awaited) const {
  const uint32_t previous = previous_[waiting];
  if (previous != kNoId && (previous == awaited || Before(awaited, previous))) return false;
  for (const uint32_t other : section.Waits(section.instructions[waiting])) {
    if (Before(awaited, other)) return false;
  }
  return true;
}

}  // namespace tideline
