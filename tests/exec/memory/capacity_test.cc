#include "exec/memory/capacity.h"

#include "gtest/gtest.h"
#include "planner/program/builder.h"

namespace tideline {
namespace {

// A persistent buffer w of 100 bytes at 0; x of 50 at 256, then y of 60 at 512.
Program Example(int ranks) {
  Program program;
  ProgramBuilder build(&program);
  const uint32_t role = build.AddRole("stage 0");
  build.AddBuffer(role, "w", 100, Category::kParameter, Space::kDevice, true);
  const uint32_t x = build.AddBuffer(role, "x", 50, Category::kActivation);
  const uint32_t y = build.AddBuffer(role, "y", 60, Category::kGradient);
  const uint32_t ids = build.AddBuffer(role, "ids", 40, Category::kInput, Space::kPinnedHost);
  Role& made = program.roles[role];
  made.buffers[0].address = 0;
  made.buffers[x].address = 256;
  made.buffers[y].address = 512;
  made.buffers[ids].address = 0;
  made.extent = {768, 256};
  SectionBuilder body(&made, &made.bodies.emplace_back());
  for (const uint32_t buffer : {x, ids, y}) {
    Instruction alloc{.kind = InstructionKind::kAlloc, .what = buffer};
    alloc.lane = kComputeLane;
    body.Append(alloc, {}, {});
  }
  for (int rank = 0; rank < ranks; ++rank) program.ranks.push_back({role, {rank, 0, 0}});
  program.mesh = {ranks, 1, 1};
  return program;
}

TEST(CapacityTest, FitsExactly) { EXPECT_TRUE(CheckCapacity(Example(2), 2, 768, 512).ok()); }

TEST(CapacityTest, NamesTheFirstBufferBeyondAndTheTide) {
  const Status status = CheckCapacity(Example(1), 1, 300, 256);
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(ExitCode(status), 1);
  for (const char* part :
       {"rank 0 (stage 0)", "device memory", "768 bytes of 300", "'x'",
        "activation, 50 bytes at 256", "instruction 0", "parameter 100, activation 50"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << part << " in " << status;
  }
  const Status later = CheckCapacity(Example(1), 1, 512, 256);
  EXPECT_NE(later.message().find("'y'"), std::string::npos);
  EXPECT_NE(later.message().find("activation 50"), std::string::npos);
  const Status parameters = CheckCapacity(Example(1), 1, 50, 256);
  EXPECT_NE(parameters.message().find("'w'"), std::string::npos);
}

TEST(CapacityTest, PinnedMemoryIsSummedOverANode) {
  EXPECT_TRUE(CheckCapacity(Example(4), 2, 768, 512).ok());
  EXPECT_TRUE(CheckCapacity(Example(3), 1, 768, 256).ok());
  const Status status = CheckCapacity(Example(4), 4, 768, 600);
  ASSERT_FALSE(status.ok());
  EXPECT_NE(status.message().find("rank 2"), std::string::npos) << status;
  EXPECT_NE(status.message().find("pinned_host"), std::string::npos) << status;
}

}  // namespace
}  // namespace tideline
