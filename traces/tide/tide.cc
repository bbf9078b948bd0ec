#include "traces/tide/tide.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace tideline {
namespace {

size_t CategoriesOf(const TideCurve& curve) {
  size_t categories = 0;
  for (const MemorySample& sample : curve.samples) {
    categories = std::max<size_t>(categories, size_t{sample.category} + 1);
  }
  return categories;
}

// Far above any memory; low enough that the categories of a damaged file add up without overflow.
constexpr int64_t kMostLiveBytes = int64_t{1} << 54;

// The curve as it passes: one sample after the other.
class Level {
 public:
  explicit Level(size_t categories) { split_.by_category.resize(categories); }

  void Apply(const MemorySample& sample) {
    int64_t& live = split_.by_category[sample.category];
    split_.total_bytes += sample.live_bytes - live;
    live = sample.live_bytes;
    split_.time_ns = sample.time_ns;
  }

  const TideSplit& split() const { return split_; }

 private:
  TideSplit split_;
};

}  // namespace

StatusOr<Tide> BuildTide(const RunSource& run) {
  const RunMetadata& metadata = run.metadata();
  std::map<std::pair<int32_t, uint8_t>, TideCurve> curves;
  int64_t begin = std::numeric_limits<int64_t>::max();
  int64_t end = std::numeric_limits<int64_t>::min();
  TL_RETURN_IF_ERROR(run.VisitSamples([&](std::span<const MemorySample> samples) {
    for (const MemorySample& sample : samples) {
      if (sample.live_bytes < 0 || sample.live_bytes > kMostLiveBytes) {
        return InputError(absl::StrCat("memory sample of rank ", sample.rank, " at ",
                                       sample.time_ns, " ns: live_bytes ", sample.live_bytes,
                                       " is no size of a memory; the file is damaged"));
      }
      curves[{sample.rank, sample.space}].samples.push_back(sample);
      begin = std::min(begin, sample.time_ns);
      end = std::max(end, sample.time_ns);
    }
    return absl::OkStatus();
  }));
  TL_RETURN_IF_ERROR(run.VisitEvents([&](std::span<const RunEvent> events) {
    for (const RunEvent& event : events) {
      begin = std::min(begin, event.start_ns);
      end = std::max(end, event.end_ns);
    }
    return absl::OkStatus();
  }));
  Tide tide;
  tide.categories = metadata.categories;
  for (auto& [place, curve] : curves) {
    curve.rank = place.first;
    curve.space = place.second;
    curve.name = absl::StrCat("rank ", place.first, ", ",
                              NameOrNumber(metadata.spaces, place.second, "space"));
    curve.begin_ns = begin;
    curve.end_ns = end;
    for (const RunRank& rank : metadata.ranks) {
      if (rank.rank == place.first && place.second == 0) curve.capacity_bytes = rank.capacity_bytes;
    }
    std::stable_sort(
        curve.samples.begin(), curve.samples.end(),
        [](const MemorySample& a, const MemorySample& b) { return a.time_ns < b.time_ns; });
    tide.curves.push_back(std::move(curve));
  }
  return tide;
}

TideSplit Peak(const TideCurve& curve) {
  Level level(CategoriesOf(curve));
  TideSplit peak = level.split();
  peak.time_ns = curve.begin_ns;
  for (const MemorySample& sample : curve.samples) {
    level.Apply(sample);
    if (level.split().total_bytes > peak.total_bytes) peak = level.split();
  }
  return peak;
}

std::vector<int64_t> CategoryMaxima(const TideCurve& curve) {
  std::vector<int64_t> maxima(CategoriesOf(curve));
  for (const MemorySample& sample : curve.samples) {
    maxima[sample.category] = std::max(maxima[sample.category], sample.live_bytes);
  }
  return maxima;
}

std::vector<TideSplit> Resample(const TideCurve& curve, int points) {
  TL_CHECK(points >= 1, "a curve is resampled to at least one point");
  Level level(CategoriesOf(curve));
  std::vector<TideSplit> parts;
  // Widths in floating point: a Run may span more nanoseconds than 2^63 / points.
  const double span = static_cast<double>(curve.end_ns) - static_cast<double>(curve.begin_ns);
  size_t next = 0;
  for (int point = 0; point < points; ++point) {
    const double begin_ns = static_cast<double>(curve.begin_ns) + span * point / points;
    const double end_ns = static_cast<double>(curve.begin_ns) + span * (point + 1) / points;
    TideSplit highest = level.split();
    highest.time_ns = static_cast<int64_t>(begin_ns);
    const bool last = point + 1 == points;
    for (; next < curve.samples.size(); ++next) {
      const MemorySample& sample = curve.samples[next];
      if (!last && static_cast<double>(sample.time_ns) >= end_ns) break;
      level.Apply(sample);
      if (level.split().total_bytes > highest.total_bytes) highest = level.split();
    }
    parts.push_back(std::move(highest));
  }
  return parts;
}

std::string Sparkline(std::span<const TideSplit> points, int64_t full_bytes) {
  static constexpr std::array<const char*, 9> kHeights = {" ", "▁", "▂", "▃", "▄",
                                                          "▅", "▆", "▇", "█"};
  std::string line;
  for (const TideSplit& point : points) {
    const double share =
        full_bytes <= 0 ? 0.0
                        : static_cast<double>(point.total_bytes) / static_cast<double>(full_bytes);
    // Something always shows, and only what is full looks full.
    const int eighths = static_cast<int>(std::clamp(share, 0.0, 1.0) * 8.0);
    line += kHeights[point.total_bytes > 0 ? std::max(eighths, 1) : 0];
  }
  return line;
}

}  // namespace tideline
