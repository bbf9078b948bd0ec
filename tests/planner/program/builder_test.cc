#include "planner/program/builder.h"

#include <gtest/gtest.h>

namespace tideline {
namespace {

Kernel MakeKernel(Op op, int64_t rows) {
  Kernel kernel;
  kernel.op = op;
  kernel.operands = {{{rows, 4}, DType::kF32, Access::kRead},
                     {{rows, 4}, DType::kF32, Access::kWrite}};
  kernel.work.bytes_read = rows * 16;
  return kernel;
}

TEST(ProgramBuilderTest, EqualValuesShareAnId) {
  Program program;
  ProgramBuilder build(&program);
  EXPECT_EQ(build.Intern("a"), 0u);
  EXPECT_EQ(build.Intern("b"), 1u);
  EXPECT_EQ(build.Intern("a"), 0u);
  EXPECT_EQ(build.Intern(MakeKernel(Op::kAdd, 3)), 0u);
  EXPECT_EQ(build.Intern(MakeKernel(Op::kAdd, 5)), 1u);
  EXPECT_EQ(build.Intern(MakeKernel(Op::kRelu, 3)), 2u);
  EXPECT_EQ(build.Intern(MakeKernel(Op::kAdd, 3)), 0u);
  EXPECT_EQ(build.Intern(Group{{Axis::kData}, {}}), 0u);
  EXPECT_EQ(build.Intern(Group{{Axis::kData}, {0}}), 1u);
  EXPECT_EQ(build.Intern(Peer{Axis::kPipeline, 1}), 0u);
  EXPECT_EQ(build.Intern(Peer{Axis::kPipeline, -1}), 1u);
  Collective collective;
  collective.block = 7;
  EXPECT_EQ(build.Intern(collective), 0u);
  collective.order = ReductionOrder::kTree;  // Not part of the hash: equality tells them apart.
  EXPECT_EQ(build.Intern(collective), 1u);
  EXPECT_EQ(build.Intern(collective), 1u);
  EXPECT_EQ(build.InternOffset(Affine()), kNoId);
  EXPECT_EQ(build.InternOffset(Affine{.base = 3}), 0u);
  HostTask task;
  task.samples = 2;
  EXPECT_EQ(build.Intern(task), 0u);
  EXPECT_EQ(program.names.size(), 2u);
  EXPECT_EQ(program.kernels.size(), 3u);
}

TEST(ProgramBuilderTest, EveryAttributeTellsKernelsApart) {
  Program program;
  ProgramBuilder build(&program);
  Kernel kernel = MakeKernel(Op::kEinsum, 1);
  build.Intern(kernel);
  const auto expect_new = [&](auto change) {
    Kernel changed = kernel;
    change(changed);
    const size_t before = program.kernels.size();
    EXPECT_EQ(build.Intern(changed), before);
  };
  expect_new([](Kernel& k) { k.attributes.rotary.factor = 8; });
  expect_new([](Kernel& k) { k.attributes.adam.decay = 0; });
  expect_new([](Kernel& k) { k.attributes.equation = "ab->b"; });
  expect_new([](Kernel& k) { k.attributes.spans = {{0, 4, true}}; });
  expect_new([](Kernel& k) { k.attributes.epsilon = 1e-5f; });
  expect_new([](Kernel& k) { k.work.flops = 1; });
  expect_new([](Kernel& k) { k.compute_dtype = DType::kBF16; });
}

TEST(ProgramBuilderTest, AdoptsExistingTables) {
  Program program;
  program.names = {"x", "y"};
  program.kernels = {MakeKernel(Op::kAdd, 3)};
  ProgramBuilder build(&program);
  EXPECT_EQ(build.Intern("y"), 1u);
  EXPECT_EQ(build.Intern(MakeKernel(Op::kAdd, 3)), 0u);
  EXPECT_EQ(build.Intern("z"), 2u);
}

TEST(ProgramBuilderTest, RolesStartWithHostAndComputeLanes) {
  Program program;
  ProgramBuilder build(&program);
  const uint32_t role = build.AddRole("stage 0");
  EXPECT_EQ(build.LaneOf(role, {LaneKind::kHost, kNoId}), kHostLane);
  EXPECT_EQ(build.LaneOf(role, {LaneKind::kCompute, kNoId}), kComputeLane);
  EXPECT_EQ(build.LaneOf(role, {LaneKind::kGroup, 0}), 2);
  EXPECT_EQ(build.LaneOf(role, {LaneKind::kGroup, 1}), 3);
  EXPECT_EQ(build.LaneOf(role, {LaneKind::kGroup, 0}), 2);
}

TEST(SectionBuilderTest, KeepsOnlyWaitsThatLaneOrderDoesNotImply) {
  Program program;
  ProgramBuilder build(&program);
  const uint32_t role = build.AddRole("r");
  const uint16_t copy = build.LaneOf(role, {LaneKind::kHostToDevice, kNoId});
  const uint32_t x = build.AddBuffer(role, "x", 64, Category::kActivation);
  Section section;
  SectionBuilder append(&program.roles[role], &section);
  Instruction on_compute, on_copy;
  on_compute.lane = kComputeLane;
  on_copy.lane = copy;
  const Operand whole[] = {{.buffer = x, .bytes = 64, .access = Access::kWrite}};
  EXPECT_EQ(append.Append(on_copy, whole, {}), 0u);
  EXPECT_EQ(append.Append(on_copy, {}, {}), 1u);
  EXPECT_EQ(append.Append(on_compute, {}, {}), 2u);
  const uint32_t waits[] = {1, 0, kNoId, 2, 1};
  EXPECT_EQ(append.size(), 3u);
  EXPECT_EQ(append.Append(on_compute, whole, waits), 3u);
  const Instruction& last = section.instructions[3];
  ASSERT_EQ(section.Waits(last).size(), 1u);
  EXPECT_EQ(section.Waits(last)[0], 1u);
  ASSERT_EQ(section.Operands(last).size(), 1u);
  EXPECT_EQ(section.Operands(last)[0].buffer, x);
  EXPECT_TRUE(section.Operands(section.instructions[1]).empty());
}

}  // namespace
}  // namespace tideline
