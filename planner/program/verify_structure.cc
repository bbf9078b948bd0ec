#include "planner/program/verify_structure.h"

#include <algorithm>
#include <limits>
#include <map>

#include "base/square_sum.h"
#include "base/text.h"
#include "planner/program/message.h"

namespace tideline {
namespace {

Status CheckLanes(const Program& program, const Role& role) {
  if (role.lanes.size() < 2 || role.lanes.size() > kMaximumLanes ||
      role.lanes[kHostLane].kind != LaneKind::kHost ||
      role.lanes[kComputeLane].kind != LaneKind::kCompute) {
    return InternalError(
        Message("lanes: must begin with host and compute and be at most ", kMaximumLanes));
  }
  for (size_t index = 0; index < role.lanes.size(); ++index) {
    const Lane& lane = role.lanes[index];
    const bool of_group = lane.kind == LaneKind::kGroup;
    const bool of_peer = lane.kind == LaneKind::kSendTo || lane.kind == LaneKind::kReceiveFrom;
    if ((of_group && lane.index >= program.groups.size()) ||
        (of_peer && lane.index >= program.peers.size())) {
      return InternalError(
          Message("lanes[", index, "].index: ", lane.index, " is not in its table"));
    }
    if (std::find(role.lanes.begin(), role.lanes.begin() + index, lane) !=
        role.lanes.begin() + index) {
      return InternalError(Message("lanes[", index, "]: twice"));
    }
  }
  return absl::OkStatus();
}

Status CheckBuffers(const Program& program, const Role& role) {
  int64_t total = 0;
  for (uint32_t index = 0; index < role.buffers.size(); ++index) {
    const Buffer& buffer = role.buffers[index];
    if (static_cast<int>(buffer.space) >= kSpaces ||
        static_cast<int>(buffer.category) >= kCategories ||
        (buffer.name != kNoId && buffer.name >= program.names.size())) {
      return InternalError(Message("buffers[", index, "]: unknown space, category or name"));
    }
    if (buffer.bytes < 0 || buffer.bytes > kMaximumBytes ||
        (total += buffer.bytes) > kMaximumBytes) {
      return InternalError(Message("buffers[", index, "].bytes: ", buffer.bytes,
                                   " is negative, or all together are more than 2^60"));
    }
    if (buffer.address == kNoAddress) continue;
    if (buffer.address < 0 || buffer.address % kAlignment != 0 || buffer.address > kMaximumBytes ||
        buffer.address + buffer.bytes > role.extent[static_cast<size_t>(buffer.space)]) {
      return InternalError(Message(BufferText(program, role, index), ": address ", buffer.address,
                                   " + ", buffer.bytes, " bytes is not aligned to ", kAlignment,
                                   " within the extent of ",
                                   role.extent[static_cast<size_t>(buffer.space)]));
    }
  }
  return absl::OkStatus();
}

// The least and the largest value of an affine over the ranks of one role.
struct Range {
  int64_t least = std::numeric_limits<int64_t>::max();
  int64_t most = std::numeric_limits<int64_t>::min();
};

// Checks the instructions of one role.
class RoleChecker {
 public:
  RoleChecker(const Program& program, uint32_t role)
      : program_(program), role_(program.roles[role]) {
    for (const Rank& rank : program.ranks) {
      if (rank.role == role) coordinates_.push_back(rank.coordinates);
    }
    affine_ranges_.resize(program.affines.size());
  }

  Status Check() {
    const std::vector<const Section*> sections = Sections(role_);
    for (size_t index = 0; index < sections.size(); ++index) {
      section_ = sections[index];
      evaluates_ = program_.evaluation != kNoId && index == size_t{program_.evaluation} + 1;
      for (uint32_t i = 0; i < section_->instructions.size(); ++i) {
        const Status status = CheckInstruction(i);
        if (!status.ok()) return Annotate(status, Where(program_, role_, index, i));
      }
    }
    return absl::OkStatus();
  }

