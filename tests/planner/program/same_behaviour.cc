#include <algorithm>
#include <map>
#include <sstream>

#include "tests/planner/program/mutants.h"

namespace tideline {
namespace {

constexpr size_t kMostInstructions = 20000;

bool IsMark(const Instruction& instruction) {
  return instruction.kind == InstructionKind::kAlloc || instruction.kind == InstructionKind::kFree;
}

bool Communicates(const Instruction& instruction) {
  return instruction.kind == InstructionKind::kSend ||
         instruction.kind == InstructionKind::kReceive ||
         instruction.kind == InstructionKind::kCollective;
}

// What does not change the result is made alike: orders of two or fewer summands, of moves, and the
// start of a ring that is not summed around.
Collective Normalised(const Program& program, Collective collective) {
  int64_t members = 1;
  const Group& group = program.groups[collective.group];
  for (const Axis axis : group.axes) members *= program.mesh[static_cast<size_t>(axis)];
  if (!group.subset.empty()) members = static_cast<int64_t>(group.subset.size());
  const bool sums = collective.kind == CollectiveKind::kAllReduce ||
                    collective.kind == CollectiveKind::kReduceScatter;
  if (!sums || members <= 2 || collective.reduction == Reduction::kMaximum) {
    collective.order = ReductionOrder::kRank;
  }
  if (!sums) collective.reduction = Reduction::kSum;
  if (collective.order != ReductionOrder::kRing) collective.ring_start = 0;
  return collective;
}

// The work an instruction does, as text.
std::string WorkOf(const Program& program, const Section& section, const Instruction& entry) {
  std::ostringstream text;
  text << static_cast<int>(entry.kind) << " on " << entry.lane << ": ";
  if (entry.kind == InstructionKind::kCollective) {
    const Collective collective = Normalised(program, program.collectives[entry.what]);
    text << static_cast<int>(collective.kind) << ' ' << static_cast<int>(collective.reduction)
         << ' ' << static_cast<int>(collective.order) << ' ' << collective.ring_start << ' '
         << collective.group << ' ' << static_cast<int>(collective.dtype) << ' ' << collective.outer
         << ' ' << collective.block;
  } else {
    text << entry.what;
  }
  for (const Operand& operand : section.Operands(entry)) {
    text << " | " << operand.buffer << ' ' << operand.affine << ' ' << operand.offset << ' '
         << operand.bytes << ' ' << static_cast<int>(operand.access);
  }
  return text.str();
}

// Predecessors of every instruction as rows of bits.
class Closure {
 public:
  explicit Closure(const Section& section) : words_((section.instructions.size() + 63) / 64) {
    rows_.assign(section.instructions.size() * words_, 0);
    std::map<uint16_t, uint32_t> last;
    for (uint32_t index = 0; index < section.instructions.size(); ++index) {
      const Instruction& instruction = section.instructions[index];
      const auto on_lane = last.find(instruction.lane);
      if (on_lane != last.end()) Include(index, on_lane->second);
      last[instruction.lane] = index;
      for (const uint32_t wait : section.Waits(instruction)) Include(index, wait);
    }
  }

  bool Before(uint32_t first, uint32_t second) const {
    return rows_[second * words_ + first / 64] >> (first % 64) & 1;
  }

 private:
  void Include(uint32_t index, uint32_t before) {
    for (size_t word = 0; word < words_; ++word) {
      rows_[index * words_ + word] |= rows_[before * words_ + word];
    }
    rows_[index * words_ + before / 64] |= uint64_t{1} << (before % 64);
  }

