#include "planner/program/verify_registers.h"

#include <cmath>
#include <set>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "planner/program/message.h"
#include "planner/program/verify_structure.h"

namespace tideline {
namespace {

bool IsWhole(double value) {
  return std::abs(value) <= kLargestWholeRegister && value == std::floor(value);
}

Status CheckRegister(const Register& value) {
  if (value.name.empty()) return InternalError("name: is empty; checkpoints call registers by it");
  if (!std::isfinite(value.lower) || !std::isfinite(value.upper) || value.lower > value.upper) {
    return InternalError("lower and upper: must be finite, and lower at most upper");
  }
  if (!value.floating && (!IsWhole(value.lower) || !IsWhole(value.upper))) {
    return InternalError(
        "lower and upper: must be whole numbers of magnitude up to 2^53, or the register floating");
  }
  if (!value.persistent) return absl::OkStatus();
  if (!value.replicated) return InternalError("persistent: must be replicated too");
  if (!(value.initial >= value.lower && value.initial <= value.upper) ||
      (!value.floating && !IsWhole(value.initial))) {
    return InternalError("initial: is not a value within the bounds");
  }
  return absl::OkStatus();
}

// `id` is in the table and as said; kNoId only where the register is not needed.
Status CheckGateRegister(const Program& program, std::string_view field, uint32_t id, bool needed,
                         bool floating, bool persistent) {
  if (!needed) {
    if (id == kNoId) return absl::OkStatus();
    return InternalError(Message("gate.", field, ": is not written without loss scaling"));
  }
  if (id >= program.registers.size()) {
    return InternalError(Message("gate.", field, ": register ", id, " is not in the table of ",
                                 program.registers.size()));
  }
  const Register& entry = program.registers[id];
  if (entry.floating == floating && entry.persistent == persistent) return absl::OkStatus();
  return InternalError(Message("gate.", field, ": register ", Quoted(entry.name), " must be ",
                               floating ? "floating" : "whole", persistent ? " and" : " and not",
                               " persistent"));
}

Status CheckGate(const Program& program, const UpdateGate& gate) {
  const GradientControl& control = gate.control;
  if (!(control.clip_norm >= 0) || !std::isfinite(control.clip_norm)) {
    return InternalError("gate.control.clip_norm: must be 0 or a finite norm above it");
  }
  int exponent = 0;
  const double scale = control.initial_loss_scale;
  if (scale != 0 && (!(scale >= 1 && scale <= kLargestLossScale) ||
                     std::frexp(scale, &exponent) != 0.5 || control.growth_steps < 1)) {
    return InternalError(
        "gate.control: initial_loss_scale must be a power of two from 1 to 2^140, growth_steps at "
        "least 1");
  }
  const bool scales = control.scales_loss();
  TL_RETURN_IF_ERROR(CheckGateRegister(program, "factor", gate.factor, true, true, false));
  TL_RETURN_IF_ERROR(CheckGateRegister(program, "update", gate.update, scales, false, false));
  TL_RETURN_IF_ERROR(CheckGateRegister(program, "loss_scale", gate.loss_scale, scales, true, true));
  TL_RETURN_IF_ERROR(
      CheckGateRegister(program, "clean_steps", gate.clean_steps, scales, false, true));
  return CheckGateRegister(program, "skipped_steps", gate.skipped_steps, scales, false, true);
}

// One section of one role.
class SectionRegisters {
 public:
  SectionRegisters(const Program& program, bool evaluates)
      : program_(program), evaluates_(evaluates), state_(program.registers.size()) {
    for (size_t id = 0; id < state_.size(); ++id) {
      state_[id].written = program.registers[id].persistent;
    }
  }

  Status Play(const Instruction& instruction) {
    if (instruction.guard != kNoId) TL_RETURN_IF_ERROR(Guard(instruction));
    if (instruction.kind == InstructionKind::kCompute) {
      for (const uint32_t scalar : program_.kernels[instruction.what].scalars) {
        TL_RETURN_IF_ERROR(Read(scalar, instruction.guard));
      }
    }
    if (instruction.kind != InstructionKind::kHostCompute) return absl::OkStatus();
    const HostTask& task = program_.host_tasks[instruction.what];
    for (const uint32_t id : RegistersRead(task)) {
      TL_RETURN_IF_ERROR(Read(id, instruction.guard));
    }
    for (const uint32_t id : RegistersWritten(task)) {
      TL_RETURN_IF_ERROR(Write(id, instruction.guard));
    }
    return absl::OkStatus();
  }