 private:
  Status CheckInstruction(uint32_t index) {
    const Instruction& instruction = section_->instructions[index];
    if (instruction.lane >= role_.lanes.size()) return InternalError("lane: no such lane");
    if (instruction.name != kNoId && instruction.name >= program_.names.size()) {
      return InternalError("name: no such name");
    }
    TL_RETURN_IF_ERROR(CheckGuard(instruction));
    if (instruction.operands_begin > instruction.operands_end ||
        instruction.operands_end > section_->operands.size() ||
        instruction.waits_begin > instruction.waits_end ||
        instruction.waits_end > section_->waits.size()) {
      return InternalError("operands or waits: the range is outside the section");
    }
    for (const uint32_t wait : section_->Waits(instruction)) {
      if (wait >= index)
        return InternalError(Message("waits for #", wait, ", which is not before it"));
      if (section_->instructions[wait].lane == instruction.lane) {
        return InternalError(Message("waits for #", wait, " on its own lane"));
      }
    }
    operands_ = section_->Operands(instruction);
    for (const Operand& operand : operands_) {
      TL_RETURN_IF_ERROR(CheckOperand(operand));
      if (evaluates_ && operand.access != Access::kRead &&
          role_.buffers[operand.buffer].persistent) {
        return InternalError("operand: an evaluation must leave persistent buffers as they are");
      }
    }
    return CheckKind(instruction);
  }

  Status CheckGuard(const Instruction& instruction) {
    if (instruction.guard == kNoId) return absl::OkStatus();
    if (instruction.guard >= program_.registers.size()) {
      return InternalError(Message("guard: register ", instruction.guard,
                                   " is not in the table of ", program_.registers.size()));
    }
    if (program_.registers[instruction.guard].floating) {
      return InternalError("guard: must be a whole-number register");
    }
    if (instruction.kind == InstructionKind::kAlloc || instruction.kind == InstructionKind::kFree) {
      return InternalError("guard: memory comes and goes whatever is skipped; leave it unset");
    }
    return absl::OkStatus();
  }

  Status CheckOperand(const Operand& operand) {
    if (operand.buffer >= role_.buffers.size()) return InternalError("operand: no such buffer");
    if (operand.affine != kNoId && operand.affine >= program_.affines.size()) {
      return InternalError("operand: no such affine");
    }
    if (coordinates_.empty()) return absl::OkStatus();  // No rank plays this role.
    const Range shift = ShiftOf(operand);
    const int64_t size = role_.buffers[operand.buffer].bytes;
    if (operand.bytes < 0 || operand.bytes > size || operand.offset > kMaximumBytes ||
        operand.offset < -kMaximumBytes || operand.offset + shift.least < 0 ||
        operand.offset + shift.most > size - operand.bytes) {
      return InternalError(Message("operand of ", operand.bytes, " bytes at ", operand.offset,
                                   " + [", shift.least, ", ", shift.most, "] is not inside ",
                                   BufferText(program_, role_, operand.buffer), " of ", size,
                                   " bytes"));
    }
    return absl::OkStatus();
  }

  // What the operand's affine adds, over the ranks of the role.
  Range ShiftOf(const Operand& operand) {
    if (operand.affine == kNoId) return {0, 0};
    Range& range = affine_ranges_[operand.affine];
    if (range.least > range.most) {
      for (const Coordinates& rank : coordinates_) {
        const int64_t value = program_.affines[operand.affine].At(rank);
        range.least = std::min(range.least, value);
        range.most = std::max(range.most, value);
      }
    }
    return range;
  }

  Status CheckKind(const Instruction& instruction) {
    switch (instruction.kind) {
      case InstructionKind::kCompute:
        return CheckCompute(instruction);
      case InstructionKind::kCollective:
        return CheckCollectiveCall(instruction);
      case InstructionKind::kSend:
        return CheckMessage(instruction, LaneKind::kSendTo, Access::kRead);
      case InstructionKind::kReceive:
        return CheckMessage(instruction, LaneKind::kReceiveFrom, Access::kWrite);
      case InstructionKind::kCopy:
        return CheckCopy(instruction);
      case InstructionKind::kAlloc:
      case InstructionKind::kFree:
        return CheckMark(instruction);
      case InstructionKind::kHostCompute:
        return CheckHostCompute(instruction);
      case InstructionKind::kPolicy:
      case InstructionKind::kLoop:
        return InternalError(Message("kind ", Name(instruction.kind),
                                     ": no interpreter plays it yet; write the instructions out"));
    }
    return InternalError("kind: unknown");
  }

