// The evaluation body: the forward half of a step, for every way to train.
#include <gtest/gtest.h>

#include <algorithm>

#include "planner/lowering/lower.h"
#include "planner/program/file.h"
#include "planner/program/verifier.h"
#include "tests/planner/lowering/fixture.h"

namespace tideline {
namespace {

struct Case {
  std::string name;
  Plan plan;
};

std::vector<Case> Cases() {
  std::vector<Case> cases = {{"one_rank", TestPlan(TinyGpt())},
                             {"dp", TestPlan(TinyLlama(), {.dp = 2})},
                             {"pp", TestPlan(TinyGpt(), {.pp = 2})},
                             {"tp", TestPlan(TinyGpt(), {.tp = 2})},
                             {"all", TestPlan(TinyLlama(), {.dp = 2, .pp = 2, .tp = 2})},
                             {"interleaved", Interleaved(TestPlan(TinyOpt(), {.pp = 2}), 2)}};
  for (const int32_t zero : {1, 2, 3}) {
    Plan plan = TestPlan(TinyGpt(), {.dp = 2});
    plan.zero = zero;
    cases.push_back({"zero" + std::to_string(zero), plan});
  }
  Plan recomputed = TestPlan(TinyGpt(), {.pp = 2});
  recomputed.recompute = Recompute::kFull;
  cases.push_back({"recompute", recomputed});
  Plan cut = TestPlan(TinyGpt(), {.tp = 2});
  cut.sequence_parallel = true;
  cases.push_back({"sequence_parallel", cut});
  return cases;
}

class EvaluationTest : public testing::TestWithParam<Case> {};

// Kernels and messages of the forward phase, in list order.
std::vector<uint32_t> ForwardOf(const Section& section, InstructionKind kind) {
  std::vector<uint32_t> what;
  for (const Instruction& instruction : section.instructions) {
    if (instruction.kind == kind && instruction.phase == Phase::kForward) {
      what.push_back(instruction.what);
    }
  }
  return what;
}

TEST_P(EvaluationTest, IsTheForwardHalfOfAStep) {
  const StatusOr<Program> program = Lower(GetParam().plan, {.evaluation = true});
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_EQ(program->evaluation, 1u);
  for (const Role& role : program->roles) {
    ASSERT_EQ(role.bodies.size(), 2u);
    for (const InstructionKind kind :
         {InstructionKind::kCompute, InstructionKind::kSend, InstructionKind::kReceive}) {
      EXPECT_EQ(ForwardOf(role.bodies[1], kind), ForwardOf(role.bodies[0], kind))
          << role.name << ", " << Name(kind);
    }
    for (const Instruction& instruction : role.bodies[1].instructions) {
      EXPECT_NE(instruction.phase, Phase::kBackward);
      EXPECT_NE(instruction.phase, Phase::kRecompute);
    }
  }
}

// It needs less than a step, in memory that a step leaves free.
TEST_P(EvaluationTest, CostsNoMemory) {
  const StatusOr<Program> without = Lower(GetParam().plan);
  const StatusOr<Program> with = Lower(GetParam().plan, {.evaluation = true});
  ASSERT_TRUE(without.ok() && with.ok());
  EXPECT_EQ(without->evaluation, kNoId);
  for (size_t role = 0; role < with->roles.size(); ++role) {
    EXPECT_EQ(with->roles[role].extent, without->roles[role].extent);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EvaluationTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// A step drops in every layer, forward and backward; an evaluation never does.
TEST(EvaluationDropoutTest, KeepsEverything) {
  DecoderConfig model = TinyGpt();
  model.dropout = 0.1;
  for (const AttentionForm attention : {AttentionForm::kUnfused, AttentionForm::kFused}) {
    Plan plan = TestPlan(model, {.dp = 2});
    plan.attention = attention;
    const StatusOr<Program> program = Lower(plan, {.evaluation = true});
    ASSERT_TRUE(program.ok()) << program.status();
    int dropping[2] = {0, 0};
    for (const size_t body : {0, 1}) {
      for (const Instruction& instruction : program->roles[0].bodies[body].instructions) {
        if (instruction.kind != InstructionKind::kCompute) continue;
        dropping[body] += program->kernels[instruction.what].attributes.dropout.rate > 0;
      }
    }
    // Of each of 2 micro-batches: the embedding, and of 4 layers three places, there and back.
    EXPECT_EQ(dropping[0], 2 * 2 * (1 + 4 * 3));
    EXPECT_EQ(dropping[1], 0);
  }
}

TEST(EvaluationFileTest, IsKept) {
  const StatusOr<Program> program = Lower(TestPlan(TinyGpt()), {.evaluation = true});
  ASSERT_TRUE(program.ok());
  const StatusOr<Program> read = Parse(Serialize(*program));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->evaluation, 1u);
  EXPECT_EQ(Serialize(*read), Serialize(*program));
}

TEST(EvaluationVerifierTest, RefusesStepsAndWritesThatLast) {
  const StatusOr<Program> lowered = Lower(TestPlan(TinyGpt()), {.evaluation = true});
  ASSERT_TRUE(lowered.ok());
  Program scheduled = *lowered;
  scheduled.schedule[0].body = 1;
  EXPECT_NE(std::string(Verify(scheduled).message()).find("is the evaluation"), std::string::npos);
  Program missing = *lowered;
  missing.evaluation = 2;
  EXPECT_NE(std::string(Verify(missing).message()).find("evaluation: body 2"), std::string::npos);
  // The training step updates parameters, which an evaluation must not.
  Program training = *lowered;
  for (Role& role : training.roles) std::swap(role.bodies[0], role.bodies[1]);
  EXPECT_NE(std::string(Verify(training).message()).find("leave persistent buffers as they are"),
            std::string::npos);
}

}  // namespace
}  // namespace tideline
