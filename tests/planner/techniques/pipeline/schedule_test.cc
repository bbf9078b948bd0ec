#include "planner/techniques/pipeline/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace tideline {
namespace {

UnitTimes Equal(int32_t chunks, double forward, double backward, double hop = 0) {
  return {std::vector<double>(chunks, forward), std::vector<double>(chunks, backward), hop};
}

std::vector<std::vector<TimedUnit>> Play(Schedule schedule, int32_t stages, int32_t chunks,
                                         int64_t micro_batches, const UnitTimes& times) {
  auto played = PlayUnits(UnitOrder(schedule, stages, chunks, micro_batches), times);
  EXPECT_TRUE(played.ok()) << played.status();
  return *played;
}

double Makespan(const std::vector<std::vector<TimedUnit>>& played) {
  double end = 0;
  for (const auto& units : played) end = std::max(end, units.back().end);
  return end;
}

// Most chunk activations that each stage holds: from the start of forward to the end of backward.
std::vector<int> Peaks(const std::vector<std::vector<TimedUnit>>& played) {
  std::vector<int> peaks;
  for (const auto& units : played) {
    int live = 0, peak = 0;
    for (const TimedUnit& timed : units) {
      live += timed.unit.backward ? -1 : 1;
      peak = std::max(peak, live);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

// Worked case 5: p = 4, m = 8, t_F = 1, t_B = 2. (m + p - 1) * 3 = 33.
TEST(ScheduleTest, EqualStages) {
  const auto gpipe = Play(Schedule::kGPipe, 4, 1, 8, Equal(4, 1, 2));
  EXPECT_EQ(Makespan(gpipe), 33);
  EXPECT_EQ(Peaks(gpipe), (std::vector<int>{8, 8, 8, 8}));
  const auto one_f_one_b = Play(Schedule::k1F1B, 4, 1, 8, Equal(4, 1, 2));
  EXPECT_EQ(Makespan(one_f_one_b), 33);
  EXPECT_EQ(Peaks(one_f_one_b), (std::vector<int>{4, 3, 2, 1}));
}

// Interleaved: m * 3 + (p - 1) * 3 / v; chunk times are 1/v of the stage's.
TEST(ScheduleTest, Interleaved) {
  const auto two = Play(Schedule::kInterleaved, 4, 2, 8, Equal(8, 0.5, 1));
  EXPECT_EQ(Makespan(two), 28.5);
  EXPECT_EQ(Peaks(two), (std::vector<int>{11, 9, 7, 5}));
  EXPECT_EQ(Makespan(Play(Schedule::kInterleaved, 4, 4, 8, Equal(16, 0.25, 0.5))), 26.25);
  EXPECT_EQ(Makespan(Play(Schedule::kInterleaved, 2, 2, 4, Equal(4, 0.5, 1))), 13.5);
}

// Worked case 7: uneven stages, 28 exactly where the closed form says 30; 30 with 0.5 per hop.
TEST(ScheduleTest, UnevenStages) {
  UnitTimes times{{1, 2, 1}, {2, 4, 2}, 0};
  EXPECT_EQ(Makespan(Play(Schedule::k1F1B, 3, 1, 4, times)), 28);
  times.hop = 0.5;
  EXPECT_EQ(Makespan(Play(Schedule::k1F1B, 3, 1, 4, times)), 30);
}

// Worked case 8: p = 2, m = 4, F = 1, B = 2, hop 0.5: stage 0 ends B0 at 7, B1 10, B2 14, B3 17.
TEST(ScheduleTest, HopsDelay) {
  const auto played = Play(Schedule::k1F1B, 2, 1, 4, Equal(2, 1, 2, 0.5));
  std::vector<double> ends;
  for (const TimedUnit& timed : played[0]) {
    if (timed.unit.backward) ends.push_back(timed.end);
  }
  EXPECT_EQ(ends, (std::vector<double>{7, 10, 14, 17}));
}

// Worked case 9: p = 2, v = 2, m = 4, stage 0: F(mb0,c0) F(mb1,c0) F(mb0,c1) F(mb1,c1), then
// F(mb2,c0) B(mb0,c1). Its chunks are 0 and 2 of the model.
TEST(ScheduleTest, InterleavedOrder) {
  const std::vector<Unit> order = UnitOrder(Schedule::kInterleaved, 2, 2, 4)[0];
  const std::vector<Unit> expected = {{false, 0, 0}, {false, 0, 1}, {false, 2, 0},
                                      {false, 2, 1}, {false, 0, 2}, {true, 2, 0}};
  EXPECT_EQ(std::vector<Unit>(order.begin(), order.begin() + 6), expected);
}

// One shape of a pipeline.
struct Shape {
  Schedule schedule;
  int32_t stages, chunks;
  int64_t micro_batches;
};

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (const int32_t p : {1, 2, 3, 4, 7}) {
    for (const int64_t m : {1, 2, 3, 4, 5, 8, 13}) {
      shapes.push_back({Schedule::kGPipe, p, 1, m});
      shapes.push_back({Schedule::k1F1B, p, 1, m});
      shapes.push_back({Schedule::kInterleaved, p, 1, m});
    }
    for (const int32_t v : {2, 3}) {
      for (const int64_t rounds : {1, 2, 5}) {
        shapes.push_back({Schedule::kInterleaved, p, v, rounds * p});
      }
    }
  }
  return shapes;
}

TEST(ScheduleTest, EveryUnitOnceAndMicroBatchesAscend) {
  for (const Shape& shape : Shapes()) {
    const auto order = UnitOrder(shape.schedule, shape.stages, shape.chunks, shape.micro_batches);
    for (int32_t stage = 0; stage < shape.stages; ++stage) {
      std::map<std::pair<bool, int32_t>, int32_t> next;
      for (const Unit& unit : order[stage]) {
        EXPECT_EQ(unit.chunk % shape.stages, stage);
        EXPECT_EQ((next[{unit.backward, unit.chunk}]++), unit.micro_batch);
      }
      EXPECT_EQ(next.size(), 2u * shape.chunks);
      for (const auto& [chunk, count] : next) EXPECT_EQ(count, shape.micro_batches);
    }
  }
}

// Plays all lists strictly in order, transfers as rendezvous: a transfer is done when it is next on
// both ends. Returns false when nothing can move any more.
bool PlaysToTheEnd(const std::vector<std::vector<ScheduleItem>>& lists) {
  using Name = std::tuple<bool, int32_t, int32_t>;
  std::vector<size_t> next(lists.size(), 0);
  std::set<Name> made;  // units that have run, on any stage
  std::vector<std::set<Name>> there(lists.size());
  const auto name_of = [](const Unit& unit) {
    return Name(unit.backward, unit.chunk, unit.micro_batch);
  };
  bool moved = true;
  while (moved) {
    moved = false;
    for (size_t stage = 0; stage < lists.size(); ++stage) {
      if (next[stage] == lists[stage].size()) continue;
      const ScheduleItem& item = lists[stage][next[stage]];
      if (item.kind == ScheduleItem::Kind::kRun) {
        there[stage].insert(name_of(item.unit));
        ++next[stage];
        moved = true;
      } else if (item.kind == ScheduleItem::Kind::kSend) {
        const size_t peer = item.peer_stage;
        if (!there[stage].contains(name_of(item.unit)) || next[peer] == lists[peer].size()) {
          continue;
        }
        const ScheduleItem& other = lists[peer][next[peer]];
        if (other.kind != ScheduleItem::Kind::kReceive || !(other.unit == item.unit)) continue;
        there[peer].insert(name_of(item.unit));
        ++next[stage];
        ++next[peer];
        moved = true;
      }
    }
  }
  for (size_t stage = 0; stage < lists.size(); ++stage) {
    if (next[stage] != lists[stage].size()) return false;
  }
  return true;
}

TEST(ScheduleTest, ListsNeverDeadlockAndInputsComeFirst) {
  for (const Shape& shape : Shapes()) {
    const int32_t chunks = shape.stages * shape.chunks;
    UnitTimes times = Equal(chunks, 1, 2);
    times.forward[0] = 1.5;  // uneven
    const auto lists = PlaceTransfers(
        Play(shape.schedule, shape.stages, shape.chunks, shape.micro_batches, times), chunks);
    EXPECT_TRUE(PlaysToTheEnd(lists)) << shape.stages << " " << shape.chunks;
    size_t transfers = 0;
    for (int32_t stage = 0; stage < shape.stages; ++stage) {
      std::set<std::tuple<bool, int32_t, int32_t>> there;
      for (const ScheduleItem& item : lists[stage]) {
        const Unit& unit = item.unit;
        if (item.kind == ScheduleItem::Kind::kReceive) {
          there.insert({unit.backward, unit.chunk, unit.micro_batch});
          ++transfers;
        }
        if (item.kind != ScheduleItem::Kind::kRun || shape.stages == 1) continue;
        const int32_t producer = unit.backward ? unit.chunk + 1 : unit.chunk - 1;
        if (producer < 0 || producer == chunks) continue;
        EXPECT_TRUE(there.contains({unit.backward, producer, unit.micro_batch}));
      }
    }
    const size_t boundaries = shape.stages == 1 ? 0 : chunks - 1;
    EXPECT_EQ(transfers, 2 * boundaries * shape.micro_batches);
  }
}

TEST(ScheduleTest, ImpossibleOrdersAreFound) {
  // Backward before its forward.
  EXPECT_FALSE(PlayUnits({{{true, 0, 0}, {false, 0, 0}}}, Equal(1, 1, 2)).ok());
}

}  // namespace
}  // namespace tideline