  Status CheckWhat(const Instruction& instruction, size_t table_size) {
    if (instruction.what < table_size) return absl::OkStatus();
    return InternalError(
        Message("what: ", instruction.what, " is not in its table of ", table_size));
  }

  Status CheckLane(const Instruction& instruction, LaneKind kind, uint32_t index) {
    if (role_.lanes[instruction.lane] == Lane{kind, index}) return absl::OkStatus();
    return InternalError(Message("is on lane \"", LaneName(program_, role_.lanes[instruction.lane]),
                                 "\" but belongs on \"", LaneName(program_, {kind, index}), "\""));
  }

  Status Expect(size_t position, Access access, int64_t bytes) {
    const Operand& operand = operands_[position];
    if (operand.access == access && operand.bytes == bytes) return absl::OkStatus();
    static constexpr std::string_view kNames[] = {"read", "write", "read-write"};
    return InternalError(Message(
        "operand ", position, " is a ", kNames[static_cast<size_t>(operand.access)], " of ",
        operand.bytes, " bytes, must be a ", kNames[static_cast<size_t>(access)], " of ", bytes));
  }

  Status ExpectCount(size_t count) {
    if (operands_.size() == count) return absl::OkStatus();
    return InternalError(Message("has ", operands_.size(), " operands, needs ", count));
  }

  Status CheckCompute(const Instruction& instruction) {
    TL_RETURN_IF_ERROR(CheckWhat(instruction, program_.kernels.size()));
    TL_RETURN_IF_ERROR(CheckLane(instruction, LaneKind::kCompute, kNoId));
    const Kernel& kernel = program_.kernels[instruction.what];
    TL_RETURN_IF_ERROR(ExpectCount(kernel.operands.size()));
    for (size_t index = 0; index < operands_.size(); ++index) {
      TL_RETURN_IF_ERROR(
          Expect(index, kernel.operands[index].access, *BytesOf(kernel.operands[index])));
    }
    return absl::OkStatus();
  }

  Status CheckCollectiveCall(const Instruction& instruction) {
    TL_RETURN_IF_ERROR(CheckWhat(instruction, program_.collectives.size()));
    const Collective& collective = program_.collectives[instruction.what];
    TL_RETURN_IF_ERROR(CheckLane(instruction, LaneKind::kGroup, collective.group));
    if (!IsMember(collective.group)) {
      return InternalError("a rank of this role is not in the collective's group");
    }
    const int64_t part = collective.outer * collective.block * SizeOf(collective.dtype);
    const int64_t full = part * GroupSize(program_, program_.groups[collective.group]);
    const bool gathers = collective.kind == CollectiveKind::kAllGather;
    const bool scatters = collective.kind == CollectiveKind::kReduceScatter;
    const int64_t input = scatters ? full : part, output = gathers ? full : part;
    if (operands_.size() == 1) return Expect(0, Access::kReadWrite, std::max(input, output));
    TL_RETURN_IF_ERROR(ExpectCount(2));
    TL_RETURN_IF_ERROR(Expect(0, Access::kRead, input));
    return Expect(1, Access::kWrite, output);
  }

  // Every rank of the role is in the group.
  bool IsMember(uint32_t group) {
    const auto [entry, is_new] = is_member_.try_emplace(group, true);
    const Group& members = program_.groups[group];
    if (is_new && !members.subset.empty()) {
      const size_t axis = static_cast<size_t>(members.axes[0]);
      for (const Coordinates& rank : coordinates_) {
        entry->second &=
            std::binary_search(members.subset.begin(), members.subset.end(), rank[axis]);
      }
    }
    return entry->second;
  }

  Status CheckMessage(const Instruction& instruction, LaneKind lane, Access access) {
    TL_RETURN_IF_ERROR(CheckWhat(instruction, program_.peers.size()));
    TL_RETURN_IF_ERROR(CheckLane(instruction, lane, instruction.what));
    TL_RETURN_IF_ERROR(ExpectCount(1));
    return Expect(0, access, operands_[0].bytes);
  }

