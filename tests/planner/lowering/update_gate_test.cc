// Clipping and loss scaling as instructions: what every way to train gets, and what the verifier
// says when guards, registers and their readers do not fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "planner/lowering/lower.h"
#include "planner/program/file.h"
#include "planner/program/verifier.h"
#include "tests/planner/lowering/fixture.h"
#include "tests/planner/program/edit.h"

namespace tideline {
namespace {

constexpr GradientControl kBoth{.clip_norm = 1, .initial_loss_scale = 65536};

Plan With(Plan plan, const GradientControl& control, int32_t zero = 0) {
  plan.gradients = control;
  plan.zero = zero;
  return plan;
}

Program Lowered(const Plan& plan) {
  StatusOr<Program> program = Lower(plan);
  EXPECT_TRUE(program.ok()) << program.status();
  return program.ok() ? *std::move(program) : Program();
}

std::vector<Plan> Plans(const GradientControl& control) {
  std::vector<Plan> plans = {With(TestPlan(TinyGpt()), control),
                             With(TestPlan(TinyGpt(), {.pp = 2}), control),
                             With(TestPlan(TinyGpt(), {.tp = 2}), control),
                             With(TestPlan(TinyLlama(), {.dp = 2, .pp = 2, .tp = 2}), control, 1)};
  for (const int32_t zero : {0, 1, 2, 3}) {
    plans.push_back(With(TestPlan(TinyOpt(), {.dp = 2}), control, zero));
  }
  Plan half = With(TestPlan(TinyGpt(), {.dp = 2}), control, 1);
  half.dtype = half.grad_dtype = DType::kF16;
  half.graph_hash = *ModelHash(half.model, half.seq, half.dtype);
  plans.push_back(half);
  return plans;
}

const Kernel* KernelOf(const Program& program, const Instruction& instruction) {
  return instruction.kind == InstructionKind::kCompute ? &program.kernels[instruction.what]
                                                       : nullptr;
}

TEST(UpdateGateTest, GuardsEveryUpdateAndItsGather) {
  for (const Plan& plan : Plans(kBoth)) {
    const Program program = Lowered(plan);
    ASSERT_EQ(program.registers.size(), 5u);
    for (const Role& role : program.roles) {
      int gates = 0, updates = 0;
      for (const Instruction& instruction : role.bodies[0].instructions) {
        const Kernel* kernel = KernelOf(program, instruction);
        const bool gathers =
            instruction.kind == InstructionKind::kCollective &&
            instruction.phase == Phase::kUpdate &&
            program.collectives[instruction.what].kind == CollectiveKind::kAllGather;
        const bool is_update = kernel != nullptr && kernel->op == Op::kAdamW;
        updates += is_update ? 1 : 0;
        if (is_update || gathers) {
          EXPECT_EQ(gates, 1) << "the gate comes first";
          ASSERT_LT(instruction.guard, program.registers.size());
          EXPECT_EQ(program.registers[instruction.guard].name, "update");
        } else {
          EXPECT_EQ(instruction.guard, kNoId);
        }
        if (is_update) {
          EXPECT_EQ(kernel->scalars.size(), 2u);
        }
        if (kernel != nullptr && kernel->op == Op::kCrossEntropyGrad) {
          EXPECT_EQ(kernel->scalars.size(), 1u);
        }
        gates += instruction.kind == InstructionKind::kHostCompute &&
                 program.host_tasks[instruction.what].kind == HostTaskKind::kGateUpdate;
      }
      EXPECT_EQ(gates, 1);
      EXPECT_GT(updates, 0);
    }
  }
}

TEST(UpdateGateTest, ClippingAloneGuardsNothing) {
  for (const Plan& plan : Plans({.clip_norm = 0.5})) {
    const Program program = Lowered(plan);
    ASSERT_EQ(program.registers.size(), 1u);
    for (const Role& role : program.roles) {
      for (const Instruction& instruction : role.bodies[0].instructions) {
        EXPECT_EQ(instruction.guard, kNoId);
      }
    }
  }
}

// Without either there is nothing of it: no register, guard, scalar, host read or lane more.
TEST(UpdateGateTest, OtherPlansHaveNoneOfIt) {
  const Program plain = Lowered(With(TestPlan(TinyGpt(), {.dp = 2, .pp = 2}), {}));
  const Program gated = Lowered(With(TestPlan(TinyGpt(), {.dp = 2, .pp = 2}), kBoth));
  EXPECT_TRUE(plain.registers.empty());
  for (const Kernel& kernel : plain.kernels) {
    EXPECT_TRUE(kernel.scalars.empty());
    EXPECT_NE(kernel.op, Op::kSquareSumParts);
  }
  for (size_t role = 0; role < plain.roles.size(); ++role) {
    EXPECT_LT(plain.roles[role].lanes.size(), gated.roles[role].lanes.size());
  }
}

// Every element of every parameter counts on exactly one rank.
TEST(UpdateGateTest, EveryElementCountsOnce) {
  for (const Plan& plan : Plans({.clip_norm = 1})) {
    const Program program = Lowered(plan);
    int64_t counted = 0;
    for (const Rank& rank : program.ranks) {
      const Section& body = program.roles[rank.role].bodies[0];
      for (const Instruction& instruction : body.instructions) {
        const Kernel* kernel = KernelOf(program, instruction);
        if (kernel == nullptr || kernel->op != Op::kSquareSumParts) continue;
        const int64_t begin = kernel->attributes.element_offset.At(rank.coordinates);
        const int64_t end = begin + kernel->operands[0].shape[0];
        for (const NormSpan& span : kernel->attributes.norm_spans) {
          if (span.copy.At(rank.coordinates) != 0) continue;
          counted += std::max<int64_t>(0, std::min(end, span.end) - std::max(begin, span.begin));
        }
      }
    }
    // The padded vocabulary, once per table that is not tied.
    const Graph graph = DraftOf(plan)->graph;
    int64_t expected = 0;
    for (const Tensor& tensor : graph.tensors) {
      if (tensor.role != TensorRole::kParameter || tensor.alias_of != kNone) continue;
      int64_t elements = Elements(tensor.shape);
      for (const int8_t axis : tensor.cut_by) {
        if (axis == static_cast<int8_t>(Axis::kTensor)) elements *= plan.tp;
      }
      expected += elements;
    }
    EXPECT_EQ(counted, expected) << "dp " << plan.dp << " pp " << plan.pp << " tp " << plan.tp;
  }
}

TEST(UpdateGateTest, TheFileKeepsRegistersGuardsAndScalars) {
  const Program program = Lowered(Plans(kBoth)[3]);
  const StatusOr<Program> read = Parse(Serialize(program));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->registers, program.registers);
  EXPECT_EQ(read->kernels, program.kernels);
  EXPECT_EQ(read->host_tasks, program.host_tasks);
  for (size_t role = 0; role < program.roles.size(); ++role) {
    const auto& before = program.roles[role].bodies[0].instructions;
    const auto& after = read->roles[role].bodies[0].instructions;
    for (size_t i = 0; i < before.size(); ++i) EXPECT_EQ(after[i].guard, before[i].guard);
  }
}

class VerifyGateTest : public testing::Test {
 protected:
  VerifyGateTest() : program_(Lowered(With(TestPlan(TinyGpt(), {.dp = 2, .pp = 2}), kBoth, 1))) {}

