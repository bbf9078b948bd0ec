// A section of a role made ready to be played: lanes of units.
//
// A unit is what starts together and is watched by nobody in between: a run of kernels on the
// compute lane, or one collective, message, copy or host task, each with the kAlloc and kFree that
// follow it. Most of a training step fuses into a few units per layer, and ranks of one role share
// them, so playing costs per unit and not per instruction.
//
// Launches are accounted exactly. Kernel j of a run starts at max(end of j-1, launch of j); with
// launch offsets l_j on the host lane and durations d_j, a run that may start at `ready` ends at
//   max(ready + sum d, base + max_j(l_j + d_j + d_j+1 + ...)) = max(ready + busy_s, base +
//   host_end_s),
// where `base` is the date of offset 0 on the host lane (it moves when a host task blocks the
// lane).
#ifndef TIDELINE_SIM_INTERPRETER_COMPILED_SECTION_H_
#define TIDELINE_SIM_INTERPRETER_COMPILED_SECTION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "models/cluster/cluster_spec.h"
#include "planner/program/program.h"

namespace tideline {

enum class UnitKind : uint8_t {
  kMemory,  // kAlloc and kFree only
  kCompute,
  kHostTask,
  kCollective,
  kSend,
  kReceive,
  kCopy
};

// A wait for a unit of another lane.
struct UnitWait {
  uint16_t lane = 0;
  uint32_t unit = 0;  // on that lane
};

struct LaneUnit {
  UnitKind kind = UnitKind::kMemory;
  bool has_memory = false;  // some part is a kAlloc or kFree
  uint32_t what = kNoId;    // collective, peer, host task
  uint32_t waits_begin = 0, waits_end = 0;
  uint32_t parts_begin = 0, parts_end = 0;
  uint32_t host_tasks_before = 0;  // host tasks earlier in the list: launches come after them
  int64_t bytes = 0;      // transfers: of the largest operand; compute: nanoseconds of work
  double launch_s = 0;    // host offset when (its first kernel) is launched
  double busy_s = 0;      // compute, host task: sum of durations
  double host_end_s = 0;  // compute: see above
};

// One instruction of a unit.
struct UnitPart {
  double launch_s = 0;
  double duration_s = 0;
  uint32_t instruction = 0;
  uint32_t buffer = kNoId;  // kAlloc, kFree
  InstructionKind kind = InstructionKind::kCompute;
};

struct CompiledSection {
  std::vector<LaneUnit> units;       // lane by lane
  std::vector<uint32_t> lane_begin;  // lanes + 1 entries, into units
  std::vector<UnitWait> waits;
  std::vector<UnitPart> parts;  // unit by unit
  uint32_t host_tasks = 0;

  std::span<const UnitWait> Waits(const LaneUnit& unit) const {
    return {waits.data() + unit.waits_begin, waits.data() + unit.waits_end};
  }
  std::span<const UnitPart> Parts(const LaneUnit& unit) const {
    return {parts.data() + unit.parts_begin, parts.data() + unit.parts_end};
  }
};

struct CompileInput {
  const Program* program = nullptr;
  const HostProfile* host = nullptr;
  std::span<const double> kernel_seconds;  // per Program::kernels
  double slowdown = 1;                     // multiplies kernel times
};

// `first_launch_s`: host time before the first launch (the step's own cost). Costs O(instructions +
// waits). Errors: an instruction kind that is reserved.
StatusOr<CompiledSection> CompileSection(const CompileInput& input, const Role& role,
                                         const Section& section, double first_launch_s);

}  // namespace tideline

#endif  // TIDELINE_SIM_INTERPRETER_COMPILED_SECTION_H_
