#include "sim/interpreter/compiled_section.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

class SectionCompiler {
 public:
  SectionCompiler(const CompileInput& input, const Role& role, const Section& section,
                  double first_launch_s)
      : input_(input),
        role_(role),
        section_(section),
        host_s_(first_launch_s),
        lanes_(role.lanes.size()),
        known_(role.lanes.size() * role.lanes.size(), 0),
        observed_(section.instructions.size(), false),
        unit_of_(section.instructions.size(), 0) {
    for (const uint32_t wait : section.waits) observed_[wait] = true;
  }

  StatusOr<CompiledSection> Run() {
    for (uint32_t i = 0; i < section_.instructions.size(); ++i) TL_RETURN_IF_ERROR(Add(i));
    return Flatten();
  }

 private:
  struct LaneUnits {
    std::vector<LaneUnit> units;
    std::vector<UnitPart> parts;
    bool closed = true;  // no kernel may join the last unit
  };

  // Waits that lane order and earlier waits of the lane do not imply; appended to waits_.
  void CollectWaits(const Instruction& instruction) {
    new_waits_.clear();
    for (const uint32_t wait : section_.Waits(instruction)) {
      const uint16_t other = section_.instructions[wait].lane;
      uint32_t& known = known_[instruction.lane * lanes_.size() + other];
      if (other == instruction.lane || unit_of_[wait] < known) continue;
      known = unit_of_[wait] + 1;
      new_waits_.push_back({other, unit_of_[wait]});
    }
  }

  LaneUnit& Open(uint16_t lane, UnitKind kind, uint32_t what) {
    LaneUnits& on_lane = lanes_[lane];
    LaneUnit& unit = on_lane.units.emplace_back();
    unit.kind = kind;
    unit.what = what;
    unit.host_tasks_before = host_tasks_;
    unit.parts_begin = unit.parts_end = static_cast<uint32_t>(on_lane.parts.size());
    unit.waits_begin = static_cast<uint32_t>(waits_.size());
    waits_.insert(waits_.end(), new_waits_.begin(), new_waits_.end());
    unit.waits_end = static_cast<uint32_t>(waits_.size());
    on_lane.closed = false;
    return unit;
  }

  void AddPart(uint32_t index, double duration_s, uint32_t buffer) {
    const Instruction& instruction = section_.instructions[index];
    LaneUnits& on_lane = lanes_[instruction.lane];
    on_lane.parts.push_back({host_s_, duration_s, index, buffer, instruction.kind});
    on_lane.units.back().parts_end = static_cast<uint32_t>(on_lane.parts.size());
    unit_of_[index] = static_cast<uint32_t>(on_lane.units.size() - 1);
    if (observed_[index]) on_lane.closed = true;
  }

  Status Add(uint32_t index) {
    const Instruction& instruction = section_.instructions[index];
    CollectWaits(instruction);
    switch (instruction.kind) {
      case InstructionKind::kAlloc:
      case InstructionKind::kFree:
        AddMemory(index);
        return absl::OkStatus();
      case InstructionKind::kCompute:
        AddCompute(index);
        return absl::OkStatus();
      case InstructionKind::kHostCompute:
        AddHostTask(index);
        return absl::OkStatus();
      case InstructionKind::kCollective:
        AddTransfer(index, UnitKind::kCollective, input_.host->collective_launch_s);
        return absl::OkStatus();
      case InstructionKind::kSend:
        AddTransfer(index, UnitKind::kSend, input_.host->collective_launch_s);
        return absl::OkStatus();
      case InstructionKind::kReceive:
        AddTransfer(index, UnitKind::kReceive, input_.host->collective_launch_s);
        return absl::OkStatus();
      case InstructionKind::kCopy:
        AddTransfer(index, UnitKind::kCopy, input_.host->copy_launch_s);
        return absl::OkStatus();
      case InstructionKind::kPolicy:
      case InstructionKind::kLoop:
        break;
    }
    return InternalError(absl::StrCat("role '", role_.name, "': instruction ", index,
                                      " is of a reserved kind that the simulator does not play"));
  }

