#include "sim/interpreter/virtual_tide.h"

#include <algorithm>
#include <random>
#include <vector>

#include "gtest/gtest.h"

namespace tideline {
namespace {

Role RoleOf(const std::vector<int64_t>& bytes) {
  Role role;
  for (const int64_t size : bytes) role.buffers.push_back({.bytes = size});
  return role;
}

TEST(VirtualTideTest, PersistentBuffersAreLiveAndRuntimeIsNot) {
  Role role = RoleOf({100, 20, 7});
  role.buffers[0].persistent = role.buffers[1].persistent = role.buffers[2].persistent = true;
  role.buffers[1].space = Space::kPinnedHost;
  role.buffers[2].category = Category::kRuntime;
  EXPECT_EQ(VirtualTide(role, 0, nullptr).peak(), (std::array<int64_t, kSpaces>{100, 20}));
}

// At one date the list decides: the free at place 3 comes before the alloc at place 5.
TEST(VirtualTideTest, EqualDatesGoByPlace) {
  for (const uint32_t place : {1u, 5u}) {
    const Role role = RoleOf({100, 50});
    VirtualTide tide(role, 0, nullptr);
    tide.Change(2, 2, place, 1, true);  // on a lane of its own
    tide.Change(kComputeLane, 0, 0, 0, true);
    tide.Change(kComputeLane, 2, 3, 0, false);
    tide.EndSection();
    EXPECT_EQ(tide.peak()[0], place == 5 ? 100 : 150);
  }
}

// However lanes run ahead of each other, the peak is that of the changes in order of time.
TEST(VirtualTideTest, ArrivalOrderDoesNotMatter) {
  std::mt19937 generator(3);
  constexpr int kBuffers = 6000;
  std::vector<int64_t> bytes;
  struct Change {
    double time_s;
    uint32_t index, buffer;
    bool alloc;
  };
  std::vector<Change> changes;
  for (uint32_t buffer = 0; buffer < kBuffers; ++buffer) {
    bytes.push_back(1 + static_cast<int64_t>(generator() % 1000));
    const double from_s = buffer + generator() % 50;
    changes.push_back({from_s, 2 * buffer, buffer, true});
    changes.push_back({from_s + 1 + generator() % 50, 2 * buffer + 1, buffer, false});
  }
  const Role role = RoleOf(bytes);
  std::vector<Change> sorted = changes;
  std::sort(sorted.begin(), sorted.end(), [](const Change& a, const Change& b) {
    return a.time_s != b.time_s ? a.time_s < b.time_s : a.index < b.index;
  });
  int64_t live = 0, peak = 0;
  for (const Change& change : sorted) {
    live += change.alloc ? bytes[change.buffer] : -bytes[change.buffer];
    peak = std::max(peak, live);
  }
  // `changes` are of many lanes, out of order by at most 100 s; whatever is older may be applied.
  VirtualTide tide(role, 0, nullptr);
  for (const Change& change : changes) {
    tide.Change(/*lane=*/2, change.time_s, change.index, change.buffer, change.alloc);
    tide.Advance(static_cast<double>(change.buffer) - 1);
  }
  tide.EndSection();
  EXPECT_EQ(tide.peak()[0], peak);
}

}  // namespace
}  // namespace tideline
