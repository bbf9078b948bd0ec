#include "planner/program/program.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tideline {
namespace {

// All ranks of a dp x pp x tp mesh in the order data, pipeline, tensor (tensor fastest).
Program Mesh(int32_t data, int32_t pipeline, int32_t tensor) {
  Program program;
  program.mesh = {data, pipeline, tensor};
  for (int32_t d = 0; d < data; ++d) {
    for (int32_t p = 0; p < pipeline; ++p) {
      for (int32_t t = 0; t < tensor; ++t) program.ranks.push_back({0, {d, p, t}});
    }
  }
  return program;
}

TEST(ProgramTest, RankAtCountsTheLastMeshAxisFastest) {
  Program program = Mesh(2, 3, 4);
  EXPECT_EQ(MeshSize(program), 24);
  for (int32_t rank = 0; rank < 24; ++rank) {
    EXPECT_EQ(RankAt(program, program.ranks[rank].coordinates), rank);
  }
  // (d 1, p 2, t 3) = (1 * 3 + 2) * 4 + 3 = 23; with pipeline fastest (1 * 4 + 3) * 3 + 2 = 23 too,
  // so (1, 0, 3): 1 * 12 + 0 + 3 = 15 and (1 * 4 + 3) * 3 + 0 = 21.
  EXPECT_EQ(RankAt(program, {1, 0, 3}), 15);
  program.mesh_order = {Axis::kData, Axis::kTensor, Axis::kPipeline};
  EXPECT_EQ(RankAt(program, {1, 0, 3}), 21);
}

TEST(ProgramTest, MembersShareTheOtherCoordinatesInAscendingOrder) {
  const Program program = Mesh(2, 3, 4);
  // Rank 17 = (1, 1, 1).
  EXPECT_EQ(Members(program, {{Axis::kTensor}, {}}, 17), (std::vector<int32_t>{16, 17, 18, 19}));
  EXPECT_EQ(Members(program, {{Axis::kPipeline}, {}}, 17), (std::vector<int32_t>{13, 17, 21}));
  EXPECT_EQ(Members(program, {{Axis::kPipeline}, {0, 2}}, 17), (std::vector<int32_t>{13, 21}));
  EXPECT_EQ(Members(program, {{Axis::kData}, {}}, 17), (std::vector<int32_t>{5, 17}));
  EXPECT_EQ(Members(program, {{Axis::kTensor, Axis::kData}, {}}, 17),
            (std::vector<int32_t>{4, 5, 6, 7, 16, 17, 18, 19}));
  EXPECT_EQ(Members(program, {{}, {}}, 17), (std::vector<int32_t>{17}));
}

TEST(ProgramTest, MembersPartitionTheRanks) {
  for (const int32_t extent : {1, 2, 3, 5, 7}) {
    const Program program = Mesh(extent, 2, 3);
    for (const Group& group :
         {Group{{Axis::kData}, {}}, Group{{Axis::kData, Axis::kPipeline}, {}}}) {
      std::vector<int> seen(program.ranks.size());
      for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
        const std::vector<int32_t> members = Members(program, group, static_cast<int32_t>(rank));
        EXPECT_TRUE(std::is_sorted(members.begin(), members.end()));
        EXPECT_TRUE(std::count(members.begin(), members.end(), rank) == 1);
        for (const int32_t member : members) EXPECT_EQ(Members(program, group, member), members);
      }
    }
  }
}

TEST(ProgramTest, PeerWrapsAround) {
  const Program program = Mesh(2, 3, 4);
  EXPECT_EQ(PeerRank(program, {Axis::kPipeline, 1}, 17), 21);
  EXPECT_EQ(PeerRank(program, {Axis::kPipeline, 1}, 21), 13);
  EXPECT_EQ(PeerRank(program, {Axis::kPipeline, -1}, 13), 21);
  EXPECT_EQ(PeerRank(program, {Axis::kTensor, -9}, 17), 16);
  EXPECT_EQ(PeerRank(program, {Axis::kData, INT32_MAX}, 0), 12);
  for (int32_t rank = 0; rank < 24; ++rank) {
    for (const int32_t delta : {-7, -1, 0, 1, 2, 3}) {
      const int32_t there = PeerRank(program, {Axis::kPipeline, delta}, rank);
      EXPECT_EQ(PeerRank(program, {Axis::kPipeline, -delta}, there), rank);
    }
  }
}

TEST(ProgramTest, OperandOffsetAddsTheAffineOfTheRank) {
  Program program = Mesh(2, 3, 4);
  program.affines = {{.base = 8, .per_coordinate = {1000, 100, 10}}};
  const Operand plain{.buffer = 0, .offset = 5, .bytes = 1};
  Operand moved = plain;
  moved.affine = 0;
  EXPECT_EQ(OperandOffset(program, plain, {1, 2, 3}), 5);
  EXPECT_EQ(OperandOffset(program, moved, {1, 2, 3}), 5 + 8 + 1000 + 200 + 30);
}

TEST(ProgramTest, SectionsAreInPlayOrder) {
  Role role;
  role.bodies.resize(2);
  const std::vector<Section*> sections = Sections(role);
  ASSERT_EQ(sections.size(), 4u);
  EXPECT_EQ(sections[0], &role.prologue);
  EXPECT_EQ(sections[2], &role.bodies[1]);
  EXPECT_EQ(sections[3], &role.epilogue);
  EXPECT_EQ(SectionName(role, 0), "prologue");
  EXPECT_EQ(SectionName(role, 2), "body 1");
  EXPECT_EQ(SectionName(role, 3), "epilogue");
}

TEST(ProgramTest, LanesHaveNames) {
  Program program;
  program.groups = {{{Axis::kData, Axis::kTensor}, {}}, {{Axis::kPipeline}, {0, 3}}};
  program.peers = {{Axis::kPipeline, 1}, {Axis::kPipeline, -1}};
  EXPECT_EQ(LaneName(program, {LaneKind::kHost, kNoId}), "host");
  EXPECT_EQ(LaneName(program, {LaneKind::kGroup, 0}), "group dp,tp");
  EXPECT_EQ(LaneName(program, {LaneKind::kGroup, 1}), "group pp{0,3}");
  EXPECT_EQ(LaneName(program, {LaneKind::kSendTo, 0}), "send pp+1");
  EXPECT_EQ(LaneName(program, {LaneKind::kReceiveFrom, 1}), "receive pp-1");
  EXPECT_EQ(LaneName(program, {LaneKind::kGroup, 7}), "group ?");
}

}  // namespace
}  // namespace tideline