  // The first instruction of role 0's step for which `is` holds.
  uint32_t Find(const std::function<bool(const Instruction&)>& is) const {
    const auto& list = program_.roles[0].bodies[0].instructions;
    return static_cast<uint32_t>(std::find_if(list.begin(), list.end(), is) - list.begin());
  }
  uint32_t FindOp(Op op) const {
    return Find([&](const Instruction& instruction) {
      const Kernel* kernel = KernelOf(program_, instruction);
      return kernel != nullptr && kernel->op == op;
    });
  }
  uint32_t FindGate() const {
    return Find([&](const Instruction& instruction) {
      return instruction.kind == InstructionKind::kHostCompute &&
             program_.host_tasks[instruction.what].kind == HostTaskKind::kGateUpdate;
    });
  }
  uint32_t RegisterOf(const std::string& name) const {
    for (uint32_t id = 0; id < program_.registers.size(); ++id) {
      if (program_.registers[id].name == name) return id;
    }
    return kNoId;
  }
  Instruction& At(uint32_t index) { return program_.roles[0].bodies[0].instructions[index]; }

  void ExpectRejected(const std::string& piece) {
    const Status status = Verify(program_);
    EXPECT_NE(std::string(status.message()).find(piece), std::string::npos) << status;
  }

  Program program_;
};

TEST_F(VerifyGateTest, GuardsAreWholeRegistersOfTheTable) {
  const uint32_t update = FindOp(Op::kAdamW);
  At(update).guard = 5;
  ExpectRejected("guard: register 5 is not in the table of 5");
  At(update).guard = RegisterOf("gradient factor");
  ExpectRejected("guard: must be a whole-number register");
}

TEST_F(VerifyGateTest, MemoryIsNotGuarded) {
  At(Find([](const Instruction& i) { return i.kind == InstructionKind::kAlloc; })).guard =
      RegisterOf("clean steps");
  ExpectRejected("guard: memory comes and goes");
}

TEST_F(VerifyGateTest, ReadsComeAfterWrites) {
  // The first instruction of the step is guarded by what the gate writes at its end.
  At(Find([](const Instruction& i) { return i.kind == InstructionKind::kHostCompute; })).guard =
      RegisterOf("update");
  ExpectRejected("reads register `update`, which nothing wrote before");
}

TEST_F(VerifyGateTest, ScalarsComeAfterWrites) {
  Kernel early = program_.kernels[At(FindOp(Op::kEmbedding)).what];
  early.scalars = {RegisterOf("gradient factor")};
  program_.kernels.push_back(early);
  At(FindOp(Op::kEmbedding)).what = static_cast<uint32_t>(program_.kernels.size() - 1);
  ExpectRejected("reads register `gradient factor`, which nothing wrote before");
}

TEST_F(VerifyGateTest, AGuardStaysWhatItWas) {
  // The square of a bucket is guarded by a register that the gate writes afterwards.
  At(FindOp(Op::kAccumulate)).guard = RegisterOf("skipped steps");
  At(FindOp(Op::kSquareSumParts)).guard = RegisterOf("skipped steps");
  ExpectRejected("has guarded an instruction of this section already");
}

TEST_F(VerifyGateTest, AGuardedWriteCountsUnderItsGuardOnly) {
  program_.registers.push_back(
      {.name = "other", .lower = 0, .upper = 1, .persistent = true, .replicated = true});
  At(FindOp(Op::kSquareSumParts)).guard = 5;
  ExpectRejected("which are written only when register `other` is not 0");
  At(FindOp(Op::kSquareSum)).guard = 5;
  ExpectRejected("which are written only when register `other` is not 0");
}

TEST_F(VerifyGateTest, MembersOfACollectiveHaveOneGuard) {
  const uint32_t gather = Find([&](const Instruction& instruction) {
    return instruction.kind == InstructionKind::kCollective && instruction.guard != kNoId;
  });
  ASSERT_LT(gather, program_.roles[0].bodies[0].instructions.size());
  program_.registers[RegisterOf("update")].replicated = false;
  ExpectRejected("which is not replicated");
  program_.registers[RegisterOf("update")].replicated = true;
  const uint32_t world = Find([&](const Instruction& instruction) {
    return instruction.kind == InstructionKind::kCollective &&
           program_.collectives[instruction.what].algorithm == CollectiveAlgorithm::kTree;
  });
  program_.registers.push_back(
      {.name = "other", .lower = 0, .upper = 1, .persistent = true, .replicated = true});
  At(world).guard = 5;  // in place: what was written before stays
  ExpectRejected("has another guard than");
}

TEST_F(VerifyGateTest, RegistersHaveSoundBounds) {
  const Program good = program_;
  const auto expect = [&](const std::function<void(Program&)>& change, const std::string& piece) {
    program_ = good;
    change(program_);
    ExpectRejected(piece);
  };
  const uint32_t update = RegisterOf("update"), scale = RegisterOf("loss scale");
  expect([&](Program& p) { p.registers[update].lower = 2; }, "registers[1]: lower and upper");
  expect([&](Program& p) { p.registers[update].upper = 0.5; }, "must be whole numbers");
  expect([&](Program& p) { p.registers[scale].initial = 0.5; }, "initial: is not a value within");
  expect([&](Program& p) { p.registers[scale].replicated = false; }, "must be replicated too");
  expect([&](Program& p) { p.registers[scale].name = "update"; }, "is there twice");
  expect([&](Program& p) { p.registers[scale].name = ""; }, "name: is empty");
  expect([&](Program& p) { p.kernels[0].scalars = {9}; }, "scalars: register 9 is not in");
  program_ = good;
  const size_t task = At(FindGate()).what;
  expect([&](Program& p) { p.host_tasks[task].gate.factor = kNoId; }, "gate.factor: register");
  expect([&](Program& p) { p.host_tasks[task].gate.update = scale; },
         "must be whole and not persistent");
  expect([&](Program& p) { p.host_tasks[task].gate.control.initial_loss_scale = 3; },
         "must be a power of two");
  expect([&](Program& p) { p.host_tasks[task].gate.control.initial_loss_scale = 0; },
         "is not written without loss scaling");
}

}  // namespace
}  // namespace tideline