  void AddMemory(uint32_t index) {
    const Instruction& instruction = section_.instructions[index];
    LaneUnits& on_lane = lanes_[instruction.lane];
    if (!new_waits_.empty() || on_lane.units.empty()) {
      Open(instruction.lane, UnitKind::kMemory, kNoId);
    }
    on_lane.units.back().has_memory = true;
    AddPart(index, 0, instruction.what);
  }

  void AddCompute(uint32_t index) {
    const Instruction& instruction = section_.instructions[index];
    LaneUnits& on_lane = lanes_[instruction.lane];
    host_s_ += input_.host->kernel_launch_s;
    const double duration_s = input_.kernel_seconds[instruction.what] * input_.slowdown;
    const bool joins = new_waits_.empty() && !on_lane.closed &&
                       (on_lane.units.back().kind == UnitKind::kMemory ||
                        (on_lane.units.back().kind == UnitKind::kCompute &&
                         on_lane.units.back().host_tasks_before == host_tasks_));
    LaneUnit& unit =
        joins ? on_lane.units.back() : Open(instruction.lane, UnitKind::kCompute, kNoId);
    if (!joins || unit.kind == UnitKind::kMemory) {
      unit.kind = UnitKind::kCompute;
      unit.launch_s = host_s_;
      unit.host_tasks_before = host_tasks_;
    }
    unit.host_end_s = std::max(unit.host_end_s, host_s_) + duration_s;
    unit.busy_s += duration_s;
    unit.bytes = std::llround(unit.busy_s * 1e9);
    AddPart(index, duration_s, kNoId);
  }

  void AddHostTask(uint32_t index) {
    const Instruction& instruction = section_.instructions[index];
    LaneUnit& unit = Open(instruction.lane, UnitKind::kHostTask, instruction.what);
    unit.launch_s = host_s_;
    unit.busy_s = input_.host->host_task_s;
    AddPart(index, unit.busy_s, kNoId);
    lanes_[instruction.lane].closed = true;
    ++host_tasks_;
  }

  void AddTransfer(uint32_t index, UnitKind kind, double launch_cost_s) {
    const Instruction& instruction = section_.instructions[index];
    host_s_ += launch_cost_s;
    LaneUnit& unit = Open(instruction.lane, kind, instruction.what);
    unit.launch_s = host_s_;
    for (const Operand& operand : section_.Operands(instruction)) {
      unit.bytes = std::max(unit.bytes, operand.bytes);
    }
    AddPart(index, 0, kNoId);
    lanes_[instruction.lane].closed = true;
  }

  CompiledSection Flatten() {
    CompiledSection compiled;
    for (LaneUnits& on_lane : lanes_) {
      compiled.lane_begin.push_back(static_cast<uint32_t>(compiled.units.size()));
      const uint32_t shift = static_cast<uint32_t>(compiled.parts.size());
      for (LaneUnit& unit : on_lane.units) {
        unit.parts_begin += shift;
        unit.parts_end += shift;
        compiled.units.push_back(unit);
      }
      compiled.parts.insert(compiled.parts.end(), on_lane.parts.begin(), on_lane.parts.end());
    }
    compiled.lane_begin.push_back(static_cast<uint32_t>(compiled.units.size()));
    compiled.waits = std::move(waits_);
    compiled.host_tasks = host_tasks_;
    return compiled;
  }

  const CompileInput& input_;
  const Role& role_;
  const Section& section_;
  double host_s_;
  uint32_t host_tasks_ = 0;
  std::vector<LaneUnits> lanes_;
  std::vector<uint32_t> known_;  // [lane][other]: units of `other` that `lane` has waited for
  std::vector<char> observed_;   // another lane waits for it
  std::vector<uint32_t> unit_of_;
  std::vector<UnitWait> waits_, new_waits_;
};

}  // namespace

StatusOr<CompiledSection> CompileSection(const CompileInput& input, const Role& role,
                                         const Section& section, double first_launch_s) {
  return SectionCompiler(input, role, section, first_launch_s).Run();
}

}  // namespace tideline