  size_t words_;
  std::vector<uint64_t> rows_;
};

struct Touch {
  uint32_t index = 0;
  const Operand* operand = nullptr;
};

using Touches = std::map<uint32_t, std::vector<Touch>>;  // per buffer, in list order

Touches TouchesOf(const Section& section) {
  Touches touches;
  for (uint32_t index = 0; index < section.instructions.size(); ++index) {
    for (const Operand& operand : section.Operands(section.instructions[index])) {
      touches[operand.buffer].push_back({index, &operand});
    }
  }
  return touches;
}

bool Collide(const Touch& a, const Touch& b) {
  if (a.index == b.index) return false;
  if (a.operand->access == Access::kRead && b.operand->access == Access::kRead) return false;
  if (a.operand->affine != kNoId || b.operand->affine != kNoId) return true;
  return a.operand->offset < b.operand->offset + b.operand->bytes &&
         b.operand->offset < a.operand->offset + a.operand->bytes;
}

// For every instruction of `original` that does work, the one of `mutant` that does the same; false
// when there is none, or one too many, or communication comes in another order.
bool Match(const Program& original_program, const Section& original, const Program& mutant_program,
           const Section& mutant, std::vector<uint32_t>& twin) {
  std::map<std::string, std::vector<uint32_t>> by_work;
  std::vector<std::string> order, mutant_order;
  size_t left = 0;
  for (uint32_t index = 0; index < mutant.instructions.size(); ++index) {
    const Instruction& entry = mutant.instructions[index];
    if (IsMark(entry)) continue;
    const std::string work = WorkOf(mutant_program, mutant, entry);
    by_work[work].push_back(index);
    if (Communicates(entry)) mutant_order.push_back(work);
    ++left;
  }
  for (auto& [work, twins] : by_work) std::reverse(twins.begin(), twins.end());
  twin.assign(original.instructions.size(), kNoId);
  for (uint32_t index = 0; index < original.instructions.size(); ++index) {
    const Instruction& entry = original.instructions[index];
    if (IsMark(entry)) continue;
    const std::string work = WorkOf(original_program, original, entry);
    std::vector<uint32_t>& twins = by_work[work];
    if (twins.empty()) return false;
    twin[index] = twins.back();
    twins.pop_back();
    --left;
    if (Communicates(entry)) order.push_back(work);
  }
  return left == 0 && order == mutant_order;
}

// Every buffer is born once before and dies once after all that touches it, inside its bytes, and
// no two live at once on one address.
bool LivesAreSound(const Role& role, const Section& section, const Closure& closure) {
  std::map<uint32_t, uint32_t> births, deaths;
  for (uint32_t index = 0; index < section.instructions.size(); ++index) {
    const Instruction& entry = section.instructions[index];
    if (!IsMark(entry)) continue;
    auto& marks = entry.kind == InstructionKind::kAlloc ? births : deaths;
    if (!marks.emplace(entry.what, index).second) return false;
  }
  if (births.size() != deaths.size()) return false;
  for (const auto& [buffer, birth] : births) {
    if (!deaths.count(buffer) || !closure.Before(birth, deaths[buffer])) return false;
  }
  for (const auto& [buffer, touches] : TouchesOf(section)) {
    const Buffer& entry = role.buffers[buffer];
    if (!entry.persistent && !births.count(buffer)) return false;
    for (const Touch& touch : touches) {
      if (touch.operand->affine == kNoId &&
          (touch.operand->offset < 0 ||
           touch.operand->offset + touch.operand->bytes > entry.bytes)) {
        return false;
      }
      if (entry.persistent) continue;
      if (!closure.Before(births[buffer], touch.index)) return false;
      if (!closure.Before(touch.index, deaths[buffer])) return false;
    }
  }
  const auto apart = [&](uint32_t a, uint32_t b) {
    const Buffer &first = role.buffers[a], &second = role.buffers[b];
    if (first.space != second.space || first.address == kNoAddress ||
        second.address == kNoAddress || first.bytes == 0 || second.bytes == 0) {
      return true;
    }
    return first.address + first.bytes <= second.address ||
           second.address + second.bytes <= first.address;
  };
  for (uint32_t a = 0; a < role.buffers.size(); ++a) {
    if (!role.buffers[a].persistent && !births.count(a)) continue;
    for (uint32_t b = 0; b < a; ++b) {
      if (apart(a, b) || (!role.buffers[b].persistent && !births.count(b))) continue;
      const bool both_pass = births.count(a) && births.count(b);
      if (!both_pass ||
          (!closure.Before(deaths[a], births[b]) && !closure.Before(deaths[b], births[a]))) {
        return false;
      }
    }
  }
  return true;
}

// Every group that `role` calls a changed collective on has members of that role only, so that all
// of them change alike.
bool ChangedCollectivesAreOwn(const Program& program, uint32_t role, const Section& section,
                              size_t known_collectives) {
  for (const Instruction& entry : section.instructions) {
    if (entry.kind != InstructionKind::kCollective || entry.what < known_collectives) continue;
    const Group& group = program.groups[program.collectives[entry.what].group];
    for (const Rank& rank : program.ranks) {
      if (rank.role != role) continue;
      for (const Rank& other : program.ranks) {
        bool member = true;
        for (int axis = 0; axis < kAxes; ++axis) {
          const bool free = std::count(group.axes.begin(), group.axes.end(), Axis(axis)) > 0;
          member &= free || other.coordinates[axis] == rank.coordinates[axis];
        }
        if (member && other.role != role) return false;
      }
    }
  }
  return true;
}

bool SameSection(const Program& original_program, const Section& original,
                 const Program& mutant_program, const Role& mutant_role, const Section& mutant) {
  if (std::max(original.instructions.size(), mutant.instructions.size()) > kMostInstructions) {
    return false;
  }
  for (uint32_t index = 0; index < mutant.instructions.size(); ++index) {
    for (const uint32_t wait : mutant.Waits(mutant.instructions[index])) {
      if (wait >= index) return false;  // No list order extends this.
    }
  }
  std::vector<uint32_t> twin;
  if (!Match(original_program, original, mutant_program, mutant, twin)) return false;
  const Closure was(original), is(mutant);
  for (const auto& [buffer, touches] : TouchesOf(original)) {
    for (size_t second = 0; second < touches.size(); ++second) {
      for (size_t first = 0; first < second; ++first) {
        if (!Collide(touches[first], touches[second])) continue;
        if (!is.Before(twin[touches[first].index], twin[touches[second].index])) return false;
      }
    }
  }
  return LivesAreSound(mutant_role, mutant, is);
}

}  // namespace

bool SameBehaviour(const Program& original, const Program& mutant) {
  if (original.roles.size() != mutant.roles.size()) return false;
  for (size_t index = 0; index < original.roles.size(); ++index) {
    const Role &was = original.roles[index], &is = mutant.roles[index];
    if (was.buffers.size() != is.buffers.size() || was.lanes != is.lanes ||
        was.bodies.size() != is.bodies.size()) {
      return false;
    }
    for (size_t buffer = 0; buffer < was.buffers.size(); ++buffer) {
      if (was.buffers[buffer].space != is.buffers[buffer].space ||
          was.buffers[buffer].persistent != is.buffers[buffer].persistent) {
        return false;
      }
    }
    const auto old_sections = Sections(was), new_sections = Sections(is);
    for (size_t section = 0; section < old_sections.size(); ++section) {
      if (!ChangedCollectivesAreOwn(mutant, static_cast<uint32_t>(index), *new_sections[section],
                                    original.collectives.size())) {
        return false;
      }
      if (!SameSection(original, *old_sections[section], mutant, is, *new_sections[section])) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace tideline
