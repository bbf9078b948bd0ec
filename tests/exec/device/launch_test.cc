// Views, block primitives and launches, on a device that runs operations at once.
#include "exec/device/launch.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "exec/device/table.h"
#include "tests/exec/ops/immediate_device.h"

namespace tideline {
namespace {

class Observer : public TouchObserver {
 public:
  void OnTouched(const TouchReport& given) override { report = given; }
  TouchReport report;
};

struct Fixture {
  DeviceObject device;
  StreamObject stream{.device = &device, .ranges = {}, .names = {}};
  Observer observer;
  LaunchTarget Target(CheckLevel check) {
    return {.stream = &stream, .tag = 3, .check = check, .observer = &observer};
  }
};

struct Shift {
  static constexpr const char* kName = "shift";
  template <typename Mode>
  static void Run(const Block& block, In<float, Mode> x, Out<float, Mode> y, int64_t by) {
    block.EachOfTile(y.count(), [&](int64_t i) { y[i] = x[i + by]; });
  }
};

struct Increment {
  static constexpr const char* kName = "increment";
  template <typename Mode>
  static void Run(const Block& block, Out<float, Mode> y) {
    block.Each(y.count(), [&](int64_t i) { y[i] += 1.0f; });
  }
};

struct ReadAndUpdate {
  static constexpr const char* kName = "read_and_update";
  template <typename Mode>
  static void Run(const Block&, InOut<float, Mode> y) {
    y[0] += 1.0f;
    y[1] = y[0];
  }
};

struct TakeRegion {
  static constexpr const char* kName = "take_region";
  template <typename Mode>
  static void Run(const Block&, In<float, Mode> x, int64_t rows, bool* inside) {
    *inside = x.Region(0, rows, 3, 2, 1) != nullptr;
  }
};

TEST(Launch, DeclaresTheRangesOfItsViews) {
  Fixture fixture;
  std::vector<float> x(10), y(7);
  std::iota(x.begin(), x.end(), 0.0f);
  ASSERT_TRUE(Launch<Shift>(fixture.Target(CheckLevel::kNone), 2, In<float>(x.data(), 10),
                            Out<float>(y.data(), 7), int64_t{3})
                  .ok());
  EXPECT_EQ(y, (std::vector<float>{3, 4, 5, 6, 7, 8, 9}));
  ASSERT_EQ(fixture.stream.ranges.size(), 2u);
  EXPECT_EQ(fixture.stream.ranges[0].begin, x.data());
  EXPECT_EQ(fixture.stream.ranges[0].bytes, 40);
  EXPECT_EQ(fixture.stream.ranges[0].access, Access::kRead);
  EXPECT_EQ(fixture.stream.ranges[1].begin, y.data());
  EXPECT_EQ(fixture.stream.ranges[1].bytes, 28);
  EXPECT_EQ(fixture.stream.ranges[1].access, Access::kWrite);
  EXPECT_EQ(fixture.stream.names[0], "shift");
}

TEST(Launch, CheckedRunCountsTouchedBytes) {
  Fixture fixture;
  std::vector<float> x(10), y(7);
  ASSERT_TRUE(Launch<Shift>(fixture.Target(CheckLevel::kKernels), 1, In<float>(x.data(), 10),
                            Out<float>(y.data(), 7), int64_t{0})
                  .ok());
  EXPECT_TRUE(fixture.device.status.ok());
  EXPECT_EQ(fixture.observer.report.declared_bytes, 68);
  EXPECT_EQ(fixture.observer.report.touched_bytes, 56);
  EXPECT_EQ(fixture.observer.report.tag, 3u);
}

TEST(Launch, CheckedRunNamesAnAccessOutsideTheView) {
  for (const int64_t by : {int64_t{1}, int64_t{-1}}) {
    Fixture fixture;
    std::vector<float> x(9), y(7);
    // The view declares less than is touched: elements 7 and -1 of seven.
    ASSERT_TRUE(Launch<Shift>(fixture.Target(CheckLevel::kKernels), 1, In<float>(&x[1], 7),
                              Out<float>(y.data(), 7), by)
                    .ok());
    const std::string message(fixture.device.status.message());
    EXPECT_NE(message.find("kernel shift, argument 0, element " + std::to_string(by == 1 ? 7 : -1)),
              std::string::npos)
        << message;
    EXPECT_EQ(ExitCode(fixture.device.status), 1);
  }
}

TEST(Launch, CheckedRunFindsAReadOfAnUnwrittenOutput) {
  Fixture fixture;
  std::vector<float> y(3, 0.0f);
  ASSERT_TRUE(
      Launch<Increment>(fixture.Target(CheckLevel::kKernels), 1, Out<float>(y.data(), 3)).ok());
  EXPECT_NE(std::string(fixture.device.status.message()).find("declare it InOut"),
            std::string::npos);
  Fixture other;
  ASSERT_TRUE(
      Launch<ReadAndUpdate>(other.Target(CheckLevel::kKernels), 1, InOut<float>(y.data(), 2)).ok());
  EXPECT_TRUE(other.device.status.ok()) << other.device.status;
  EXPECT_EQ(y[1], 2.0f);
}

TEST(Launch, CheckedRegionIsHeldAgainstTheView) {
  for (const int64_t rows : {int64_t{3}, int64_t{4}}) {
    Fixture fixture;
    std::vector<float> x(8);
    bool inside = false;
    ASSERT_TRUE(Launch<TakeRegion>(fixture.Target(CheckLevel::kKernels), 1, In<float>(x.data(), 8),
                                   rows, &inside)
                    .ok());
    EXPECT_EQ(inside, rows == 3);  // row 3 is elements 9 and 10
    EXPECT_EQ(fixture.device.status.ok(), rows == 3);
  }
}

// The documented tree, by hand: lane sums first, then halves.
TEST(Block, ReduceFollowsItsTree) {
  for (const int64_t count : {0, 1, 63, 64, 65, 1000}) {
    const auto value = [](int64_t i) { return 1.0f / static_cast<float>(i + 3); };
    float lanes[Block::kLanes] = {};
    for (int64_t i = 0; i < count; ++i) lanes[i % Block::kLanes] += value(i);
    for (int width = Block::kLanes / 2; width > 0; width /= 2) {
      for (int lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
    }
    EXPECT_EQ(Block(0, 1).Sum(count, value), lanes[0]);
    EXPECT_EQ(Block(3, 5).Sum(count, value), lanes[0]);
  }
  const auto smaller = [](int64_t a, int64_t b) { return a < b ? a : b; };
  EXPECT_EQ(Block(0, 1).Reduce(
                int64_t{130}, int64_t{1000}, [](int64_t i) { return 500 - i; }, smaller),
            371);
}

TEST(Block, TilesCoverEverythingOnce) {
  for (const int64_t count : {0, 1, 64, 100, 129, 8192}) {
    for (const int64_t blocks : {1, 2, 7, 200}) {
      std::vector<int> seen(count, 0);
      for (int64_t index = 0; index < blocks; ++index) {
        Block(index, blocks).EachOfTile(count, [&](int64_t i) { ++seen[i]; });
      }
      EXPECT_EQ(seen, std::vector<int>(count, 1));
    }
  }
}

// The access of a view says what Map loads and stores.
struct MapThrough {
  static constexpr const char* kName = "map_through";
  template <typename Mode>
  static void Run(const Block& block, In<float, Mode> x, InOut<float, Mode> y, Out<float, Mode> z) {
    block.Map(
        x.count(),
        [](int64_t i, float& in_out, float& out, float in) {
          EXPECT_EQ(out, 0.0f);  // an Out element is not loaded
          in_out += in;
          out = 10 * in + static_cast<float>(i);
        },
        y, z.From(1), x);
  }
};

TEST(Block, MapLoadsAndStoresWhatTheViewsDeclare) {
  for (const CheckLevel check : {CheckLevel::kNone, CheckLevel::kKernels}) {
    Fixture fixture;
    std::vector<float> x{1, 2, 3}, y{4, 5, 6}, z{7, 8, 9, 7};
    ASSERT_TRUE(Launch<MapThrough>(fixture.Target(check), 1, In<float>(x.data(), 3),
                                   InOut<float>(y.data(), 3), Out<float>(z.data(), 4))
                    .ok());
    EXPECT_TRUE(fixture.device.status.ok()) << fixture.device.status;
    EXPECT_EQ(x, (std::vector<float>{1, 2, 3}));
    EXPECT_EQ(y, (std::vector<float>{5, 7, 9}));
    EXPECT_EQ(z, (std::vector<float>{7, 10, 21, 32}));
    if (check != CheckLevel::kKernels) continue;
    EXPECT_EQ(fixture.observer.report.declared_bytes, 40);
    EXPECT_EQ(fixture.observer.report.touched_bytes, 36);  // z[0] is not
  }
}

TEST(Block, MapTileTakesItsPart) {
  std::vector<float> x(200), y(200, -1.0f);
  std::iota(x.begin(), x.end(), 0.0f);
  // 200 elements in two blocks: 128 and 72.
  Block(1, 2).MapTile(
      200,
      [](int64_t i, float& to, float from) {
        EXPECT_EQ(static_cast<float>(i), from);
        to = from;
      },
      Out<float>(y.data(), 200), In<float>(x.data(), 200));
  EXPECT_EQ(y[127], -1.0f);
  EXPECT_EQ(y[128], 128.0f);
  EXPECT_EQ(y[199], 199.0f);
}

TEST(Block, ReduceOverViewsIsReduceOverIndices) {
  std::vector<float> x(333);
  for (size_t i = 0; i < x.size(); ++i) x[i] = 1.0f / static_cast<float>(i + 3);
  const Block block(0, 1);
  for (const int64_t count : {0, 1, 64, 333}) {
    EXPECT_EQ(block.Sum(
                  count, [](int64_t i, float value) { return value * static_cast<float>(i); },
                  In<float>(x.data(), 333)),
              block.Sum(count, [&](int64_t i) { return x[i] * static_cast<float>(i); }));
  }
}

// Each chain adds its own column from the first row to the last, more of them than go at once.
TEST(Block, ChainsGoInOrder) {
  constexpr int64_t kColumns = 600, kRows = 5;
  const auto value = [](int64_t row, int64_t column) {
    return 1.0f / static_cast<float>(row * kColumns + column + 1);
  };
  std::vector<float> sums(kColumns, 0.0f), products(kColumns, 0.0f);
  Block(0, 1).Chains<2>(
      3, kColumns, kRows,
      [](int64_t column, float(&values)[2]) {
        values[0] = static_cast<float>(column);
        values[1] = 1.0f;
      },
      [](int64_t row) { return row; },
      [&](int64_t row, int64_t column, float(&values)[2]) {
        values[0] += value(row, column);
        values[1] *= 1.0f + value(row, column);
      },
      [&](int64_t column, const float(&values)[2]) {
        sums[column] = values[0];
        products[column] = values[1];
      });
  for (int64_t column = 0; column < kColumns; ++column) {
    float sum = static_cast<float>(column), product = 1.0f;
    for (int64_t row = 0; row < kRows; ++row) {
      sum += value(row, column);
      product *= 1.0f + value(row, column);
    }
    EXPECT_EQ(sums[column], column < 3 ? 0.0f : sum);
    EXPECT_EQ(products[column], column < 3 ? 0.0f : product);
  }
}

TEST(Block, EachWhereAndAny) {
  const Block block(0, 1);
  std::vector<int64_t> found;
  const auto third = [](int64_t i) { return i % 3 == 2; };
  block.EachWhere(9, third, [&](int64_t i) { found.push_back(i); });
  EXPECT_EQ(found, (std::vector<int64_t>{2, 5, 8}));
  EXPECT_TRUE(block.Any(3, third));
  EXPECT_FALSE(block.Any(2, third));
  EXPECT_FALSE(block.Any(0, third));
}

TEST(Block, EachRowVisitsEveryPairOnce) {
  std::vector<int> seen(15, 0);
  Block(0, 1).EachRow(5, 3, [&](int64_t row, int64_t i) { ++seen[row * 3 + i]; });
  EXPECT_EQ(seen, std::vector<int>(15, 1));
}

TEST(Table, TakesAsManyAsItHolds) {
  Table<int, 2> table;
  EXPECT_TRUE(table.empty());
  EXPECT_TRUE(table.Push(4));
  EXPECT_TRUE(table.Push(5));
  EXPECT_TRUE(table.full());
  EXPECT_FALSE(table.Push(6));
  EXPECT_EQ(table.size(), 2);
  EXPECT_EQ(table[1], 5);
  table.Pop();
  EXPECT_EQ(table.back(), 4);
}

TEST(Block, ScanGoesInOrder) {
  std::vector<float> sums(4);
  const float total = Block(0, 1).Scan(
      4, 10.0f, [](int64_t i) { return static_cast<float>(i); },
      [](float a, float b) { return a + b; }, [&](int64_t i, float sum) { sums[i] = sum; });
  EXPECT_EQ(sums, (std::vector<float>{10, 11, 13, 16}));
  EXPECT_EQ(total, 16.0f);
}

}  // namespace
}  // namespace tideline
