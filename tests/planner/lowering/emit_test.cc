#include "planner/lowering/emit.h"

#include <gtest/gtest.h>

#include "planner/program/memory.h"
#include "tests/planner/lowering/fixture.h"

namespace tideline {
namespace {

Program EmitWhole(const Draft& draft) {
  Program program = Emit(draft);
  for (Role& role : program.roles) InsertLifetimes(role);
  AssignAddresses(program);
  return program;
}

int64_t Count(const Section& section, InstructionKind kind) {
  int64_t count = 0;
  for (const Instruction& instruction : section.instructions) count += instruction.kind == kind;
  return count;
}

TEST(EmitTest, OneRankRunsEveryNodeOncePerMicroBatch) {
  const StatusOr<Draft> draft = MakeDraft(TestPlan(TinyGpt()));
  ASSERT_TRUE(draft.ok()) << draft.status();
  const Program program = EmitWhole(*draft);
  ASSERT_EQ(program.roles.size(), 1u);
  const Section& body = program.roles[0].bodies[0];
  // Per micro-batch every node and the sum of its loss; once the two uses of the embedding, the
  // mean loss and one update per bucket (the tied table and the rest).
  const int64_t nodes = static_cast<int64_t>(draft->graph.nodes.size());
  EXPECT_EQ(Count(body, InstructionKind::kCompute), draft->micro_batches * (nodes + 1) + 1 + 1 + 2);
  EXPECT_EQ(Count(body, InstructionKind::kCollective), 0);
  EXPECT_EQ(Count(body, InstructionKind::kHostCompute), draft->micro_batches + 1);
  EXPECT_EQ(Count(body, InstructionKind::kCopy), 2 * draft->micro_batches + 1);
}

TEST(EmitTest, GradientsOverwriteInTheFirstMicroBatchOnly) {
  const StatusOr<Draft> draft = MakeDraft(TestPlan(TinyLlama()));
  ASSERT_TRUE(draft.ok()) << draft.status();
  const Program program = EmitWhole(*draft);
  const Section& body = program.roles[0].bodies[0];
  int gradients = 0;
  for (const Instruction& instruction : body.instructions) {
    if (instruction.kind != InstructionKind::kCompute || instruction.micro_batch < 0) continue;
    const Operand& last = body.Operands(instruction).back();
    const Buffer& buffer = program.roles[0].buffers[last.buffer];
    if (buffer.category != Category::kGradient) continue;
    ++gradients;
    EXPECT_EQ(program.kernels[instruction.what].attributes.accumulate, instruction.micro_batch > 0);
    EXPECT_EQ(last.access, instruction.micro_batch > 0 ? Access::kReadWrite : Access::kWrite);
  }
  EXPECT_GT(gradients, 0);
}

}  // namespace
}  // namespace tideline
