#include "traces/tide/tide.h"

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "traces/run/run_recorder.h"
#include "traces/tide/tide_svg.h"

namespace tideline {
namespace {

MemorySample Sample(int64_t time_ns, uint8_t category, int64_t live_bytes, int32_t rank = 0,
                    uint8_t space = 0) {
  return {rank, space, category, time_ns, live_bytes};
}

TideCurve Curve(const std::vector<MemorySample>& samples) {
  RunRecorder run;
  for (const MemorySample& sample : samples) run.Add(sample);
  const auto tide = BuildTide(run);
  return tide->curves.empty() ? TideCurve() : tide->curves[0];
}

// Category 0: 10 from 0; category 1: 5 from 10, 30 from 20, 0 from 30; category 0: 25 from 40.
// Totals 10, 15, 40, 10, 25: the peak is 40 = 10 + 30 at 20. Maxima apart: 25 and 30, whose sum 55
// never was.
TEST(Tide, FindsThePeakAndItsSplit) {
  const TideCurve curve = Curve(
      {Sample(0, 0, 10), Sample(10, 1, 5), Sample(20, 1, 30), Sample(30, 1, 0), Sample(40, 0, 25)});
  EXPECT_EQ(Peak(curve), (TideSplit{20, 40, {10, 30}}));
  EXPECT_EQ(CategoryMaxima(curve), (std::vector<int64_t>{25, 30}));
  EXPECT_EQ(curve.begin_ns, 0);
  EXPECT_EQ(curve.end_ns, 40);
}

// The first of equal peaks counts; within one instant samples count one by one, as recorded.
TEST(Tide, TakesTheFirstOfEqualPeaksAndEverySampleOfAnInstant) {
  EXPECT_EQ(Peak(Curve({Sample(1, 0, 8), Sample(2, 0, 3), Sample(3, 0, 8)})).time_ns, 1);
  const TideCurve touching = Curve({Sample(1, 0, 8), Sample(5, 1, 4), Sample(5, 0, 0)});
  EXPECT_EQ(Peak(touching), (TideSplit{5, 12, {8, 4}}));
  const TideCurve freed_first = Curve({Sample(1, 0, 8), Sample(5, 0, 0), Sample(5, 1, 4)});
  EXPECT_EQ(Peak(freed_first), (TideSplit{1, 8, {8, 0}}));
}

// Late samples (another thread was quicker to report) are put in order.
TEST(Tide, SortsSamplesByTime) {
  const TideCurve curve = Curve({Sample(20, 1, 30), Sample(0, 0, 10), Sample(30, 1, 0)});
  EXPECT_EQ(Peak(curve), (TideSplit{20, 40, {10, 30}}));
}

TEST(Tide, KeepsRanksAndSpacesApart) {
  RunRecorder run;
  RunMetadata metadata;
  metadata.spaces = {"device", "pinned_host"};
  metadata.categories = {"parameter"};
  metadata.ranks = {{1, 0, "", "", 1000}};
  run.SetMetadata(metadata);
  run.Add(Sample(5, 0, 1, 1, 1));
  run.Add(Sample(5, 0, 2, 1, 0));
  run.Add(Sample(5, 0, 3, 0, 0));
  RunEvent event;
  event.start_ns = 2;
  event.end_ns = 90;
  run.Add(event);
  const auto tide = BuildTide(run);
  ASSERT_TRUE(tide.ok());
  ASSERT_EQ(tide->curves.size(), 3u);
  EXPECT_EQ(tide->curves[0].name, "rank 0, device");
  EXPECT_EQ(tide->curves[1].name, "rank 1, device");
  EXPECT_EQ(tide->curves[2].name, "rank 1, pinned_host");
  EXPECT_EQ(tide->curves[0].capacity_bytes, 0);
  EXPECT_EQ(tide->curves[1].capacity_bytes, 1000);
  EXPECT_EQ(tide->curves[2].capacity_bytes, 0);
  for (const TideCurve& curve : tide->curves) {
    EXPECT_EQ(curve.begin_ns, 2);
    EXPECT_EQ(curve.end_ns, 90);
  }
  EXPECT_EQ(Peak(tide->curves[1]), (TideSplit{5, 2, {2}}));
}

// From 0 to 40 in four parts [0,10) [10,20) [20,30) [30,40]: highest 10, 15, 40, and in the last
// what was live when it began, 40.
TEST(Tide, ResamplesToTheHighestInstantOfEachPart) {
  const TideCurve curve = Curve(
      {Sample(0, 0, 10), Sample(10, 1, 5), Sample(20, 1, 30), Sample(30, 1, 0), Sample(40, 0, 25)});
  const std::vector<TideSplit> parts = Resample(curve, 4);
  ASSERT_EQ(parts.size(), 4u);
  EXPECT_EQ(parts[0], (TideSplit{0, 10, {10, 0}}));
  EXPECT_EQ(parts[1], (TideSplit{10, 15, {10, 5}}));
  EXPECT_EQ(parts[2], (TideSplit{20, 40, {10, 30}}));
  EXPECT_EQ(parts[3], (TideSplit{30, 40, {10, 30}}));
}

// However finely a curve is cut, no part is above the peak, one part is the peak, and every split
// sums to its total.
TEST(Tide, ResamplingKeepsThePeakAndTheSums) {
  std::mt19937 random(3);
  for (const int count : {0, 1, 2, 97, 1000}) {
    std::vector<MemorySample> samples;
    for (int i = 0; i < count; ++i) {
      samples.push_back(Sample(static_cast<int64_t>(random() % 5000),
                               static_cast<uint8_t>(random() % 5), random() % 1000));
    }
    const TideCurve curve = Curve(samples);
    const TideSplit peak = Peak(curve);
    for (const int points : {1, 7, 400}) {
      int64_t highest = 0;
      for (const TideSplit& part : Resample(curve, points)) {
        highest = std::max(highest, part.total_bytes);
        EXPECT_EQ(std::accumulate(part.by_category.begin(), part.by_category.end(), int64_t{0}),
                  part.total_bytes);
      }
      EXPECT_EQ(highest, peak.total_bytes) << count << " " << points;
    }
  }
}

TEST(Tide, DrawsASparkline) {
  const std::vector<TideSplit> points = {{0, 0, {}},  {0, 1, {}},   {0, 50, {}},
                                         {0, 99, {}}, {0, 100, {}}, {0, 150, {}}};
  EXPECT_EQ(Sparkline(points, 100), " ▁▄▇██");
  EXPECT_EQ(Sparkline(points, 0), " ▁▁▁▁▁");
  EXPECT_EQ(Sparkline({}, 100), "");
}

size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(TideSvg, DrawsBandsCapacityPeakAndAxes) {
  TideCurve curve = Curve({Sample(0, 0, 600 << 20), Sample(10'000'000, 2, 300 << 20),
                           Sample(20'000'000, 2, 0), Sample(40'000'000, 0, 600 << 20)});
  curve.name = "rank 0 <device> & more";
  curve.capacity_bytes = int64_t{1} << 30;
  const std::string svg = DrawTideSvg(std::vector<TidePanel>{{&curve, curve.name}},
                                      {"parameter", "gradient", "activation"}, {});
  EXPECT_EQ(Count(svg, "<path"), 2u);  // the gradient band is never there
  EXPECT_NE(svg.find(">parameter<"), std::string::npos);
  EXPECT_EQ(svg.find(">gradient<"), std::string::npos);
  EXPECT_NE(svg.find(">capacity 1 GiB<"), std::string::npos);
  EXPECT_NE(svg.find(">peak 900 MiB<"), std::string::npos);
  EXPECT_NE(svg.find(">10 ms<"), std::string::npos);
  EXPECT_NE(svg.find("rank 0 &lt;device&gt; &amp; more"), std::string::npos);
  EXPECT_EQ(svg.find("nan"), std::string::npos);
  EXPECT_EQ(svg, DrawTideSvg(std::vector<TidePanel>{{&curve, curve.name}},
                             {"parameter", "gradient", "activation"}, {}));
}

// A capacity far above the tide is written beside it, with an arrow, and does not flatten it.
TEST(TideSvg, KeepsTheTideVisibleUnderAVastCapacity) {
  TideCurve curve = Curve({Sample(0, 0, 1 << 20), Sample(1000, 0, 2 << 20)});
  curve.capacity_bytes = int64_t{80} << 30;
  const std::string svg =
      DrawTideSvg(std::vector<TidePanel>{{&curve, curve.name}}, {"parameter"}, {});
  EXPECT_NE(svg.find(">\u2191 capacity 80 GiB<"), std::string::npos);
  EXPECT_EQ(svg.find("stroke=\"#C00000\""), std::string::npos);
  EXPECT_NE(svg.find(">2 MiB<"), std::string::npos);
}

TEST(TideSvg, DrawsNothingAndOneInstant) {
  EXPECT_NE(DrawTideSvg({}, {}, {}).find("no memory samples"), std::string::npos);
  const TideCurve curve = Curve({Sample(7, 0, 5)});
  const std::string instant = DrawTideSvg(std::vector<TidePanel>{{&curve, "one"}}, {}, {});
  EXPECT_NE(instant.find("peak 5 B"), std::string::npos);
  EXPECT_EQ(instant.find("nan"), std::string::npos);
  EXPECT_EQ(instant.find("inf"), std::string::npos);
}

}  // namespace
}  // namespace tideline
