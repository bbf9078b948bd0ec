#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "planner/program/builder.h"
#include "planner/program/memory.h"
#include "planner/program/order.h"

namespace tideline {
namespace {

// One role with lanes host 0, compute 1, send 2, receive 3; every instruction touches whole
// buffers.
class LifetimesTest : public testing::Test {
 protected:
  LifetimesTest() : build_(&program_) {
    build_.AddRole("r");
    build_.LaneOf(0, {LaneKind::kSendTo, 0});
    build_.LaneOf(0, {LaneKind::kReceiveFrom, 0});
    role().bodies.emplace_back();
  }

  Role& role() { return program_.roles[0]; }

  uint32_t AddBuffer(int64_t bytes, bool persistent = false) {
    return build_.AddBuffer(0, "b", bytes, Category::kActivation, Space::kDevice, persistent);
  }

  uint32_t Append(uint16_t lane, std::vector<uint32_t> buffers, std::vector<uint32_t> waits = {}) {
    SectionBuilder append(&role(), &role().bodies[0]);
    Instruction instruction;
    instruction.lane = lane;
    std::vector<Operand> operands;
    for (const uint32_t buffer : buffers) {
      operands.push_back(
          {.buffer = buffer, .bytes = role().buffers[buffer].bytes, .access = Access::kReadWrite});
    }
    return append.Append(instruction, operands, waits);
  }

  // "alloc 0@1 | x@1 <0 | free 0@2 <1,3": kind, buffer, lane, waits.
  std::string Text() {
    std::string text;
    const Section& section = role().bodies[0];
    for (const Instruction& instruction : section.instructions) {
      if (!text.empty()) text += " | ";
      const bool marks =
          instruction.kind == InstructionKind::kAlloc || instruction.kind == InstructionKind::kFree;
      text += marks ? std::string(Name(instruction.kind)) + " " + std::to_string(instruction.what)
                    : "x";
      text += "@" + std::to_string(instruction.lane);
      char separator = '<';
      for (const uint32_t wait : section.Waits(instruction)) {
        text += (separator == '<' ? " " : "") + std::string(1, separator) + std::to_string(wait);
        separator = ',';
      }
    }
    return text;
  }

  Program program_;
  ProgramBuilder build_;
};

TEST_F(LifetimesTest, AllocBeforeFirstAndFreeAfterLastAccess) {
  const uint32_t a = AddBuffer(8), b = AddBuffer(8);
  Append(1, {a});
  Append(1, {a, b});
  Append(1, {b});
  InsertLifetimes(role());
  EXPECT_EQ(Text(), "alloc 0@1 | x@1 | alloc 1@1 | x@1 | free 0@1 | x@1 | free 1@1");
}

TEST_F(LifetimesTest, FreeWaitsForTheLastAccessOnOtherLanes) {
  const uint32_t a = AddBuffer(8);
  const uint32_t made = Append(1, {a});
  Append(2, {a}, {made});
  Append(2, {a});
  Append(1, {a});
  InsertLifetimes(role());
  EXPECT_EQ(Text(), "alloc 0@1 | x@1 | x@2 <1 | x@2 | x@1 | free 0@1 <3");
}

TEST_F(LifetimesTest, FreeDoesNotWaitForWhatTheLastAccessWaitedFor) {
  const uint32_t a = AddBuffer(8);
  const uint32_t made = Append(1, {a});
  Append(2, {a}, {made});
  InsertLifetimes(role());
  EXPECT_EQ(Text(), "alloc 0@1 | x@1 | x@2 <1 | free 0@2");
}

TEST_F(LifetimesTest, FreeWaitsForOneOfAChainOfAccesses) {
  const uint32_t a = AddBuffer(8);
  const uint32_t made = Append(1, {a});
  const uint32_t sent = Append(2, {a}, {made});
  Append(3, {a}, {sent});
  Append(1, {a});
  InsertLifetimes(role());
  // Lane 3's access comes after lane 2's: waiting for it is enough.
  EXPECT_EQ(Text(), "alloc 0@1 | x@1 | x@2 <1 | x@3 <2 | x@1 | free 0@1 <3");
}

TEST_F(LifetimesTest, AllocWaitsAsItsAccessDoes) {
  const uint32_t a = AddBuffer(8), b = AddBuffer(8), c = AddBuffer(8);
  const uint32_t made = Append(1, {a});
  Append(3, {b, c}, {made});
  InsertLifetimes(role());
  EXPECT_EQ(Text(),
            "alloc 0@1 | x@1 | free 0@1 | alloc 1@3 <1 | alloc 2@3 | x@3 <1 | free 1@3 | free 2@3");
}

TEST_F(LifetimesTest, PersistentAndUntouchedBuffersHaveNone) {
  AddBuffer(8);
  const uint32_t kept = AddBuffer(8, true);
  Append(1, {kept});
  InsertLifetimes(role());
  EXPECT_EQ(Text(), "x@1");
}

TEST_F(LifetimesTest, EmptySectionStaysEmpty) {
  InsertLifetimes(role());
  EXPECT_EQ(Text(), "");
}

TEST_F(LifetimesTest, BufferTwiceInOneInstructionIsAllocatedOnce) {
  const uint32_t a = AddBuffer(8);
  Append(1, {a, a});
  InsertLifetimes(role());
  EXPECT_EQ(Text(), "alloc 0@1 | x@1 | free 0@1");
}

TEST_F(LifetimesTest, HappensBeforeIsTheClosureOfLaneOrderAndWaits) {
  const uint32_t a = AddBuffer(8, true);
  // A diamond over lanes: 0@1 -> 1@2 -> 2@3 -> 3@1, and 4@2 after 1 only.
  Append(1, {a});
  Append(2, {a}, {0});
  Append(3, {a}, {1});
  Append(1, {a}, {2});
  Append(2, {a});
  const HappensBefore order(role().bodies[0], role().lanes.size());
  const auto before = [&](uint32_t first, uint32_t second) { return order.Before(first, second); };
  EXPECT_TRUE(before(0, 1) && before(0, 2) && before(0, 3) && before(1, 3) && before(1, 4));
  EXPECT_FALSE(before(2, 4) || before(3, 4) || before(4, 3) || before(1, 0) || before(1, 1));
  EXPECT_TRUE(order.Needed(role().bodies[0], 3, 2));
}

}  // namespace
}  // namespace tideline
