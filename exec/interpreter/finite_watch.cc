#include "exec/interpreter/finite_watch.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "exec/interpreter/position_board.h"
#include "exec/ops/launchers.h"

namespace tideline {

void NonFiniteFindings::Add(const NonFinite& found) {
  std::lock_guard lock(mutex_);
  by_step_[found.step].push_back(found);
}

std::optional<NonFinite> NonFiniteFindings::First(
    const std::function<bool(const NonFinite&)>& counts) const {
  std::lock_guard lock(mutex_);
  const auto order = [](const NonFinite& found) {
    return std::tuple(!found.found_in_state, found.end_ns, found.rank, found.instruction);
  };
  for (const auto& [step, all] : by_step_) {
    const NonFinite* first = nullptr;
    for (const NonFinite& found : all) {
      if (counts(found) && (first == nullptr || order(found) < order(*first))) first = &found;
    }
    if (first != nullptr) return *first;
  }
  return std::nullopt;
}

std::string Describe(const Program& program, const NonFinite& found) {
  const Role& role = program.roles[program.ranks[static_cast<size_t>(found.rank)].role];
  const Instruction& instruction = Sections(role)[found.section]->instructions[found.instruction];
  std::string text =
      PositionLine(program, found.rank, {found.step, found.section, found.instruction});
  if (instruction.kind == InstructionKind::kCompute) {
    absl::StrAppend(&text, ", op ", std::string(Name(program.kernels[instruction.what].op)));
  } else {
    absl::StrAppend(&text, ", ", std::string(Name(program.collectives[instruction.what].kind)));
  }
  return text;
}

FiniteWatch::FiniteWatch(const Program& program, Device device, int32_t rank,
                         NonFiniteFindings* findings)
    : program_(program),
      role_(program.roles[program.ranks[static_cast<size_t>(rank)].role]),
      device_(device),
      rank_(rank),
      findings_(findings) {
  for (const Section* section : Sections(role_)) {
    count_ = std::max<int64_t>(count_, static_cast<int64_t>(section->instructions.size()));
  }
}

FiniteWatch::~FiniteWatch() {
  if (flags_ != nullptr) Release(device_, flags_);
}

Status FiniteWatch::Open() {
  if (count_ == 0) return absl::OkStatus();
  TL_ASSIGN_OR_RETURN(flags_,
                      Reserve(device_, Space::kDevice, count_ * 4,
                              "flags of values that are no finite numbers", Category::kRuntime));
  return absl::OkStatus();
}

Status FiniteWatch::Begin() {
  if (count_ == 0) return absl::OkStatus();
  const std::vector<int32_t> zeros(static_cast<size_t>(count_), 0);
  return WriteMemory(device_, flags_, zeros.data(), count_ * 4);
}

Status FiniteWatch::Look(const Operand& operand, DType dtype, bool lowest_is_fine,
                         uint32_t instruction, Stream stream, const AddressOf& address_of) {
  if (dtype == DType::kI32 || operand.bytes == 0) return absl::OkStatus();
  return ops::LaunchFindNonFinite({.stream = stream, .tag = instruction}, dtype,
                                  address_of(operand), operand.bytes / SizeOf(dtype),
                                  lowest_is_fine, static_cast<int32_t*>(flags_) + instruction);
}

Status FiniteWatch::After(const Section& section, uint32_t index, Stream stream,
                          const AddressOf& address_of) {
  const Instruction& instruction = section.instructions[index];
  const auto operands = section.Operands(instruction);
  const bool computes = instruction.kind == InstructionKind::kCompute;
  if (!computes && instruction.kind != InstructionKind::kCollective) return absl::OkStatus();
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].access == Access::kRead) continue;
    const DType dtype = computes ? program_.kernels[instruction.what].operands[i].dtype
                                 : program_.collectives[instruction.what].dtype;
    // The largest of no columns.
    const bool lowest_is_fine = computes && program_.kernels[instruction.what].op == Op::kRowMax;
    TL_RETURN_IF_ERROR(Look(operands[i], dtype, lowest_is_fine, index, stream, address_of));
  }
  return absl::OkStatus();
}

StatusOr<std::vector<int32_t>> FiniteWatch::Flags() const {
  std::vector<int32_t> flags(static_cast<size_t>(count_), 0);
  if (count_ > 0) TL_RETURN_IF_ERROR(ReadMemory(device_, flags.data(), flags_, count_ * 4));
  return flags;
}

Status FiniteWatch::CheckState(const Section& section, uint32_t section_index, int64_t step,
                               Stream stream, const AddressOf& address_of) {
  TL_RETURN_IF_ERROR(Begin());
  for (uint32_t index = 0; index < section.instructions.size(); ++index) {
    const Instruction& instruction = section.instructions[index];
    if (instruction.kind != InstructionKind::kCompute) continue;
    const Kernel& kernel = program_.kernels[instruction.what];
    if (kernel.op != Op::kAdamW) continue;
    const auto operands = section.Operands(instruction);
    for (size_t i = 1; i < operands.size(); ++i) {
      TL_RETURN_IF_ERROR(
          Look(operands[i], kernel.operands[i].dtype, false, index, stream, address_of));
    }
  }
  TL_RETURN_IF_ERROR(SynchronizeDevice(device_));
  TakeTimes(device_);
  TL_ASSIGN_OR_RETURN(const std::vector<int32_t> flags, Flags());
  for (uint32_t index = 0; index < section.instructions.size(); ++index) {
    if (flags[index] == 0) continue;
    findings_->Add({rank_, step, section_index, index, true, 0});
    break;
  }
  return absl::OkStatus();
}

Status FiniteWatch::End(uint32_t section_index, int64_t step, const SectionTrace& trace) {
  TL_ASSIGN_OR_RETURN(const std::vector<int32_t> flags, Flags());
  for (uint32_t index = 0; index < flags.size(); ++index) {
    if (flags[index] == 0) continue;
    findings_->Add({rank_, step, section_index, index, false, trace.At(index).end_ns});
  }
  return absl::OkStatus();
}

}  // namespace tideline
