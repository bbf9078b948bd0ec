#include "planner/lowering/section_writer.h"

#include <algorithm>

namespace tideline {

SectionWriter::SectionWriter(const Role* role, Section* section)
    : role_(role),
      builder_(role, section),
      section_(section),
      lanes_(role->lanes.size()),
      last_on_lane_(lanes_, kNoId),
      lane_clocks_(lanes_ * lanes_, 0) {}

void SectionWriter::GrowTo(uint32_t buffer) {
  if (buffer < writer_.size()) return;
  const size_t count = std::max<size_t>(role_->buffers.size(), buffer + 1);
  writer_.resize(count, kNoId);
  readers_.resize(count * lanes_, kNoId);
}

void SectionWriter::WaitFor(uint32_t instruction, uint16_t lane) {
  if (instruction == kNoId) return;
  const uint16_t other = section_->instructions[instruction].lane;
  uint32_t* clock = &lane_clocks_[lane * lanes_];
  if (other == lane || clock[other] > instruction) return;
  waits_.push_back(instruction);
  const uint32_t* theirs = &clocks_[instruction * lanes_];
  for (size_t l = 0; l < lanes_; ++l) clock[l] = std::max(clock[l], theirs[l]);
}

uint32_t SectionWriter::Append(const Instruction& instruction, std::span<const Operand> operands,
                               std::span<const uint32_t> more_waits) {
  const uint16_t lane = instruction.lane;
  waits_.clear();
  for (const Operand& operand : operands) {
    GrowTo(operand.buffer);
    WaitFor(writer_[operand.buffer], lane);
    if (operand.access == Access::kRead) continue;
    for (size_t l = 0; l < lanes_; ++l) WaitFor(readers_[operand.buffer * lanes_ + l], lane);
  }
  for (const uint32_t wait : more_waits) WaitFor(wait, lane);

  const uint32_t index = builder_.Append(instruction, operands, waits_);
  last_on_lane_[lane] = index;
  uint32_t* clock = &lane_clocks_[lane * lanes_];
  clock[lane] = index + 1;
  clocks_.insert(clocks_.end(), clock, clock + lanes_);

  for (const Operand& operand : operands) {
    uint32_t* readers = &readers_[operand.buffer * lanes_];
    if (operand.access == Access::kRead) {
      readers[lane] = index;
    } else {
      writer_[operand.buffer] = index;
      std::fill(readers, readers + lanes_, kNoId);
    }
  }
  return index;
}

}  // namespace tideline
