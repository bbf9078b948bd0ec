#include "sim/communication/communicators.h"

#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/synthetic_program.h"

namespace tideline {
namespace {

using Ranks = std::vector<int32_t>;

// dp 2, pp 3, tp 2 in that order: rank = 6 d + 2 p + t.
Program Mesh() {
  Program program;
  SetMesh(program, 2, 3, 2, false);
  program.groups = {{.axes = {Axis::kPipeline}, .subset = {}},
                    {.axes = {Axis::kData, Axis::kTensor}, .subset = {}},
                    {.axes = {Axis::kPipeline}, .subset = {0, 2}}};
  return program;
}

TEST(CommunicatorsTest, MembersShareTheOtherCoordinates) {
  const Program program = Mesh();
  const Communicators communicators(program);
  EXPECT_EQ(communicators.MembersOf(0, 3), (Ranks{1, 3, 5}));
  EXPECT_EQ(communicators.PositionOf(0, 3), 1);
  EXPECT_EQ(communicators.MembersOf(1, 9), (Ranks{2, 3, 8, 9}));
  EXPECT_EQ(communicators.PositionOf(1, 9), 3);
}

TEST(CommunicatorsTest, SubsetsLeaveRanksOut) {
  const Program program = Mesh();
  const Communicators communicators(program);
  EXPECT_EQ(communicators.MembersOf(2, 10), (Ranks{6, 10}));
  EXPECT_TRUE(communicators.MembersOf(2, 8).empty());
  EXPECT_EQ(communicators.PositionOf(2, 8), -1);
}

}  // namespace
}  // namespace tideline
