#include "planner/program/verifier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "planner/program/memory.h"
#include "tests/planner/program/edit.h"
#include "tests/planner/program/pipeline_program.h"

namespace tideline {
namespace {

using testing::AssertionFailure;
using testing::AssertionResult;
using testing::AssertionSuccess;

PipelineShape SmallPipeline() {
  PipelineShape options;
  options.data = 2;
  options.stages = 2;
  options.tensor = 2;
  options.layers = 1;
  options.micro_batches = 3;
  return options;
}

// Verify must fail and its message hold every one of `pieces`.
AssertionResult Rejects(const Program& program, std::vector<std::string> pieces,
                        const VerifyOptions& options = {}) {
  const Status status = Verify(program, options);
  if (status.ok()) return AssertionFailure() << "accepted";
  for (const std::string& piece : pieces) {
    if (std::string(status.message()).find(piece) == std::string::npos) {
      return AssertionFailure() << "message without `" << piece << "`: " << status;
    }
  }
  return AssertionSuccess();
}

AssertionResult Accepts(const Program& program, const VerifyOptions& options = {}) {
  const Status status = Verify(program, options);
  if (status.ok()) return AssertionSuccess();
  return AssertionFailure() << status;
}

// Changes the body of role 0 through an editor.
Program Edited(const Program& program, const std::function<void(SectionEditor&)>& change) {
  Program edited = program;
  SectionEditor editor(edited.roles[0].bodies[0]);
  change(editor);
  edited.roles[0].bodies[0] = editor.Pack();
  return edited;
}

uint32_t Find(const SectionEditor& editor, const std::function<bool(const Instruction&)>& is) {
  for (uint32_t index = 0; index < editor.entries.size(); ++index) {
    if (is(editor.entries[index].instruction)) return index;
  }
  ADD_FAILURE() << "no such instruction";
  return 0;
}

uint32_t FindKind(const SectionEditor& editor, InstructionKind kind) {
  return Find(editor, [&](const Instruction& entry) { return entry.kind == kind; });
}

TEST(VerifierTest, AcceptsPipelines) {
  for (const auto& [data, stages, tensor, layers, micro_batches] :
       std::vector<std::array<int32_t, 5>>{{1, 1, 1, 1, 1},
                                           {1, 2, 1, 1, 2},
                                           {2, 3, 2, 2, 5},
                                           {1, 4, 3, 1, 7},
                                           {3, 1, 2, 3, 1},
                                           {1, 5, 1, 2, 11}}) {
    PipelineShape options;
    options.data = data;
    options.stages = stages;
    options.tensor = tensor;
    options.layers = layers;
    options.micro_batches = micro_batches;
    options.hidden_bytes = 4096 * tensor;
    EXPECT_TRUE(Accepts(MakePipelineProgram(options)));
    options.with_memory = false;
    Program program = MakePipelineProgram(options);
    for (Role& role : program.roles) InsertLifetimes(role);
    EXPECT_TRUE(Accepts(program)) << "without addresses";
  }
}

TEST(VerifierTest, NamesThePass) {
  const Program good = MakePipelineProgram(SmallPipeline());
  const Program bad = Edited(
      good, [](SectionEditor& editor) { editor.Drop(FindKind(editor, InstructionKind::kAlloc)); });
  VerifyOptions options;
  options.after_pass = "zero";
  EXPECT_TRUE(
      Rejects(bad, {"after pass zero: role `stage 0`, body 0, ", "never allocates"}, options));
}

TEST(VerifierTest, Structure) {
  const Program good = MakePipelineProgram(SmallPipeline());
  Program bad = good;
  bad.ranks.pop_back();
  EXPECT_TRUE(Rejects(bad, {"ranks: there are 7 but the mesh has 8"}));
  bad = good;
  std::swap(bad.ranks[0].coordinates, bad.ranks[1].coordinates);
  EXPECT_TRUE(Rejects(bad, {"ranks[0].coordinates"}));
  bad = good;
  bad.mesh = {INT32_MAX, INT32_MAX, 2};
  EXPECT_TRUE(Rejects(bad, {"mesh"}));
  bad = good;
  bad.roles[0].buffers[0].bytes = INT64_MAX;
  EXPECT_TRUE(Rejects(bad, {"buffers[0].bytes"}));
  bad = good;
  bad.roles[1].lanes[0].kind = LaneKind::kCompute;
  EXPECT_TRUE(Rejects(bad, {"role `stage 1`: lanes"}));
  bad = good;
  bad.groups[0].subset = {1, 0};
  EXPECT_TRUE(Rejects(bad, {"groups[0]: subset"}));
  bad = good;
  bad.collectives[0].block = int64_t{1} << 61;
  EXPECT_TRUE(Rejects(bad, {"collectives[0]: outer and block"}));
  bad = good;
  bad.schedule = {{1, 1}};
  EXPECT_TRUE(Rejects(bad, {"schedule[0]"}));
  bad = good;
  bad.roles[0].bodies[0].instructions[3].operands_end = 1 << 30;
  EXPECT_TRUE(Rejects(bad, {"outside the section"}));
  const auto expect_edit = [&](const std::function<void(SectionEditor&)>& change,
                               std::vector<std::string> pieces) {
    EXPECT_TRUE(Rejects(Edited(good, change), std::move(pieces)));
  };
  expect_edit([](SectionEditor& e) { e.entries[5].instruction.lane = 99; }, {"no such lane"});
  expect_edit([](SectionEditor& e) { e.entries[5].waits = {5}; }, {"which is not before it"});
  expect_edit([](SectionEditor& e) { e.entries[5].instruction.guard = 0; },
              {"guard: register 0 is not in the table of 0"});
  expect_edit(
      [](SectionEditor& e) {
        e.entries[FindKind(e, InstructionKind::kCompute)].operands[0].bytes += 4;
      },
      {"is not inside buffer"});
  expect_edit(
      [](SectionEditor& e) {
        e.entries[FindKind(e, InstructionKind::kCompute)].operands[0].bytes -= 4;
      },
      {"operand 0 is a write of"});
  expect_edit(
      [](SectionEditor& e) {
        SectionEditor::Entry& reduce = e.entries[FindKind(e, InstructionKind::kCollective)];
        reduce.instruction.lane = kComputeLane;
        reduce.waits.clear();
      },
      {"belongs on \"group tp\""});
  for (const InstructionKind kind : {InstructionKind::kPolicy, InstructionKind::kLoop}) {
    expect_edit([&](SectionEditor& e) { e.entries[0].instruction.kind = kind; },
                {"no interpreter plays it yet"});
  }
}

TEST(VerifierTest, Lifetimes) {
  const Program good = MakePipelineProgram(SmallPipeline());
  const auto expect_edit = [&](const std::function<void(SectionEditor&)>& change,
                               std::vector<std::string> pieces) {
    EXPECT_TRUE(Rejects(Edited(good, change), std::move(pieces)));
  };
  expect_edit([](SectionEditor& e) { e.Drop(FindKind(e, InstructionKind::kFree)); },
              {"never frees"});
  expect_edit(
      [](SectionEditor& e) {
        const uint32_t alloc = FindKind(e, InstructionKind::kAlloc);
        SectionEditor::Entry again = e.entries[alloc];
        again.waits.clear();
        e.Insert(alloc + 1, again);
      },
      {"allocates buffer", "again"});
  expect_edit(
      [](SectionEditor& e) {
        const uint32_t alloc = FindKind(e, InstructionKind::kAlloc);
        e.Move(alloc, alloc + 1);
      },
      {"its alloc", "does not happen before; wait for it"});
  expect_edit(
      [](SectionEditor& e) {
        const uint32_t free = FindKind(e, InstructionKind::kFree);
        e.Move(free, free - 1);
      },
      {"does not happen before its free"});
}

TEST(VerifierTest, AWaitThatIsMissing) {
  const Program good = MakePipelineProgram(SmallPipeline());
  // The add after the first all-reduce no longer waits for it, nor does the alloc before it; its
  // free still does.
  const Program bad = Edited(good, [](SectionEditor& editor) {
    const uint32_t reduce = FindKind(editor, InstructionKind::kCollective);
    for (SectionEditor::Entry& entry : editor.entries) {
      if (entry.instruction.kind != InstructionKind::kFree) std::erase(entry.waits, reduce);
    }
    const uint32_t buffer = editor.entries[reduce].operands[0].buffer;
    editor
        .entries[Find(editor,
                      [&](const Instruction& entry) {
                        return entry.kind == InstructionKind::kFree && entry.what == buffer;
                      })]
        .waits = {reduce};
  });
  EXPECT_TRUE(Rejects(bad, {"compute instruction", "`reduce projected`",
                            "neither happens before the other; add a wait"}));
}

TEST(VerifierTest, ReadsOfUnwrittenBytes) {
  Program bad = MakePipelineProgram(SmallPipeline());
  bad.roles[1].prologue = Section();
  EXPECT_TRUE(Rejects(bad, {"role `stage 1`, body 0", "reads", "which nothing wrote before"}));
}

TEST(VerifierTest, AddressesThatCollide) {
  const Program good = MakePipelineProgram(SmallPipeline());
  Program bad = good;
  // Two persistent buffers.
  bad.roles[0].buffers[1].address = bad.roles[0].buffers[0].address;
  EXPECT_TRUE(Rejects(bad, {"persistent buffer", "may still be alive"}));
  // A transient one on a persistent one.
  bad = good;
  for (Buffer& buffer : bad.roles[0].buffers) {
    if (!buffer.persistent) buffer.address = 0;
  }
  EXPECT_TRUE(Rejects(bad, {"alloc instruction", "may still be alive"}));
  bad = good;
  bad.roles[0].extent[0] -= kAlignment;
  EXPECT_TRUE(Rejects(bad, {"within the extent"}));
}

TEST(VerifierTest, CapacityIsHeld) {
  const Program good = MakePipelineProgram(SmallPipeline());
  VerifyOptions options;
  options.capacity[0] = std::max(good.roles[0].extent[0], good.roles[1].extent[0]);
  EXPECT_TRUE(Accepts(good, options));
  options.capacity[0] -= 1;
  EXPECT_TRUE(Rejects(good, {"bytes of device memory, the capacity is"}, options));
}

TEST(VerifierTest, MessagesMustMeet) {
  const Program good = MakePipelineProgram(SmallPipeline());
  Program bad = Edited(good, [](SectionEditor& e) {
    e.entries[FindKind(e, InstructionKind::kSend)].operands[0].bytes -= 4;
  });
  EXPECT_TRUE(Rejects(bad, {"moves 4092 bytes", "moves 4096"}));
  bad = Edited(good, [](SectionEditor& e) {
    const uint32_t send = FindKind(e, InstructionKind::kSend);
    const SectionEditor::Entry twice = e.entries[send];
    e.Insert(send + 1, twice);
  });
  EXPECT_TRUE(Rejects(bad, {"waits forever"}));
  bad = Edited(good, [](SectionEditor& e) {
    const uint32_t send = FindKind(e, InstructionKind::kSend);
    e.entries[send].operands[0].buffer = 0;
    e.entries[send].instruction.what ^= 1;
  });
  EXPECT_FALSE(Verify(bad).ok());
}

TEST(VerifierTest, CollectivesMustAgree) {
  PipelineShape options = SmallPipeline();
  options.stages = 1;
  options.data = 1;
  // Each of the two ranks gets a role of its own; only one is changed.
  Program good = MakePipelineProgram(options);
  good.roles.push_back(good.roles[0]);
  good.roles[1].name = "other";
  good.ranks[1].role = 1;
  EXPECT_TRUE(Accepts(good));
  Program bad = good;
  Collective other = bad.collectives[0];
  other.order = ReductionOrder::kTree;
  bad.collectives.push_back(other);
  bad = Edited(bad, [&](SectionEditor& e) {
    e.entries[FindKind(e, InstructionKind::kCollective)].instruction.what =
        static_cast<uint32_t>(bad.collectives.size() - 1);
  });
  EXPECT_TRUE(Rejects(bad, {"meets another all_reduce"}));
  bad = Edited(good, [](SectionEditor& e) { e.Drop(FindKind(e, InstructionKind::kCollective)); });
  EXPECT_FALSE(Verify(bad).ok());
}

TEST(VerifierTest, RanksThatSeeDifferentRolesArePlayedOneByOne) {
  // Four replicas of a pipeline of two stages.
  PipelineShape options = SmallPipeline();
  options.data = 4;
  options.tensor = 1;
  Program program = MakePipelineProgram(options);
  const std::vector<Role> first = program.roles;
  program.roles.push_back(first[0]);
  // Rank 4 is replica 2, stage 0: its pipeline peers see another role than those of replica 0.
  program.ranks[4].role = 2;
  EXPECT_TRUE(Accepts(program));
  Program bad = program;
  SectionEditor editor(bad.roles[2].bodies[0]);
  editor.entries[FindKind(editor, InstructionKind::kSend)].operands[0].bytes -= 4;
  bad.roles[2].bodies[0] = editor.Pack();
  EXPECT_TRUE(Rejects(bad, {"rank ", "4092"}));
}

TEST(VerifierTest, RanksOfOneRoleReachDifferentBytes) {
  // Two ranks; each writes its half of a persistent buffer, rank t at 8 t, then reads all of it.
  Program program;
  program.mesh = {1, 1, 2};
  program.ranks = {{0, {0, 0, 0}}, {0, {0, 0, 1}}};
  program.affines = {{.base = 0, .per_coordinate = {0, 0, 8}}};
  Kernel half, whole;
  half.operands = {{{2}, DType::kF32, Access::kWrite}};
  whole.operands = {{{4}, DType::kF32, Access::kRead}};
  program.kernels = {half, whole};
  Role role;
  role.lanes = {{LaneKind::kHost, kNoId}, {LaneKind::kCompute, kNoId}};
  role.buffers.push_back({.bytes = 16, .persistent = true});
  role.buffers.push_back({.bytes = 16, .persistent = true});
  SectionEditor body{Section()};
  Instruction compute{.lane = kComputeLane, .what = 0};
  const Operand mine{.buffer = 0, .affine = 0, .bytes = 8, .access = Access::kWrite};
  Operand other = mine;
  other.affine = kNoId;
  other.offset = 8;
  const Operand all{.buffer = 0, .bytes = 16, .access = Access::kRead};
  body.entries.push_back({compute, {mine}, {}});
  body.entries.push_back({compute, {other}, {}});
  compute.what = 1;
  body.entries.push_back({compute, {all}, {}});
  role.bodies = {body.Pack()};
  program.roles = {role};
  // Rank 0 writes 0..8 and 8..16; rank 1 writes 8..16 twice and never 0..8.
  EXPECT_TRUE(Rejects(program, {"reads buffer 0", "bytes [0, 8)"}));
  program.mesh = {1, 1, 1};
  program.ranks.pop_back();
  EXPECT_TRUE(Accepts(program));
}

}  // namespace
}  // namespace tideline
