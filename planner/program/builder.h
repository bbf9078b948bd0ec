// ProgramBuilder: how lowering writes a Program.
//
// It interns what many instructions share (names, kernels, collectives, groups, peers, affines,
// host tasks: equal values get one id), and appends instructions to flat sections. Interning costs
// one hash of the value; appending costs the copy of its operands and waits: 10^6 instructions are
// well under a second.
//
//   Program program;
//   ProgramBuilder build(&program);
//   const uint32_t role = build.AddRole("stage 0");
//   const uint32_t x = build.AddBuffer(role, "x", 4096, Category::kActivation);
//   Instruction fill{.kind = InstructionKind::kCompute, .what = build.Intern(kernel)};
//   fill.lane = kComputeLane;
//   fill.name = build.Intern("fill x");
//   SectionBuilder body(&program.roles[role], &program.roles[role].bodies.emplace_back());
//   const Operand operands[] = {{.buffer = x, .bytes = 4096, .access = Access::kWrite}};
//   const uint32_t index = body.Append(fill, operands, {});
//
// The builder points into the Program and must not outlive it; nothing else may change the interned
// tables meanwhile. Roles move when one is added: add all roles before making SectionBuilders. Not
// for several threads at once.
#ifndef TIDELINE_PLANNER_PROGRAM_BUILDER_H_
#define TIDELINE_PLANNER_PROGRAM_BUILDER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "planner/program/program.h"

namespace tideline {

class ProgramBuilder {
 public:
  // Adopts what the tables of `program` already hold.
  explicit ProgramBuilder(Program* program);

  // The id of an equal value in its table, appended when it is new.
  uint32_t Intern(std::string_view name);
  uint32_t Intern(const Kernel& kernel);
  uint32_t Intern(const Collective& collective);
  uint32_t Intern(const Group& group);
  uint32_t Intern(const Peer& peer);
  uint32_t Intern(const Affine& affine);
  uint32_t Intern(const HostTask& task);

  // kNoId when `affine` is 0 everywhere, else its id: what Operand::affine wants.
  uint32_t InternOffset(const Affine& affine);

  // A role with the host lane (0) and the compute lane (1).
  uint32_t AddRole(std::string_view name);

  // The role's lane of that kind and index, appended when it is new.
  uint16_t LaneOf(uint32_t role, Lane lane);

  uint32_t AddBuffer(uint32_t role, std::string_view name, int64_t bytes, Category category,
                     Space space = Space::kDevice, bool persistent = false);

 private:
  // Hash of a value to the ids that have it; equality decides.
  using Index = std::unordered_multimap<uint64_t, uint32_t>;

  template <typename Value>
  uint32_t InternIn(std::vector<Value>& table, Index& index, const Value& value);

  Program* program_;
  Index names_, kernels_, collectives_, groups_, peers_, affines_, host_tasks_;
};

// Appends to one section of one role.
class SectionBuilder {
 public:
  // Both must outlive the builder and stay where they are.
  SectionBuilder(const Role* role, Section* section) : role_(role), section_(section) {}

  // Appends `instruction` (its operand and wait ranges are set here) and returns its index. Waits
  // may come in any order and repeat; those that lane order implies are dropped: any on the
  // instruction's own lane, and all but the last per other lane. kNoId in `waits` is ignored.
  uint32_t Append(Instruction instruction, std::span<const Operand> operands,
                  std::span<const uint32_t> waits);

  // The index the next Append returns.
  uint32_t size() const { return static_cast<uint32_t>(section_->instructions.size()); }

 private:
  const Role* role_;
  Section* section_;
  std::vector<uint32_t> last_;  // per lane, the last instruction waited for, kept to be reused
};

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_BUILDER_H_
