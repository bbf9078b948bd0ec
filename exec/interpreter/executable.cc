// What the interpreter asks of a Program before it plays it.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "exec/interpreter/interpreter.h"
#include "exec/ops/registry.h"

namespace tideline {
namespace {

std::string NameOf(const Program& program, const Instruction& instruction) {
  return instruction.name < program.names.size() ? program.names[instruction.name]
                                                 : std::string("unnamed");
}

Status CheckHostTask(const Program& program, const Section& section,
                     const Instruction& instruction) {
  const HostTask& task = program.host_tasks[instruction.what];
  const auto operands = section.Operands(instruction);
  if (task.kind == HostTaskKind::kReadLoss) {
    if (operands.size() == 1 && operands[0].bytes == 4) return absl::OkStatus();
    return InputError("a loss is read from one operand of 4 bytes");
  }
  if (task.kind == HostTaskKind::kGateUpdate) return absl::OkStatus();  // the verifier knows all
  if (task.sequence != program.sequence) {
    return InputError(absl::StrCat("samples are loaded as sequences of ", task.sequence,
                                   ", the program's are ", program.sequence));
  }
  const std::array<int64_t, 2> bytes = LoadedBytes(task);
  if (task.samples < 0 || operands.size() != 2 || operands[0].bytes != bytes[0] ||
      operands[1].bytes != bytes[1]) {
    return InputError(absl::StrCat("samples are loaded into two operands of ", bytes[0], " and ",
                                   bytes[1], " bytes"));
  }
  return absl::OkStatus();
}

Status CheckOperands(size_t found, size_t least, size_t most) {
  if (found >= least && found <= most) return absl::OkStatus();
  return InputError(absl::StrCat("it has ", found, " operands, not ", least,
                                 most > least ? absl::StrCat(" or ", most) : ""));
}

Status CheckInstruction(const Program& program, const Role& role, const Section& section,
                        const Instruction& instruction) {
  const Lane& lane = role.lanes[instruction.lane];
  const auto operands = section.Operands(instruction);
  const bool on_host = lane.kind == LaneKind::kHost;
  switch (instruction.kind) {
    case InstructionKind::kCompute: {
      if (on_host) return InputError("a kernel cannot run on the host lane");
      const std::vector<OperandSpec>& specs = program.kernels[instruction.what].operands;
      TL_RETURN_IF_ERROR(CheckOperands(operands.size(), specs.size(), specs.size()));
      for (size_t i = 0; i < specs.size(); ++i) {
        const int64_t bytes = Elements(specs[i].shape) * SizeOf(specs[i].dtype);
        if (operands[i].bytes != bytes) {
          return InputError(absl::StrCat("operand ", i, " has ", operands[i].bytes,
                                         " bytes, its kernel's shape ", bytes));
        }
      }
      return absl::OkStatus();
    }
    case InstructionKind::kCollective:
      if (lane.kind != LaneKind::kGroup ||
          lane.index != program.collectives[instruction.what].group) {
        return InputError("a collective runs on its group's lane");
      }
      return CheckOperands(operands.size(), 1, 2);
    case InstructionKind::kSend:
    case InstructionKind::kReceive:
      if (lane.kind != (instruction.kind == InstructionKind::kSend ? LaneKind::kSendTo
                                                                   : LaneKind::kReceiveFrom) ||
          lane.index != instruction.what) {
        return InputError("a message runs on its peer's lane");
      }
      return CheckOperands(operands.size(), 1, 1);
    case InstructionKind::kCopy:
      if (on_host) return InputError("a copy cannot run on the host lane");
      return CheckOperands(operands.size(), 2, 2);
    case InstructionKind::kAlloc:
    case InstructionKind::kFree:
      return absl::OkStatus();
    case InstructionKind::kHostCompute:
      if (!on_host) return InputError("a host task runs on the host lane");
      return CheckHostTask(program, section, instruction);
    case InstructionKind::kPolicy:
    case InstructionKind::kLoop:
      return InputError("policies and loops are not supported yet");
  }
  return InputError("unknown kind of instruction");
}

bool ScalesLoss(const Program& program) {
  return std::any_of(program.host_tasks.begin(), program.host_tasks.end(),
                     [](const HostTask& task) { return task.gate.control.scales_loss(); });
}

}  // namespace

Status CheckExecutable(const Program& program) {
  for (size_t i = 0; i < program.kernels.size(); ++i) {
    // Without a scale, gradients below 6e-8 vanish in fp16 and nothing says so.
    if (program.kernels[i].compute_dtype == DType::kF16 && !ScalesLoss(program)) {
      return UnavailableError(
          absl::StrCat("kernel ", i,
                       ": computes in fp16, which trains only with a scaled loss: plan with "
                       "--loss-scale 65536, --pin dtype=bf16 or dtype=fp32"));
    }
    const Status supported = CheckSupported(program.kernels[i]);
    if (!supported.ok()) return Annotate(supported, absl::StrCat("kernel ", i));
  }
  if (program.sequence < 1 || program.global_batch < 1) {
    return InputError(absl::StrCat("program: sequence ", program.sequence, " and global_batch ",
                                   program.global_batch, " must be at least 1"));
  }
  for (const Role& role : program.roles) {
    for (const Section* section : Sections(role)) {
      for (const Instruction& instruction : section->instructions) {
        const Status fits = CheckInstruction(program, role, *section, instruction);
        if (fits.ok()) continue;
        return Annotate(fits, absl::StrCat("role '", role.name, "', instruction ",
                                           &instruction - section->instructions.data(), " '",
                                           NameOf(program, instruction), "'"));
      }
    }
  }
  return absl::OkStatus();
}

int64_t VocabularyOf(const Program& program) {
  int64_t smallest = 0;
  for (const Kernel& kernel : program.kernels) {
    const int64_t vocabulary = kernel.attributes.valid_columns;
    if (vocabulary > 0 && (smallest == 0 || vocabulary < smallest)) smallest = vocabulary;
  }
  return smallest;
}

StatusOr<std::vector<uint32_t>> BodySequence(const Program& program, int64_t steps) {
  int64_t fixed = 0;
  int open = 0;
  for (const BodyRun& run : program.schedule) {
    if (run.times < 0) return InputError("program: schedule: a count is below 0");
    if (run.times == 0) ++open;
    fixed += run.times;
  }
  if (program.schedule.empty() || open > 1) {
    return InputError(absl::StrCat("program: schedule: it has ", program.schedule.size(),
                                   " entries of which ", open,
                                   " are open; at least one entry and at most one open is valid"));
  }
  std::vector<uint32_t> bodies;
  for (const BodyRun& run : program.schedule) {
    const int64_t times = run.times > 0 ? run.times : std::max<int64_t>(0, steps - fixed);
    bodies.insert(bodies.end(), static_cast<size_t>(times), run.body);
  }
  if (static_cast<int64_t>(bodies.size()) < steps) {
    return InputError(absl::StrCat("program: schedule: it has ", bodies.size(), " steps, ", steps,
                                   " are asked for"));
  }
  bodies.resize(static_cast<size_t>(steps));
  return bodies;
}

}  // namespace tideline
