#include "planner/program/layout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tideline {
namespace {

// Records of one view from (begin, end, bytes).
LayoutRecords OneView(const std::vector<std::array<int64_t, 3>>& lives) {
  LayoutRecords input;
  for (const auto& [begin, end, bytes] : lives) {
    input.records.push_back({.bytes = bytes, .begin = static_cast<uint32_t>(begin)});
    input.ends.push_back(static_cast<uint32_t>(end));
  }
  return input;
}

// The most bytes alive at once on one view.
int64_t Bound(const LayoutRecords& input) {
  int64_t bound = 0;
  for (const LayoutRecord& at : input.records) {
    int64_t live = 0;
    for (size_t other = 0; other < input.records.size(); ++other) {
      const bool alive =
          input.records[other].begin <= at.begin && at.begin < input.ends[other * input.views];
      if (alive) live += input.records[other].bytes;
    }
    bound = std::max(bound, live);
  }
  return bound;
}

bool Conflict(const LayoutRecords& input, size_t first, size_t second) {
  const auto passes_on = [&](size_t dead, size_t born) {
    const LayoutRecord& record = input.records[born];
    return input.ends[dead * input.views + record.view] <= record.begin;
  };
  return !passes_on(first, second) && !passes_on(second, first);
}

void ExpectDisjoint(const LayoutRecords& input, const LayoutResult& result) {
  int64_t extent = 0;
  for (size_t first = 0; first < input.records.size(); ++first) {
    const int64_t begin = result.addresses[first];
    const int64_t end = begin + input.records[first].bytes;
    ASSERT_GE(begin, 0);
    extent = std::max(extent, input.records[first].bytes > 0 ? end : 0);
    for (size_t second = 0; second < first; ++second) {
      if (!Conflict(input, first, second)) continue;
      const int64_t other = result.addresses[second];
      const int64_t other_end = other + input.records[second].bytes;
      ASSERT_FALSE(begin < other_end && other < end) << first << " and " << second;
    }
  }
  EXPECT_EQ(result.extent, extent);
}

constexpr LayoutRegion kEverywhere;

TEST(LayoutTest, NothingTakesNothing) {
  const LayoutResult result = Layout({}, {&kEverywhere, 1}, 0);
  EXPECT_TRUE(result.addresses.empty());
  EXPECT_EQ(result.extent, 0);
}

TEST(LayoutTest, DeadBytesAreReused) {
  // a lives 0..2, b 1..3, c 2..4 of 10 bytes each: c takes a's place.
  const LayoutRecords input = OneView({{0, 2, 10}, {1, 3, 10}, {2, 4, 10}});
  const LayoutResult result = Layout(input, {&kEverywhere, 1}, 20);
  EXPECT_EQ(result.extent, 20);
  EXPECT_EQ(result.addresses[0], result.addresses[2]);
}

TEST(LayoutTest, ZeroBytesNeedNoPlace) {
  const LayoutRecords input = OneView({{0, 9, 0}, {1, 9, 5}});
  const LayoutResult result = Layout(input, {&kEverywhere, 1}, 5);
  EXPECT_EQ(result.extent, 5);
}

TEST(LayoutTest, AnotherViewMayNotKnowOfADeath) {
  // Record 0 is dead for view 0 at 5, for view 1 at 20. Record 1 of view 1 begins at 10: it must
  // keep clear of it, and of record 2, which view 0 put into the dead bytes.
  LayoutRecords input;
  input.views = 2;
  input.records = {{.bytes = 8, .begin = 0, .view = 0},
                   {.bytes = 8, .begin = 6, .view = 0},
                   {.bytes = 8, .begin = 10, .view = 1},
                   {.bytes = 8, .begin = 25, .view = 1}};
  input.ends = {5, 20, 30, LayoutRecords::kNever, 30, 12, 40, 40};
  const LayoutResult result = Layout(input, {&kEverywhere, 1}, 16);
  ExpectDisjoint(input, result);
  EXPECT_EQ(result.extent, 16);
  EXPECT_EQ(result.addresses[0], result.addresses[1]);
}

TEST(LayoutTest, TransientsDoNotSplitWhatStays) {
  // Ten times: a transient, then a record that stays. Lowest fit alone would leave a hole below
  // each; the bound is 10 staying + 1 transient.
  std::vector<std::array<int64_t, 3>> lives;
  for (int64_t step = 0; step < 10; ++step) {
    lives.push_back({4 * step, 4 * step + 2, 1000});
    lives.push_back({4 * step + 1, 4096, 900});
  }
  const LayoutRecords input = OneView(lives);
  const LayoutResult result = Layout(input, {&kEverywhere, 1}, Bound(input));
  ExpectDisjoint(input, result);
  EXPECT_EQ(result.extent, Bound(input));
}

TEST(LayoutTest, RecordsStayWithinARegion) {
  const LayoutRegion regions[] = {{.begin = 100, .bytes = 10}, {.begin = 110, .bytes = 30}};
  const LayoutRecords input = OneView({{0, 9, 12}, {1, 9, 8}, {2, 9, 15}, {3, 9, 7}});
  const LayoutResult result = Layout(input, regions, 42);
  EXPECT_EQ(result.addresses[0], 110);
  EXPECT_EQ(result.addresses[1], 100);
  EXPECT_EQ(result.addresses[2], 122);
  EXPECT_EQ(result.addresses[3], LayoutResult::kNoRoom);
  EXPECT_EQ(result.unplaced_bytes, 7);
}

TEST(LayoutTest, RandomRecordsNeverOverlapAndStayNearTheBound) {
  std::mt19937_64 random(7);
  for (const size_t count : {1, 2, 3, 7, 31, 200, 601}) {
    LayoutRecords input;
    for (size_t index = 0; index < count; ++index) {
      const uint32_t begin = static_cast<uint32_t>(2 * index);
      input.records.push_back({.bytes = static_cast<int64_t>(random() % 7), .begin = begin});
      const uint32_t life = random() % 4 == 0 ? random() % 200 : random() % 9;
      input.ends.push_back(random() % 50 == 0 ? LayoutRecords::kNever : begin + 1 + life);
    }
    const int64_t bound = Bound(input);
    const LayoutResult result = Layout(input, {&kEverywhere, 1}, bound);
    ExpectDisjoint(input, result);
    EXPECT_GE(result.extent, bound);
    EXPECT_LE(result.extent, bound * 5 / 4 + 6);
  }
}

TEST(LayoutTest, RandomViewsNeverOverlap) {
  std::mt19937_64 random(11);
  for (int round = 0; round < 50; ++round) {
    LayoutRecords input;
    input.views = 1 + random() % 4;
    for (uint32_t index = 0; index < 150; ++index) {
      input.records.push_back({.bytes = static_cast<int64_t>(random() % 9),
                               .begin = 2 * index,
                               .view = static_cast<uint32_t>(random() % input.views)});
      for (uint32_t view = 0; view < input.views; ++view) {
        const bool never = random() % 8 == 0;
        input.ends.push_back(never ? LayoutRecords::kNever
                                   : 2 * index + 1 + static_cast<uint32_t>(random() % 60));
      }
    }
    ExpectDisjoint(input, Layout(input, {&kEverywhere, 1}, 0));
  }
}

TEST(LayoutTest, SameInputSameAddresses) {
  std::mt19937_64 random(3);
  LayoutRecords input;
  for (uint32_t index = 0; index < 300; ++index) {
    input.records.push_back({.bytes = static_cast<int64_t>(1 + random() % 9), .begin = 2 * index});
    input.ends.push_back(2 * index + 1 + static_cast<uint32_t>(random() % 90));
  }
  EXPECT_EQ(Layout(input, {&kEverywhere, 1}, 10).addresses,
            Layout(input, {&kEverywhere, 1}, 10).addresses);
}

}  // namespace
}  // namespace tideline
