#include "planner/program/explain_extent.h"

#include <gtest/gtest.h>

#include "planner/program/builder.h"

namespace tideline {
namespace {

// w is persistent, at 0..256; a, b, c come to life above it and a dies. x needs 512 bytes, the only
// hole is a's 256 between w and b: x goes on top, 1024..1536.
TEST(ExplainExtentTest, NamesTheHoleThatWasTooSmall) {
  Program program;
  ProgramBuilder build(&program);
  build.AddRole("r");
  build.AddBuffer(0, "w", 200, Category::kParameter, Space::kDevice, true);
  const uint32_t a = build.AddBuffer(0, "a", 256, Category::kActivation);
  const uint32_t b = build.AddBuffer(0, "b", 256, Category::kActivation);
  const uint32_t c = build.AddBuffer(0, "c", 256, Category::kActivation);
  const uint32_t x = build.AddBuffer(0, "x", 500, Category::kActivation);
  Role& role = program.roles[0];
  SectionBuilder body(&role, &role.bodies.emplace_back());
  const auto mark = [&](InstructionKind kind, uint32_t buffer) {
    body.Append({.kind = kind, .lane = kComputeLane, .what = buffer}, {}, {});
  };
  for (const uint32_t buffer : {a, b, c}) mark(InstructionKind::kAlloc, buffer);
  mark(InstructionKind::kFree, a);
  mark(InstructionKind::kAlloc, x);
  for (const uint32_t buffer : {b, c, x}) mark(InstructionKind::kFree, buffer);
  const int64_t addresses[] = {0, 256, 512, 768, 1024};
  for (size_t i = 0; i < role.buffers.size(); ++i) role.buffers[i].address = addresses[i];
  role.extent = {1536, 0};
  const ExtentReason reason = ExplainExtent(role, Space::kDevice);
  EXPECT_EQ(reason.highest, x);
  EXPECT_EQ(reason.free_bytes, 256);
  EXPECT_EQ(reason.largest_hole, 256);
  EXPECT_EQ(reason.below, 0u);
  EXPECT_EQ(reason.above, b);
}

TEST(ExplainExtentTest, PersistentBuffersNeedNoReason) {
  Program program;
  ProgramBuilder build(&program);
  build.AddRole("r");
  build.AddBuffer(0, "w", 200, Category::kParameter, Space::kDevice, true);
  program.roles[0].buffers[0].address = 0;
  program.roles[0].extent = {256, 0};
  EXPECT_EQ(ExplainExtent(program.roles[0], Space::kDevice).highest, kNoId);
}

}  // namespace
}  // namespace tideline
