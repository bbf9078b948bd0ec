#include "traces/tide/tide_panels.h"

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "traces/run/run_recorder.h"

namespace tideline {
namespace {

constexpr int64_t kEnd = 1000;

// A rank that holds `bytes` from `begin` to `end` on top of 1000 that are always there.
void AddRank(int32_t rank, int64_t begin, int64_t end, int64_t bytes, RunRecorder* run) {
  run->Add(MemorySample{rank, 0, 0, 0, 1000});
  run->Add(MemorySample{rank, 0, 1, begin, bytes});
  run->Add(MemorySample{rank, 0, 1, end, 0});
  run->Add(MemorySample{rank, 0, 0, kEnd, 1000});
}

RunMetadata Metadata(const std::vector<std::string>& roles) {
  RunMetadata metadata;
  metadata.spaces = {"device"};
  for (size_t rank = 0; rank < roles.size(); ++rank) {
    metadata.ranks.push_back({static_cast<int32_t>(rank), 0, roles[rank], "", 0});
  }
  return metadata;
}

std::vector<std::string> Names(const std::vector<TidePanel>& panels) {
  std::vector<std::string> names;
  for (const TidePanel& panel : panels) names.push_back(panel.name);
  return names;
}

// Ranks 0 and 2 differ by 5 ns of 1000 at both ends: 5 * 500 * 2 of some 1.2e6 byte-ns, below 2 %.
// Rank 3 holds its bytes for twice the time; rank 1 is equal to rank 0 but of another role.
class TidePanelsTest : public ::testing::Test {
 protected:
  TidePanelsTest() {
    run_.SetMetadata(Metadata({"stage 0", "stage 1", "stage 0", "stage 0"}));
    AddRank(0, 100, 500, 500, &run_);
    AddRank(1, 100, 500, 500, &run_);
    AddRank(2, 105, 505, 501, &run_);
    AddRank(3, 100, 900, 500, &run_);
    tide_ = *BuildTide(run_);
  }
  RunRecorder run_;
  Tide tide_;
};

TEST_F(TidePanelsTest, OneForAllThatLookAlike) {
  const std::vector<TidePanel> panels = DistinctPanels(tide_.curves, run_.metadata(), {});
  EXPECT_EQ(Names(panels), (std::vector<std::string>{"stage 0, ranks 0, 2", "stage 1, rank 1",
                                                     "stage 0, rank 3"}));
  // The fullest is drawn.
  EXPECT_EQ(panels[0].curve->rank, 2);
  EXPECT_EQ(Peak(*panels[0].curve).total_bytes, 1501);
}

// Ranks 4 to 7 were not simulated; 0 to 3 were played for them.
TEST_F(TidePanelsTest, FoldedRanksAreNamedWithTheirPlayer) {
  const PlayedAs played_as = {0, 1, 2, 3, 0, 1, 2, 3};
  EXPECT_EQ(Names(DistinctPanels(tide_.curves, run_.metadata(), played_as)),
            (std::vector<std::string>{"stage 0, ranks 0, 2, 4, 6", "stage 1, ranks 1, 5",
                                      "stage 0, ranks 3, 7"}));
  RunMetadata metadata = run_.metadata();
  metadata.ranks.push_back({5, 0, "stage 1", "", 0});
  const std::vector<int32_t> ranks = {1, 5};
  const std::vector<TidePanel> chosen = ChosenPanels(tide_.curves, metadata, played_as, ranks);
  EXPECT_EQ(Names(chosen),
            (std::vector<std::string>{"rank 1, stage 1", "rank 5, stage 1, as rank 1"}));
  EXPECT_EQ(chosen[1].curve, &tide_.curves[1]);
}

TEST_F(TidePanelsTest, ChosenRanksHaveAPanelEach) {
  const std::vector<int32_t> ranks = {0, 2, 9};
  EXPECT_EQ(Names(ChosenPanels(tide_.curves, run_.metadata(), {}, ranks)),
            (std::vector<std::string>{"rank 0, stage 0", "rank 2, stage 0"}));
  EXPECT_TRUE(DistinctPanels({}, run_.metadata(), {}).empty());
}

// 512 ranks of every other kind: the list is cut, its length is said.
TEST(TidePanelsNameTest, LongListsAreCut) {
  RunRecorder run;
  std::vector<std::string> roles;
  for (int32_t rank = 0; rank < 1024; ++rank) {
    roles.push_back(rank % 2 == 0 ? "even" : "odd");
    AddRank(rank, 100, 500, 500, &run);
  }
  run.SetMetadata(Metadata(roles));
  const Tide tide = *BuildTide(run);
  const std::vector<TidePanel> panels = DistinctPanels(tide.curves, run.metadata(), {});
  ASSERT_EQ(panels.size(), 2u);
  EXPECT_EQ(panels[0].name.rfind("even, ranks 0, 2, 4, ", 0), 0u) << panels[0].name;
  EXPECT_NE(panels[0].name.find(", ... (512 ranks)"), std::string::npos) << panels[0].name;
  EXPECT_LE(panels[0].name.size(), 110u);
}

TEST(RankListTest, RunsAreJoined) {
  const auto format = [](const std::vector<int32_t>& ranks) { return FormatRanks(ranks); };
  EXPECT_EQ(format({}), "");
  EXPECT_EQ(format({5}), "5");
  EXPECT_EQ(format({0, 1}), "0, 1");
  EXPECT_EQ(format({0, 1, 2, 3, 8, 16, 17, 18}), "0-3, 8, 16-18");
}

TEST(RankListTest, ReadsWhatItWrites) {
  EXPECT_EQ(*ParseRanks("8-10,3,0,9", 11), (std::vector<int32_t>{0, 3, 8, 9, 10}));
  EXPECT_EQ(*ParseRanks("0", 1), (std::vector<int32_t>{0}));
  for (const char* bad : {"", "11", "-1", "3-1", "1-2-3", "0,,1", "some", "0, 1", "1-"}) {
    const auto ranks = ParseRanks(bad, 11);
    ASSERT_FALSE(ranks.ok()) << bad;
    EXPECT_EQ(ExitCode(ranks.status()), 2);
    EXPECT_NE(ranks.status().message().find("0,3,8-15"), absl::string_view::npos);
  }
}

}  // namespace
}  // namespace tideline
