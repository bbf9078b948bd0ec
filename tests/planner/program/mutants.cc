#include "tests/planner/program/mutants.h"

#include <algorithm>
#include <array>
#include <functional>

#include "tests/planner/program/edit.h"

namespace tideline {
namespace {

using Kind = InstructionKind;

bool IsMark(const Instruction& instruction) {
  return instruction.kind == Kind::kAlloc || instruction.kind == Kind::kFree;
}

// One instruction of a Program.
struct Place {
  uint32_t role = 0;
  size_t section = 0;
  uint32_t index = 0;
};

// A section's change: applies it to the editor at `index`, or says "" when it does not apply.
using Edit =
    std::function<std::string(Program&, Role&, SectionEditor&, uint32_t, std::mt19937_64&)>;

// The place of the neighbour of `index` on its lane; `step` is 1 or -1; kNoId at the end.
uint32_t Neighbour(const SectionEditor& editor, uint32_t index, int step) {
  for (int64_t at = int64_t{index} + step;
       at >= 0 && at < static_cast<int64_t>(editor.entries.size()); at += step) {
    if (editor.entries[at].instruction.lane == editor.entries[index].instruction.lane) {
      return static_cast<uint32_t>(at);
    }
  }
  return kNoId;
}

std::string MoveMark(SectionEditor& editor, uint32_t index, Kind kind, int step) {
  if (editor.entries[index].instruction.kind != kind) return "";
  const uint32_t neighbour = Neighbour(editor, index, step);
  if (neighbour == kNoId) return "";
  editor.Move(index, neighbour);
  return "moves past #" + std::to_string(neighbour);
}

std::string SwapOnLane(SectionEditor& editor, uint32_t index) {
  if (IsMark(editor.entries[index].instruction)) return "";
  uint32_t other = Neighbour(editor, index, 1);
  while (other != kNoId && IsMark(editor.entries[other].instruction)) {
    other = Neighbour(editor, other, 1);
  }
  if (other == kNoId) return "";
  editor.Move(other, index);
  if (index + 1 < other) editor.Move(index + 1, other);
  return "changes places with #" + std::to_string(other);
}

// An operand of `index` for which `fits` holds, at random; nullptr when there is none.
Operand* PickOperand(SectionEditor& editor, uint32_t index, std::mt19937_64& random,
                     const std::function<bool(const Operand&)>& fits) {
  std::vector<Operand*> candidates;
  for (Operand& operand : editor.entries[index].operands) {
    if (fits(operand)) candidates.push_back(&operand);
  }
  return candidates.empty() ? nullptr : candidates[random() % candidates.size()];
}

std::string WrongBuffer(Role& role, SectionEditor& editor, uint32_t index,
                        std::mt19937_64& random) {
  Operand* operand = PickOperand(editor, index, random, [](const Operand&) { return true; });
  if (operand == nullptr) return "";
  std::vector<uint32_t> others;
  for (uint32_t buffer = 0; buffer < role.buffers.size(); ++buffer) {
    if (buffer != operand->buffer &&
        role.buffers[buffer].space == role.buffers[operand->buffer].space &&
        role.buffers[buffer].bytes >= role.buffers[operand->buffer].bytes) {
      others.push_back(buffer);
    }
  }
  if (others.empty()) return "";
  const uint32_t old = operand->buffer;
  operand->buffer = others[random() % others.size()];
  return "uses buffer " + std::to_string(operand->buffer) + " for " + std::to_string(old);
}

std::string ChangeCollective(Program& program, SectionEditor& editor, uint32_t index,
                             const std::function<void(Collective&)>& change) {
  Instruction& instruction = editor.entries[index].instruction;
  if (instruction.kind != Kind::kCollective) return "";
  Collective collective = program.collectives[instruction.what];
  change(collective);
  if (collective == program.collectives[instruction.what]) return "";
  instruction.what = static_cast<uint32_t>(program.collectives.size());
  program.collectives.push_back(collective);
  return "is another collective";
}

template <typename Enum>
Enum Next(Enum value, int count) {
  return static_cast<Enum>((static_cast<int>(value) + 1) % count);
}

std::string EditAccess(SectionEditor& editor, uint32_t index, std::mt19937_64& random) {
  Operand* operand = PickOperand(editor, index, random, [](const Operand&) { return true; });
  if (operand == nullptr) return "";
  operand->access = operand->access == Access::kRead ? Access::kWrite : Access::kRead;
  return "accesses buffer " + std::to_string(operand->buffer) + " the other way";
}

std::string EditRange(SectionEditor& editor, uint32_t index, bool shift, std::mt19937_64& random) {
  Operand* operand =
      PickOperand(editor, index, random, [](const Operand& each) { return each.bytes > 1; });
  if (operand == nullptr) return "";
  const int64_t step = std::max<int64_t>(operand->bytes / 2, 1);
  if (shift) {
    operand->offset += random() % 2 == 0 ? step : -step;
  } else {
    operand->bytes -= step;
  }
  return "has another range of buffer " + std::to_string(operand->buffer);
}

std::string DropWait(SectionEditor& editor, uint32_t index, std::mt19937_64& random) {
  std::vector<uint32_t>& waits = editor.entries[index].waits;
  if (waits.empty()) return "";
  const size_t which = random() % waits.size();
  const uint32_t dropped = waits[which];
  waits.erase(waits.begin() + which);
  return "no longer waits for #" + std::to_string(dropped);
}

std::string WrongPeer(const Program& program, SectionEditor& editor, uint32_t index,
                      std::mt19937_64& random) {
  Instruction& instruction = editor.entries[index].instruction;
  const bool message = instruction.kind == Kind::kSend || instruction.kind == Kind::kReceive;
  if (!message || program.peers.size() < 2) return "";
  const uint32_t shift = 1 + random() % (program.peers.size() - 1);
  instruction.what = (instruction.what + shift) % program.peers.size();
  return "has peer " + std::to_string(instruction.what);
}

std::string WrongLane(const Role& role, SectionEditor& editor, uint32_t index,
                      std::mt19937_64& random) {
  Instruction& instruction = editor.entries[index].instruction;
  const uint32_t shift = 1 + random() % (role.lanes.size() - 1);
  instruction.lane = static_cast<uint16_t>((instruction.lane + shift) % role.lanes.size());
  return "is on lane " + std::to_string(instruction.lane);
}

// Only where doing it twice is not the same as once: sums in place, and messages.
std::string Repeat(const Program& program, SectionEditor& editor, uint32_t index) {
  const Instruction& instruction = editor.entries[index].instruction;
  const bool message = instruction.kind == Kind::kSend || instruction.kind == Kind::kReceive;
  const bool moves = instruction.kind == Kind::kCollective &&
                     (program.collectives[instruction.what].kind == CollectiveKind::kAllGather ||
                      program.collectives[instruction.what].kind == CollectiveKind::kBroadcast);
  const auto& operands = editor.entries[index].operands;
  const bool in_place = std::any_of(operands.begin(), operands.end(), [](const Operand& operand) {
    return operand.access == Access::kReadWrite;
  });
  if (!message && (!in_place || moves)) return "";
  SectionEditor::Entry again = editor.entries[index];
  again.waits.clear();
  editor.Insert(index + 1, again);
  return "is there twice";
}

std::string DropOne(SectionEditor& editor, uint32_t index, const std::function<bool(Kind)>& is) {
  if (!is(editor.entries[index].instruction.kind)) return "";
  editor.Drop(index);
  return "is gone";
}

Edit EditOf(Mutation mutation) {
  const auto drop = [](std::function<bool(Kind)> is) -> Edit {
    return [is](Program&, Role&, SectionEditor& editor, uint32_t index, std::mt19937_64&) {
      return DropOne(editor, index, is);
    };
  };
  const auto move = [](Kind kind, int step) -> Edit {
    return [=](Program&, Role&, SectionEditor& editor, uint32_t index, std::mt19937_64&) {
      return MoveMark(editor, index, kind, step);
    };
  };
  const auto collective = [](std::function<void(Collective&)> change) -> Edit {
    return [change](Program& program, Role&, SectionEditor& editor, uint32_t index,
                    std::mt19937_64&) { return ChangeCollective(program, editor, index, change); };
  };
  switch (mutation) {
    case Mutation::kDropAlloc:
      return drop([](Kind kind) { return kind == Kind::kAlloc; });
    case Mutation::kDropFree:
      return drop([](Kind kind) { return kind == Kind::kFree; });
    case Mutation::kDropInstruction:
      return drop([](Kind kind) { return kind != Kind::kAlloc && kind != Kind::kFree; });
    case Mutation::kAllocLater:
      return move(Kind::kAlloc, 1);
    case Mutation::kAllocEarlier:
      return move(Kind::kAlloc, -1);
    case Mutation::kFreeLater:
      return move(Kind::kFree, 1);
    case Mutation::kFreeEarlier:
      return move(Kind::kFree, -1);
    case Mutation::kCollectiveKind:
      return collective([](Collective& entry) { entry.kind = Next(entry.kind, 4); });
    case Mutation::kCollectiveCount:
      return collective([](Collective& entry) { entry.block += 1; });
    case Mutation::kCollectiveOrder:
      return collective([](Collective& entry) { entry.order = Next(entry.order, 4); });
    case Mutation::kRingStart:
      return collective([](Collective& entry) { entry.ring_start += 1; });
    default:
      break;
  }
  return [mutation](Program& program, Role& role, SectionEditor& editor, uint32_t index,
                    std::mt19937_64& random) -> std::string {
    switch (mutation) {
      case Mutation::kDropWait:
        return DropWait(editor, index, random);
      case Mutation::kRepeatInstruction:
        return Repeat(program, editor, index);
      case Mutation::kSwapOnLane:
        return SwapOnLane(editor, index);
      case Mutation::kShrinkOperand:
        return EditRange(editor, index, false, random);
      case Mutation::kShiftOperand:
        return EditRange(editor, index, true, random);
      case Mutation::kWrongBuffer:
        return WrongBuffer(role, editor, index, random);
      case Mutation::kWrongAccess:
        return EditAccess(editor, index, random);
      case Mutation::kWrongPeer:
        return WrongPeer(program, editor, index, random);
      case Mutation::kWrongLane:
        return WrongLane(role, editor, index, random);
      default:
        return "";
    }
  };
}

// Buffers that some instruction touches.
std::vector<std::pair<uint32_t, uint32_t>> UsedBuffers(const Program& program) {
  std::vector<std::pair<uint32_t, uint32_t>> used;
  for (uint32_t role = 0; role < program.roles.size(); ++role) {
    std::vector<bool> touched(program.roles[role].buffers.size());
    for (const Section* section : Sections(program.roles[role])) {
      for (const Operand& operand : section->operands) touched[operand.buffer] = true;
    }
    for (uint32_t buffer = 0; buffer < touched.size(); ++buffer) {
      if (touched[buffer]) used.emplace_back(role, buffer);
    }
  }
  return used;
}

std::string MutateBuffer(Program& program, Mutation mutation, std::mt19937_64& random) {
  const auto used = UsedBuffers(program);
  if (used.empty()) return "";
  const auto [role_index, index] = used[random() % used.size()];
  Role& role = program.roles[role_index];
  Buffer& buffer = role.buffers[index];
  const std::string who =
      "role " + std::to_string(role_index) + " buffer " + std::to_string(index) + " ";
  if (mutation == Mutation::kShrinkBuffer) {
    if (buffer.bytes < 2) return "";
    buffer.bytes -= std::max<int64_t>(buffer.bytes / 4, 1);
    return who + "is smaller";
  }
  const uint32_t other = static_cast<uint32_t>(random() % role.buffers.size());
  const Buffer& target = role.buffers[other];
  const int64_t extent = role.extent[static_cast<size_t>(buffer.space)];
  if (other == index || target.space != buffer.space || buffer.address == kNoAddress ||
      target.address == kNoAddress || target.address == buffer.address || target.bytes == 0 ||
      buffer.bytes == 0 || target.address + buffer.bytes > extent) {
    return "";
  }
  buffer.address = target.address;
  return who + "lies on buffer " + std::to_string(other);
}

}  // namespace

std::string_view Name(Mutation mutation) {
  static constexpr std::array<std::string_view, static_cast<size_t>(Mutation::kCount)> kNames = {
      "drop wait",          "drop alloc",      "drop free",       "alloc later",
      "alloc earlier",      "free later",      "free earlier",    "drop instruction",
      "repeat instruction", "swap on lane",    "shrink operand",  "shift operand",
      "wrong buffer",       "wrong access",    "wrong peer",      "wrong lane",
      "shrink buffer",      "overlap address", "collective kind", "collective count",
      "collective order",   "ring start"};
  return kNames[static_cast<size_t>(mutation)];
}

std::string Mutate(Program& program, Mutation mutation, std::mt19937_64& random) {
  if (mutation == Mutation::kShrinkBuffer || mutation == Mutation::kOverlapAddress) {
    return MutateBuffer(program, mutation, random);
  }
  const auto may_apply = [mutation](const Section& section, const Instruction& entry) {
    switch (mutation) {
      case Mutation::kDropWait:
        return entry.waits_begin != entry.waits_end;
      case Mutation::kDropAlloc:
      case Mutation::kAllocLater:
      case Mutation::kAllocEarlier:
        return entry.kind == Kind::kAlloc;
      case Mutation::kDropFree:
      case Mutation::kFreeLater:
      case Mutation::kFreeEarlier:
        return entry.kind == Kind::kFree;
      case Mutation::kCollectiveKind:
      case Mutation::kCollectiveCount:
      case Mutation::kCollectiveOrder:
      case Mutation::kRingStart:
        return entry.kind == Kind::kCollective;
      case Mutation::kWrongPeer:
        return entry.kind == Kind::kSend || entry.kind == Kind::kReceive;
      case Mutation::kWrongLane:
        return true;
      default:
        return !IsMark(entry) && !section.Operands(entry).empty();
    }
  };
  std::vector<Place> places;
  for (uint32_t role = 0; role < program.roles.size(); ++role) {
    const std::vector<const Section*> sections = Sections(std::as_const(program.roles[role]));
    for (size_t section = 0; section < sections.size(); ++section) {
      for (uint32_t i = 0; i < sections[section]->instructions.size(); ++i) {
        if (may_apply(*sections[section], sections[section]->instructions[i])) {
          places.push_back({role, section, i});
        }
      }
    }
  }
  const Edit edit = EditOf(mutation);
  for (int draw = 0; draw < 20 && !places.empty(); ++draw) {
    const Place place = places[random() % places.size()];
    Role& role = program.roles[place.role];
    Section& section = *Sections(role)[place.section];
    SectionEditor editor(section);
    const std::string change = edit(program, role, editor, place.index, random);
    if (change.empty()) continue;
    section = editor.Pack();
    return "role " + std::to_string(place.role) + " section " + std::to_string(place.section) +
           " #" + std::to_string(place.index) + " " + change;
  }
  return "";
}

}  // namespace tideline
