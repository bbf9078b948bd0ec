#include "planner/program/byte_set.h"

#include <random>

#include "gtest/gtest.h"

namespace tideline {
namespace {

using Ranges = std::vector<std::pair<int64_t, int64_t>>;

TEST(ByteSetTest, AgreesWithASetOfFlags) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    ByteSet set;
    std::vector<bool> flags(64);
    for (int i = 0; i < 12; ++i) {
      const int64_t begin = random() % 64, end = begin + random() % (65 - begin);
      set.Add(begin, end);
      std::fill(flags.begin() + begin, flags.begin() + end, true);
      const int64_t from = random() % 64, to = from + random() % (65 - from);
      Ranges expected;
      for (int64_t at = from; at < to; ++at) {
        if (flags[at]) continue;
        if (!expected.empty() && expected.back().second == at) {
          ++expected.back().second;
        } else {
          expected.emplace_back(at, at + 1);
        }
      }
      EXPECT_EQ(set.Missing(from, to), expected);
      EXPECT_EQ(set.Contains(from, to), expected.empty());
    }
  }
}

TEST(ByteSetTest, TouchingIntervalsAreOne) {
  ByteSet set;
  set.Add(0, 2);
  set.Add(4, 6);
  set.Add(2, 4);
  set.Add(9, 9);
  EXPECT_EQ(set.intervals(), (std::map<int64_t, int64_t>{{0, 6}}));
}

}  // namespace
}  // namespace tideline