  Status CheckCopy(const Instruction& instruction) {
    TL_RETURN_IF_ERROR(ExpectCount(2));
    const Space source = role_.buffers[operands_[0].buffer].space;
    const Space destination = role_.buffers[operands_[1].buffer].space;
    if (source == destination) return InternalError("copies within one space");
    TL_RETURN_IF_ERROR(CheckLane(
        instruction,
        destination == Space::kDevice ? LaneKind::kHostToDevice : LaneKind::kDeviceToHost, kNoId));
    TL_RETURN_IF_ERROR(Expect(0, Access::kRead, operands_[0].bytes));
    return Expect(1, Access::kWrite, operands_[0].bytes);
  }

  Status CheckMark(const Instruction& instruction) {
    TL_RETURN_IF_ERROR(CheckWhat(instruction, role_.buffers.size()));
    TL_RETURN_IF_ERROR(ExpectCount(0));
    if (!role_.buffers[instruction.what].persistent) return absl::OkStatus();
    return InternalError(Message(Name(instruction.kind), "s the persistent ",
                                 BufferText(program_, role_, instruction.what)));
  }

  Status CheckHostCompute(const Instruction& instruction) {
    TL_RETURN_IF_ERROR(CheckWhat(instruction, program_.host_tasks.size()));
    TL_RETURN_IF_ERROR(CheckLane(instruction, LaneKind::kHost, kNoId));
    for (const Operand& operand : operands_) {
      if (role_.buffers[operand.buffer].space != Space::kPinnedHost) {
        return InternalError(Message("the host cannot touch ",
                                     BufferText(program_, role_, operand.buffer),
                                     " outside pinned host memory"));
      }
    }
    const HostTask& task = program_.host_tasks[instruction.what];
    if (task.kind == HostTaskKind::kReadLoss) {
      TL_RETURN_IF_ERROR(ExpectCount(1));
      return Expect(0, Access::kRead, 4);
    }
    if (task.kind == HostTaskKind::kGateUpdate) {
      TL_RETURN_IF_ERROR(ExpectCount(1));
      return Expect(0, Access::kRead, SquareSum::kValues * 4);
    }
    TL_RETURN_IF_ERROR(ExpectCount(2));
    const std::array<int64_t, 2> bytes = LoadedBytes(task);
    TL_RETURN_IF_ERROR(Expect(0, Access::kWrite, bytes[0]));
    return Expect(1, Access::kWrite, bytes[1]);
  }

  const Program& program_;
  const Role& role_;
  std::vector<Coordinates> coordinates_;  // of the ranks that play the role
  std::vector<Range> affine_ranges_;      // empty until asked for
  std::map<uint32_t, bool> is_member_;    // per group asked for
  const Section* section_ = nullptr;
  bool evaluates_ = false;  // section_ is the evaluation
  std::span<const Operand> operands_;
};

}  // namespace

std::string Where(const Program& program, const Role& role, size_t section, uint32_t instruction) {
  const Instruction& entry = Sections(role)[section]->instructions[instruction];
  const std::string_view name = NameText(program, entry.name);
  return Message("role ", Quoted(role.name), ", ", SectionName(role, section), ", ",
                 Name(entry.kind), " instruction #", instruction, " ", Quoted(name));
}

std::string BufferText(const Program& program, const Role& role, uint32_t buffer) {
  return Message("buffer ", buffer, " ", Quoted(NameText(program, role.buffers[buffer].name)));
}

Status VerifyStructure(const Program& program) {
  TL_RETURN_IF_ERROR(VerifyTables(program));
  for (uint32_t role = 0; role < program.roles.size(); ++role) {
    const std::string where = Message("role ", Quoted(program.roles[role].name));
    TL_RETURN_IF_ERROR(Annotate(CheckLanes(program, program.roles[role]), where));
    TL_RETURN_IF_ERROR(Annotate(CheckBuffers(program, program.roles[role]), where));
    TL_RETURN_IF_ERROR(RoleChecker(program, role).Check());
  }
  return absl::OkStatus();
}

}  // namespace tideline
