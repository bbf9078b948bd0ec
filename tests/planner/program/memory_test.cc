#include "planner/program/memory.h"

#include <gtest/gtest.h>

#include <numeric>

#include "planner/program/builder.h"
#include "tests/planner/program/pipeline_program.h"

namespace tideline {
namespace {

int64_t Sum(const std::array<int64_t, kCategories>& parts) {
  return std::accumulate(parts.begin(), parts.end(), int64_t{0});
}

TEST(MemoryTest, HandWorkedFigures) {
  Program program;
  ProgramBuilder build(&program);
  build.AddRole("r");
  Role& role = program.roles[0];
  const uint16_t copy = build.LaneOf(0, {LaneKind::kHostToDevice, kNoId});
  build.AddBuffer(0, "p", 1000, Category::kParameter, Space::kDevice, true);
  build.AddBuffer(0, "context", 77, Category::kRuntime, Space::kDevice, true);
  const uint32_t a = build.AddBuffer(0, "a", 300, Category::kActivation);
  const uint32_t b = build.AddBuffer(0, "b", 200, Category::kInput);
  const uint32_t c = build.AddBuffer(0, "c", 100, Category::kWorkspace);
  const uint32_t host = build.AddBuffer(0, "h", 50, Category::kInput, Space::kPinnedHost);
  SectionBuilder body(&role, &role.bodies.emplace_back());
  const auto touch = [&](uint16_t lane, std::vector<uint32_t> buffers) {
    std::vector<Operand> operands;
    for (const uint32_t buffer : buffers) {
      operands.push_back({.buffer = buffer, .bytes = 4, .access = Access::kWrite});
    }
    body.Append({.lane = lane}, operands, {});
  };
  touch(kComputeLane, {a});
  touch(copy, {b, host});
  touch(kComputeLane, {c});
  InsertLifetimes(role);
  AssignAddresses(program);

  const MemoryFigures device = MeasureMemory(program, role, Space::kDevice);
  // In list order a, b and c live one after the other: 1000 + 300. The copy lane waits for nothing,
  // so b may live with a or c: 1000 + 300 + 200. Runtime is in no live figure.
  EXPECT_EQ(device.serial_peak, 1300);
  EXPECT_EQ(device.live_bound, 1500);
  EXPECT_EQ(device.peak_by_category[static_cast<size_t>(Category::kActivation)], 300);
  EXPECT_EQ(device.peak_by_category[static_cast<size_t>(Category::kInput)], 0);
  EXPECT_EQ(device.category_max[static_cast<size_t>(Category::kInput)], 200);
  EXPECT_EQ(device.category_max[static_cast<size_t>(Category::kRuntime)], 0);
  EXPECT_EQ(Sum(device.peak_by_category), device.serial_peak);
  // Aligned: 1024 + 256 (runtime), then a and c share 512 bytes beside b's 256.
  EXPECT_EQ(device.extent, 1024 + 256 + 512 + 256);
  EXPECT_EQ(role.buffers[0].address, 0);
  EXPECT_EQ(role.buffers[1].address, 1024);

  const MemoryFigures pinned = MeasureMemory(program, role, Space::kPinnedHost);
  EXPECT_EQ(pinned.serial_peak, 50);
  EXPECT_EQ(pinned.live_bound, 50);
  EXPECT_EQ(pinned.extent, 256);
}

TEST(MemoryTest, EmptyRoleHasNoMemory) {
  Program program;
  ProgramBuilder build(&program);
  build.AddRole("r");
  InsertLifetimes(program.roles[0]);
  AssignAddresses(program);
  const MemoryFigures figures = MeasureMemory(program, program.roles[0], Space::kDevice);
  EXPECT_EQ(figures.extent, 0);
  EXPECT_EQ(figures.live_bound, 0);
  EXPECT_EQ(figures.serial_peak, 0);
}

TEST(MemoryTest, PipelinesStayNearTheirLiveBound) {
  for (const auto& [stages, tensor, layers, micro_batches] : std::vector<std::array<int32_t, 4>>{
           {1, 1, 1, 1}, {1, 1, 3, 5}, {2, 1, 2, 7}, {4, 2, 3, 16}, {3, 8, 5, 11}, {8, 2, 2, 24}}) {
    PipelineShape options;
    options.data = 2;
    options.stages = stages;
    options.tensor = tensor;
    options.layers = layers;
    options.micro_batches = micro_batches;
    options.hidden_bytes = 48 << 10;
    options.attention_bytes = 100 << 10;
    const Program program = MakePipelineProgram(options);
    for (const Role& role : program.roles) {
      const MemoryFigures figures = MeasureMemory(program, role, Space::kDevice);
      EXPECT_LE(figures.serial_peak, figures.live_bound);
      EXPECT_LE(figures.live_bound, figures.extent);
      EXPECT_LE(figures.extent, 1.05 * static_cast<double>(figures.live_bound))
          << role.name << " of " << stages << " x " << layers << " x " << micro_batches;
      EXPECT_EQ(Sum(figures.peak_by_category), figures.serial_peak);
      for (const Buffer& buffer : role.buffers) EXPECT_EQ(buffer.address % kAlignment, 0);
    }
  }
}

}  // namespace
}  // namespace tideline
