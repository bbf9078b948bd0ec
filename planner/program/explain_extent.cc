#include "planner/program/explain_extent.h"

#include <algorithm>
#include <vector>

#include "planner/program/order.h"

namespace tideline {
namespace {

int64_t EndOf(const Buffer& buffer) {
  return (buffer.address + buffer.bytes + kAlignment - 1) / kAlignment * kAlignment;
}

// Where the buffer of `alloc` could not go: everything persistent, and what came to life before it
// in the list and is not known to be dead.
std::vector<uint32_t> TakenAt(const Role& role, const Section& section, uint32_t alloc,
                              Space space) {
  const HappensBefore order(section, role.lanes.size());
  std::vector<char> taken(role.buffers.size(), false);
  for (size_t index = 0; index < role.buffers.size(); ++index) {
    taken[index] = role.buffers[index].persistent;
  }
  for (uint32_t index = 0; index < section.instructions.size(); ++index) {
    const Instruction& instruction = section.instructions[index];
    if (instruction.kind == InstructionKind::kAlloc && index < alloc) {
      taken[instruction.what] = true;
    } else if (instruction.kind == InstructionKind::kFree && order.Before(index, alloc)) {
      taken[instruction.what] = false;
    }
  }
  std::vector<uint32_t> buffers;
  for (uint32_t index = 0; index < role.buffers.size(); ++index) {
    const Buffer& buffer = role.buffers[index];
    if (taken[index] && buffer.space == space && buffer.bytes > 0) buffers.push_back(index);
  }
  std::sort(buffers.begin(), buffers.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(role.buffers[a].address, a) < std::pair(role.buffers[b].address, b);
  });
  return buffers;
}

}  // namespace

ExtentReason ExplainExtent(const Role& role, Space space) {
  ExtentReason reason;
  const int64_t extent = role.extent[static_cast<size_t>(space)];
  for (const Section* section : Sections(role)) {
    for (uint32_t index = 0; index < section->instructions.size(); ++index) {
      const Instruction& instruction = section->instructions[index];
      if (instruction.kind != InstructionKind::kAlloc) continue;
      const Buffer& highest = role.buffers[instruction.what];
      if (highest.space != space || highest.bytes == 0 || EndOf(highest) != extent) continue;
      reason.highest = instruction.what;
      int64_t end = 0;  // of what was seen so far
      uint32_t last = kNoId;
      const auto see_hole = [&](int64_t begin, uint32_t above) {
        if (begin <= end) return;
        reason.free_bytes += begin - end;
        if (begin - end <= reason.largest_hole) return;
        reason.largest_hole = begin - end;
        reason.below = last;
        reason.above = above;
      };
      for (const uint32_t taken : TakenAt(role, *section, index, space)) {
        const Buffer& buffer = role.buffers[taken];
        if (buffer.address >= highest.address) break;
        see_hole(buffer.address, taken);
        if (EndOf(buffer) <= end) continue;
        end = EndOf(buffer);
        last = taken;
      }
      see_hole(highest.address, reason.highest);
      return reason;
    }
  }
  return reason;
}

}  // namespace tideline