 private:
  struct State {
    bool written = false;
    uint32_t guard = kNoId;  // it holds something only where this one is not 0
    bool guards = false;
  };

  std::string NameOf(uint32_t id) const {
    return Message("register ", Quoted(program_.registers[id].name));
  }

  Status Guard(const Instruction& instruction) {
    const Register& guard = program_.registers[instruction.guard];
    TL_RETURN_IF_ERROR(Read(instruction.guard, kNoId));
    state_[instruction.guard].guards = true;
    const bool communicates = instruction.kind == InstructionKind::kCollective ||
                              instruction.kind == InstructionKind::kSend ||
                              instruction.kind == InstructionKind::kReceive;
    if (!communicates || guard.replicated) return absl::OkStatus();
    return InternalError(
        Message("is guarded by ", NameOf(instruction.guard),
                ", which is not replicated: a rank could wait for one that skips"));
  }

  Status Read(uint32_t id, uint32_t guard) const {
    const State& state = state_[id];
    if (!state.written) {
      return InternalError(Message("reads ", NameOf(id), ", which nothing wrote before"));
    }
    if (state.guard == kNoId || state.guard == guard) return absl::OkStatus();
    return InternalError(Message("reads ", NameOf(id), ", which is written only when ",
                                 NameOf(state.guard), " is not 0; guard the read by it too"));
  }

  Status Write(uint32_t id, uint32_t guard) {
    State& state = state_[id];
    if (state.guards) {
      return InternalError(Message("writes ", NameOf(id), ", which has guarded an instruction of ",
                                   "this section already"));
    }
    if (evaluates_ && program_.registers[id].persistent) {
      return InternalError(
          Message("writes ", NameOf(id), ", which an evaluation must leave alone"));
    }
    // What was there before still is where the guard is 0.
    if (!state.written || state.guard != kNoId) state.guard = guard;
    state.written = true;
    return absl::OkStatus();
  }

  const Program& program_;
  const bool evaluates_;
  std::vector<State> state_;
};

}  // namespace

Status VerifyRegisterTables(const Program& program) {
  std::set<std::string_view> names;
  for (size_t index = 0; index < program.registers.size(); ++index) {
    const Register& entry = program.registers[index];
    const std::string where = Message("registers[", index, "]");
    TL_RETURN_IF_ERROR(Annotate(CheckRegister(entry), where));
    if (!names.insert(entry.name).second) {
      return InternalError(Message(where, ": the name ", Quoted(entry.name), " is there twice"));
    }
  }
  for (size_t index = 0; index < program.kernels.size(); ++index) {
    for (const uint32_t scalar : program.kernels[index].scalars) {
      if (scalar < program.registers.size()) continue;
      return InternalError(Message("kernels[", index, "].scalars: register ", scalar,
                                   " is not in the table of ", program.registers.size()));
    }
  }
  for (size_t index = 0; index < program.host_tasks.size(); ++index) {
    const HostTask& task = program.host_tasks[index];
    if (task.kind != HostTaskKind::kGateUpdate) continue;
    TL_RETURN_IF_ERROR(Annotate(CheckGate(program, task.gate), Message("host_tasks[", index, "]")));
  }
  return absl::OkStatus();
}

Status VerifyRegisterUse(const Program& program) {
  for (const Role& role : program.roles) {
    const std::vector<const Section*> sections = Sections(role);
    for (size_t index = 0; index < sections.size(); ++index) {
      const bool evaluates = program.evaluation != kNoId && index == size_t{program.evaluation} + 1;
      SectionRegisters registers(program, evaluates);
      for (uint32_t i = 0; i < sections[index]->instructions.size(); ++i) {
        const Status status = registers.Play(sections[index]->instructions[i]);
        if (!status.ok()) return Annotate(status, Where(program, role, index, i));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace tideline
