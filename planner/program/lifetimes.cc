#include <algorithm>

#include "base/check.h"
#include "planner/program/memory.h"
#include "planner/program/order.h"

namespace tideline {
namespace {

// Accesses of one section, per buffer in list order (a buffer twice in one instruction counts
// once). Flat: entries of buffer b are instructions[begin[b] .. begin[b + 1]).
struct Accesses {
  std::vector<uint32_t> begin;
  std::vector<uint32_t> instructions;
};

Accesses CollectAccesses(const Role& role, const Section& section) {
  Accesses accesses;
  std::vector<uint32_t> last(role.buffers.size(), kNoId);
  accesses.begin.assign(role.buffers.size() + 1, 0);
  const auto for_each = [&](auto&& visit) {
    std::fill(last.begin(), last.end(), kNoId);
    for (uint32_t index = 0; index < section.instructions.size(); ++index) {
      for (const Operand& operand : section.Operands(section.instructions[index])) {
        if (role.buffers[operand.buffer].persistent || last[operand.buffer] == index) continue;
        last[operand.buffer] = index;
        visit(operand.buffer, index);
      }
    }
  };
  for_each([&](uint32_t buffer, uint32_t) { ++accesses.begin[buffer + 1]; });
  for (size_t buffer = 0; buffer < role.buffers.size(); ++buffer) {
    accesses.begin[buffer + 1] += accesses.begin[buffer];
  }
  std::vector<uint32_t> next(accesses.begin.begin(), accesses.begin.end() - 1);
  accesses.instructions.resize(accesses.begin.back());
  for_each([&](uint32_t buffer, uint32_t index) { accesses.instructions[next[buffer]++] = index; });
  return accesses;
}

// Writes the new list of one section: the old instructions, with an alloc before the first and a
// free after the last access of every buffer.
class Rewriter {
 public:
  Rewriter(const Role& role, const Section& old)
      : old_(old), accesses_(CollectAccesses(role, old)), order_(old, role.lanes.size()) {
    last_on_lane_.resize(role.lanes.size());
  }

  Section Rewrite() {
    const size_t count = old_.instructions.size();
    section_.operands = old_.operands;
    section_.instructions.reserve(count + 2 * accesses_.begin.size());
    section_.waits.reserve(2 * old_.waits.size());
    moved_.resize(count);
    for (uint32_t index = 0; index < count; ++index) {
      const size_t before = section_.instructions.size();
      AddAllocs(index);
      // An alloc waits for what its access waits for, else it would claim its bytes early.
      if (section_.instructions.size() > before) {
        AddWaits(section_.instructions[before], old_.Waits(old_.instructions[index]));
      }
      moved_[index] = static_cast<uint32_t>(section_.instructions.size());
      section_.instructions.push_back(old_.instructions[index]);
      AddWaits(section_.instructions.back(), old_.Waits(old_.instructions[index]));
      AddFrees(index);
    }
    return std::move(section_);
  }

 private:
  std::span<const uint32_t> AccessesOf(uint32_t buffer) const {
    return {accesses_.instructions.data() + accesses_.begin[buffer],
            accesses_.instructions.data() + accesses_.begin[buffer + 1]};
  }

  // Calls visit(buffer) once for every non-persistent operand buffer of `index`.
  template <typename Visit>
  void ForEachBuffer(uint32_t index, Visit visit) {
    const std::span<const Operand> operands = old_.Operands(old_.instructions[index]);
    for (size_t i = 0; i < operands.size(); ++i) {
      const uint32_t buffer = operands[i].buffer;
      const auto same = [&](const Operand& other) { return other.buffer == buffer; };
      if (AccessesOf(buffer).empty()) continue;
      if (std::any_of(operands.begin(), operands.begin() + i, same)) continue;
      visit(buffer);
    }
  }

  Instruction& Add(InstructionKind kind, uint32_t buffer, const Instruction& beside) {
    Instruction instruction;
    instruction.kind = kind;
    instruction.what = buffer;
    instruction.lane = beside.lane;
    instruction.phase = beside.phase;
    instruction.layer = beside.layer;
    instruction.micro_batch = beside.micro_batch;
    instruction.waits_begin = instruction.waits_end = static_cast<uint32_t>(section_.waits.size());
    section_.instructions.push_back(instruction);
    return section_.instructions.back();
  }

  void AddAllocs(uint32_t index) {
    ForEachBuffer(index, [&](uint32_t buffer) {
      if (AccessesOf(buffer).front() == index) {
        Add(InstructionKind::kAlloc, buffer, old_.instructions[index]);
      }
    });
  }

  void AddFrees(uint32_t index) {
    ForEachBuffer(index, [&](uint32_t buffer) {
      if (AccessesOf(buffer).back() != index) return;
      std::fill(last_on_lane_.begin(), last_on_lane_.end(), kNoId);
      for (const uint32_t access : AccessesOf(buffer)) {
        last_on_lane_[old_.instructions[access].lane] = access;
      }
      waits_.clear();
      // Of the last accesses, a wait is needed for those that no other one comes after.
      for (const uint32_t access : last_on_lane_) {
        if (access == kNoId || access == index) continue;
        const auto later = [&](uint32_t other) {
          return other != kNoId && order_.Before(access, other);
        };
        if (std::none_of(last_on_lane_.begin(), last_on_lane_.end(), later)) {
          waits_.push_back(access);
        }
      }
      AddWaits(Add(InstructionKind::kFree, buffer, old_.instructions[index]), waits_);
    });
  }

  // `waits` are indices of the old list.
  void AddWaits(Instruction& instruction, std::span<const uint32_t> waits) {
    instruction.waits_begin = static_cast<uint32_t>(section_.waits.size());
    for (const uint32_t wait : waits) section_.waits.push_back(moved_[wait]);
    instruction.waits_end = static_cast<uint32_t>(section_.waits.size());
  }

  const Section& old_;
  const Accesses accesses_;
  const HappensBefore order_;
  Section section_;
  std::vector<uint32_t> moved_;         // old index to new
  std::vector<uint32_t> last_on_lane_;  // scratch
  std::vector<uint32_t> waits_;         // scratch
};

}  // namespace

void InsertLifetimes(Role& role) {
  std::vector<const Section*> owner(role.buffers.size(), nullptr);
  for (Section* section : Sections(role)) {
    for (const Instruction& instruction : section->instructions) {
      TL_CHECK(
          instruction.kind != InstructionKind::kAlloc && instruction.kind != InstructionKind::kFree,
          "lifetimes are inserted once");
      for (const Operand& operand : section->Operands(instruction)) {
        if (role.buffers[operand.buffer].persistent) continue;
        TL_CHECK(owner[operand.buffer] == nullptr || owner[operand.buffer] == section,
                 "a buffer used in two sections is persistent");
        owner[operand.buffer] = section;
      }
    }
    *section = Rewriter(role, *section).Rewrite();
  }
}

}  // namespace tideline
