#include "planner/lowering/section_writer.h"

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace tideline {
namespace {

Role RoleOf(size_t lanes, size_t buffers) {
  Role role;
  role.lanes.resize(lanes);
  role.buffers.resize(buffers);
  return role;
}

class Writing {
 public:
  Writing(size_t lanes, size_t buffers)
      : role_(RoleOf(lanes, buffers)), writer_(&role_, &section_) {}

  uint32_t Add(uint16_t lane, std::vector<Operand> operands) {
    Instruction instruction;
    instruction.lane = lane;
    return writer_.Append(instruction, operands);
  }

  std::vector<uint32_t> WaitsOf(uint32_t index) const {
    const auto waits = section_.Waits(section_.instructions[index]);
    std::vector<uint32_t> sorted(waits.begin(), waits.end());
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }
  const Section& section() const { return section_; }

 private:
  const Role role_;
  Section section_;
  SectionWriter writer_;
};

Operand Reads(uint32_t buffer) { return {.buffer = buffer, .bytes = 4, .access = Access::kRead}; }
Operand Writes(uint32_t buffer) { return {.buffer = buffer, .bytes = 4, .access = Access::kWrite}; }

TEST(SectionWriterTest, AReadWaitsForTheWriteOnAnotherLane) {
  Writing writing(2, 1);
  const uint32_t write = writing.Add(0, {Writes(0)});
  const uint32_t near = writing.Add(0, {Reads(0)});
  const uint32_t far = writing.Add(1, {Reads(0)});
  const uint32_t again = writing.Add(1, {Reads(0)});
  EXPECT_TRUE(writing.WaitsOf(near).empty()) << "its lane holds the order";
  EXPECT_EQ(writing.WaitsOf(far), std::vector<uint32_t>{write});
  EXPECT_TRUE(writing.WaitsOf(again).empty()) << "the read before it has waited";
}

TEST(SectionWriterTest, AWriteWaitsForTheReadsBeforeIt) {
  Writing writing(3, 1);
  writing.Add(0, {Writes(0)});
  const uint32_t left = writing.Add(1, {Reads(0)});
  const uint32_t right = writing.Add(2, {Reads(0)});
  const uint32_t write = writing.Add(0, {Writes(0)});
  EXPECT_EQ(writing.WaitsOf(write), (std::vector<uint32_t>{left, right}));
  // Those reads are behind it: the next write asks only for what came since.
  const uint32_t last = writing.Add(1, {Writes(0)});
  EXPECT_EQ(writing.WaitsOf(last), std::vector<uint32_t>{write});
}

TEST(SectionWriterTest, AnAccumulatorIsReadAndWritten) {
  Writing writing(2, 1);
  const uint32_t first = writing.Add(0, {{.buffer = 0, .bytes = 4, .access = Access::kReadWrite}});
  const uint32_t second = writing.Add(1, {{.buffer = 0, .bytes = 4, .access = Access::kReadWrite}});
  const uint32_t third = writing.Add(0, {{.buffer = 0, .bytes = 4, .access = Access::kReadWrite}});
  EXPECT_EQ(writing.WaitsOf(second), std::vector<uint32_t>{first});
  EXPECT_EQ(writing.WaitsOf(third), std::vector<uint32_t>{second});
}

// before[i][j]: i ends before j begins, by lanes and waits alone.
std::vector<std::vector<bool>> HappensBefore(const Section& section) {
  const size_t count = section.instructions.size();
  std::vector<std::vector<bool>> before(count, std::vector<bool>(count, false));
  for (size_t j = 0; j < count; ++j) {
    const auto inherit = [&](size_t i) {
      before[i][j] = true;
      for (size_t k = 0; k < count; ++k) before[k][j] = before[k][j] || before[k][i];
    };
    for (size_t i = 0; i < j; ++i) {
      if (section.instructions[i].lane == section.instructions[j].lane) inherit(i);
    }
    for (const uint32_t wait : section.Waits(section.instructions[j])) inherit(wait);
  }
  return before;
}

// Of every two accesses to one buffer of which one writes, the earlier happens before the later.
TEST(SectionWriterTest, RandomSectionsOrderEveryConflict) {
  std::mt19937_64 random(1);
  const auto below = [&](uint64_t bound) { return static_cast<uint32_t>(random() % bound); };
  for (int round = 0; round < 300; ++round) {
    const uint32_t lanes = 1 + below(4), buffers = 1 + below(5);
    Writing writing(lanes, buffers);
    const uint32_t count = 1 + below(24);
    for (uint32_t i = 0; i < count; ++i) {
      std::vector<Operand> operands;
      for (uint32_t operand = below(4); operand > 0; --operand) {
        constexpr std::array<Access, 3> kAccesses = {Access::kRead, Access::kWrite,
                                                     Access::kReadWrite};
        operands.push_back({.buffer = below(buffers), .bytes = 4, .access = kAccesses[below(3)]});
      }
      writing.Add(static_cast<uint16_t>(below(lanes)), operands);
    }
    const Section& section = writing.section();
    const auto before = HappensBefore(section);
    for (uint32_t j = 0; j < count; ++j) {
      for (const Operand& later : section.Operands(section.instructions[j])) {
        for (uint32_t i = 0; i < j; ++i) {
          for (const Operand& earlier : section.Operands(section.instructions[i])) {
            if (earlier.buffer != later.buffer) continue;
            if (earlier.access == Access::kRead && later.access == Access::kRead) continue;
            ASSERT_TRUE(before[i][j]) << "round " << round << ": " << i << " and " << j;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tideline
