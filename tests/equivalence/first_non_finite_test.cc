// The first value that is no finite number is found where it is made: by its rank, step,
// instruction and op, in runs that diverge for a known reason.
#include <limits>
#include <string>

#include "exec/data/token_source.h"
#include "exec/emulator/emulator.h"
#include "exec/interpreter/interpreter.h"
#include "gtest/gtest.h"
#include "planner/lowering/lower.h"
#include "tests/equivalence/plan_cases.h"

namespace tideline::equivalence {
namespace {

Plan PlanNamed(const std::string& name) {
  for (const PlanCase& plan_case : PlanCases()) {
    if (plan_case.name == name) return plan_case.plan;
  }
  ADD_FAILURE() << "there is no case " << name;
  return {};
}

// What a run that looks for it says.
std::string Find(const Plan& plan, const Program& program, int64_t steps) {
  const auto tokens = TokenSource::Open("", plan.seq, plan.global_batch);
  EXPECT_TRUE(tokens.ok()) << tokens.status();
  const auto machine = MakeEmulator({.devices = static_cast<int>(program.ranks.size()),
                                     .devices_per_node = plan.cluster.node.gpus,
                                     .device_memory_bytes = plan.cluster.device.memory_bytes,
                                     .schedule = SchedulePolicy::kSerial});
  EXPECT_TRUE(machine.ok()) << machine.status();
  const auto report =
      Execute(program, **machine, *tokens, {.steps = steps, .find_non_finite = true}, {});
  EXPECT_TRUE(report.ok()) << report.status();
  return report.ok() ? report->finding : "";
}

Program Lowered(const Plan& plan) {
  auto program = Lower(plan);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *std::move(program) : Program();
}

void ExpectNames(const std::string& finding, const std::vector<std::string>& pieces) {
  for (const std::string& piece : pieces) {
    EXPECT_NE(finding.find(piece), std::string::npos) << "no " << piece << " in: " << finding;
  }
}

// The kernel of the named instruction of role `role` gets an attribute of its own.
void Spoil(Program& program, size_t role, const std::string& name,
           void (*spoil)(Attributes& attributes)) {
  for (Instruction& instruction : program.roles[role].bodies[0].instructions) {
    if (instruction.kind != InstructionKind::kCompute || instruction.micro_batch != 1 ||
        NameText(program, instruction.name) != name) {
      continue;
    }
    Kernel kernel = program.kernels[instruction.what];
    spoil(kernel.attributes);
    program.kernels.push_back(kernel);
    instruction.what = static_cast<uint32_t>(program.kernels.size() - 1);
    return;
  }
  ADD_FAILURE() << "there is no instruction " << name;
}

TEST(FirstNonFiniteTest, SoundRunsHaveNone) {
  for (const char* name :
       {"gpt_dp2_zero1", "gpt_tp2_sequence", "llama_dp2_pp2_tp2_sequence_zero2"}) {
    const Plan plan = PlanNamed(name);
    EXPECT_EQ(Find(plan, Lowered(plan), 2), "") << name;
  }
}

// One scores product on stage 1, micro-batch 1, is scaled by infinity; everything after it, on both
// stages, is no finite number either.
TEST(FirstNonFiniteTest, AForwardKernelIsNamedWithItsPlace) {
  const Plan plan = PlanNamed("gpt_pp2_1f1b");
  Program program = Lowered(plan);
  Spoil(program, 1, "layers.2.attention.scores",
        [](Attributes& attributes) { attributes.scale = std::numeric_limits<float>::infinity(); });
  ExpectNames(Find(plan, program, 2), {"rank 1: step 0", "'layers.2.attention.scores'", "layer 3",
                                       "micro-batch 1", "op einsum"});
}

// A learning rate beyond fp32's range of parameters: the update of step 0 makes them infinite, and
// not the forward pass of step 1 that suffers from it.
TEST(FirstNonFiniteTest, AnUpdateIsNamedAndNotTheLossAfterIt) {
  Plan plan = PlanNamed("gpt_dp2");
  plan.optimizer.learning_rate = 3e38f;
  plan.optimizer.decay = 10;
  ExpectNames(Find(plan, Lowered(plan), 2), {"step 0", "'update bucket", "op adamw"});
}

// Overflow that is skipped is no finding.
TEST(FirstNonFiniteTest, SkippedOverflowIsNone) {
  Plan plan = PlanNamed("gpt_dp2_zero1");
  plan.gradients = {.initial_loss_scale = kLargestLossScale};
  EXPECT_EQ(Find(plan, Lowered(plan), 2), "");
}

}  // namespace
}  // namespace tideline::equivalence
