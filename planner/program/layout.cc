#include "planner/program/layout.h"

#include <algorithm>
#include <map>

#include "base/check.h"

namespace tideline {
namespace {

struct Gap {
  int64_t begin = 0;
  int64_t end = 0;
};

// The bytes of all regions as one view knows them: how many records it must take for alive at each
// byte (more than one where another view already reused bytes), and the gaps where there is none.
class Occupancy {
 public:
  explicit Occupancy(std::span<const LayoutRegion> regions) {
    for (const LayoutRegion& region : regions) {
      const bool bounded = region.bytes != LayoutRegion::kUnbounded;
      gaps_.push_back({region.begin, bounded ? region.begin + region.bytes : INT64_MAX});
      region_begins_.push_back(region.begin);
    }
  }

  // Ascending.
  const std::vector<Gap>& gaps() const { return gaps_; }

  void Take(int64_t begin, int64_t end) {
    auto taken = taken_.lower_bound(begin);
    if (taken != taken_.begin()) {
      const auto before = std::prev(taken);
      if (before->second.end > begin) taken = Split(before, begin);
    }
    while (begin < end) {
      if (taken == taken_.end() || taken->first > begin) {
        const int64_t stop = taken == taken_.end() ? end : std::min(end, taken->first);
        taken_.emplace_hint(taken, begin, Taken{stop, 1});
        RemoveGap(begin, stop);
        begin = stop;
        continue;
      }
      if (taken->second.end > end) Split(taken, end);
      ++taken->second.records;
      begin = taken->second.end;
      ++taken;
    }
  }

  // Precondition: the range was taken.
  void Release(int64_t begin, int64_t end) {
    auto taken = taken_.lower_bound(begin);
    while (taken != taken_.end() && taken->first < end) {
      if (--taken->second.records > 0) {
        ++taken;
        continue;
      }
      AddGap(taken->first, taken->second.end);
      taken = taken_.erase(taken);
    }
  }

 private:
  struct Taken {
    int64_t end = 0;
    int32_t records = 0;
  };
  using Map = std::map<int64_t, Taken>;

  // Cuts a range in two at `at`; returns the upper part.
  Map::iterator Split(Map::iterator taken, int64_t at) {
    const Taken upper = taken->second;
    taken->second.end = at;
    return taken_.emplace_hint(std::next(taken), at, upper);
  }

  // The first gap that ends after `address`.
  std::vector<Gap>::iterator FindGap(int64_t address) {
    return std::partition_point(gaps_.begin(), gaps_.end(),
                                [&](const Gap& gap) { return gap.end <= address; });
  }

  void RemoveGap(int64_t begin, int64_t end) {
    const auto gap = FindGap(begin);
    const Gap left{gap->begin, begin}, right{end, gap->end};
    const bool keep_left = left.begin < left.end, keep_right = right.begin < right.end;
    if (keep_left && keep_right) {
      *gap = right;
      gaps_.insert(gap, left);
    } else if (keep_left || keep_right) {
      *gap = keep_left ? left : right;
    } else {
      gaps_.erase(gap);
    }
  }

  void AddGap(int64_t begin, int64_t end) {
    const auto next = FindGap(begin);
    const auto joins_at = [&](int64_t address) {
      return !std::binary_search(region_begins_.begin(), region_begins_.end(), address);
    };
    const bool joins_next = next != gaps_.end() && next->begin == end && joins_at(end);
    const bool joins_previous =
        next != gaps_.begin() && std::prev(next)->end == begin && joins_at(begin);
    if (joins_next && joins_previous) {
      std::prev(next)->end = next->end;
      gaps_.erase(next);
    } else if (joins_next) {
      next->begin = begin;
    } else if (joins_previous) {
      std::prev(next)->end = end;
    } else {
      gaps_.insert(next, {begin, end});
    }
  }

  Map taken_;
  std::vector<Gap> gaps_;
  std::vector<int64_t> region_begins_;
};

enum class Fit { kLowest, kBest };

struct Rule {
  Fit fit = Fit::kLowest;
  uint32_t short_limit = 0;  // records that live shorter go to the top, below `cap`; 0: none
  int64_t cap = 0;
};

std::string Describe(const Rule& rule) {
  std::string fit = rule.fit == Fit::kLowest ? "lowest fit" : "best fit";
  if (rule.short_limit == 0) return fit;
  return "two-ended " + fit + ", short below " + std::to_string(rule.short_limit);
}

int64_t FindLow(const std::vector<Gap>& gaps, int64_t bytes, Fit fit) {
  const Gap* chosen = nullptr;
  for (const Gap& gap : gaps) {
    const int64_t size = gap.end - gap.begin;
    if (size < bytes) continue;
    if (fit == Fit::kLowest) return gap.begin;
    if (chosen == nullptr || size < chosen->end - chosen->begin) chosen = &gap;
    if (size == bytes) break;
  }
  return chosen == nullptr ? LayoutResult::kNoRoom : chosen->begin;
}

int64_t FindHigh(const std::vector<Gap>& gaps, int64_t bytes, int64_t cap) {
  for (auto gap = gaps.rbegin(); gap != gaps.rend(); ++gap) {
    const int64_t end = std::min(gap->end, cap);
    if (end - gap->begin >= bytes) return end - bytes;
  }
  return LayoutResult::kNoRoom;
}

class Placer {
 public:
  Placer(const LayoutRecords& input, std::span<const LayoutRegion> regions)
      : input_(input), regions_(regions), deaths_(input.views) {
    for (uint32_t view = 0; view < input.views; ++view) {
      std::vector<uint32_t>& deaths = deaths_[view];
      for (uint32_t record = 0; record < input.records.size(); ++record) {
        if (End(record, view) != LayoutRecords::kNever) deaths.push_back(record);
      }
      std::sort(deaths.begin(), deaths.end(), [&](uint32_t first, uint32_t second) {
        return std::pair(End(first, view), first) < std::pair(End(second, view), second);
      });
    }
  }

  LayoutResult Place(const Rule& rule) const {
    LayoutResult result;
    result.rule = Describe(rule);
    result.addresses.assign(input_.records.size(), LayoutResult::kNoRoom);
    std::vector<Occupancy> views(input_.views, Occupancy(regions_));
    std::vector<size_t> next_death(input_.views, 0);
    for (uint32_t index = 0; index < input_.records.size(); ++index) {
      const LayoutRecord& record = input_.records[index];
      if (record.bytes == 0) {
        result.addresses[index] = regions_.front().begin;
        continue;
      }
      // Views catch up when they place something: releasing late is the same, counts commute.
      const std::vector<uint32_t>& deaths = deaths_[record.view];
      size_t& death = next_death[record.view];
      for (; death < deaths.size() && End(deaths[death], record.view) <= record.begin; ++death) {
        Release(result, views[record.view], deaths[death]);
      }
      const int64_t address = Find(views[record.view].gaps(), index, rule);
      if (address == LayoutResult::kNoRoom) {
        result.unplaced_bytes += record.bytes;
        continue;
      }
      result.addresses[index] = address;
      result.extent = std::max(result.extent, address + record.bytes);
      for (Occupancy& view : views) view.Take(address, address + record.bytes);
    }
    return result;
  }

  // How long `record` keeps its bytes from its own view, in list positions.
  uint32_t Life(uint32_t record) const {
    const uint32_t end = End(record, input_.records[record].view);
    return end == LayoutRecords::kNever ? end : end - input_.records[record].begin;
  }

 private:
  uint32_t End(uint32_t record, uint32_t view) const {
    return input_.ends[size_t{record} * input_.views + view];
  }

  void Release(const LayoutResult& result, Occupancy& view, uint32_t record) const {
    const int64_t bytes = input_.records[record].bytes;
    const int64_t address = result.addresses[record];
    if (bytes > 0 && address != LayoutResult::kNoRoom) view.Release(address, address + bytes);
  }

  int64_t Find(const std::vector<Gap>& gaps, uint32_t record, const Rule& rule) const {
    const int64_t bytes = input_.records[record].bytes;
    if (Life(record) < rule.short_limit) {
      const int64_t address = FindHigh(gaps, bytes, rule.cap);
      if (address != LayoutResult::kNoRoom) return address;
    }
    return FindLow(gaps, bytes, rule.fit);
  }

  const LayoutRecords& input_;
  std::span<const LayoutRegion> regions_;
  std::vector<std::vector<uint32_t>> deaths_;  // per view, records by the time it knows them dead
};

bool Better(const LayoutResult& first, const LayoutResult& second) {
  return std::pair(first.unplaced_bytes, first.extent) <
         std::pair(second.unplaced_bytes, second.extent);
}

}  // namespace

namespace {

// Stops trying rules once the extent is within `slack_percent` of the target.
class Attempts {
 public:
  Attempts(const LayoutRecords& input, std::span<const LayoutRegion> regions, int64_t target,
           int slack_percent)
      : placer_(input, regions),
        goal_(regions.front().begin + target),
        good_enough_(goal_ + target / 100 * slack_percent) {
    TL_CHECK(input.ends.size() == input.records.size() * input.views, "ends are records x views");
    best_.unplaced_bytes = INT64_MAX;
  }

  bool met() const { return best_.unplaced_bytes == 0 && best_.extent <= good_enough_; }

  void Try(Fit fit, uint32_t short_limit) {
    if (met()) return;
    LayoutResult result = placer_.Place({fit, short_limit, short_limit == 0 ? 0 : goal_});
    if (Better(result, best_)) best_ = std::move(result);
  }

  LayoutResult Take() { return std::move(best_); }

 private:
  const Placer placer_;
  const int64_t goal_;
  const int64_t good_enough_;
  LayoutResult best_;
};

constexpr uint32_t kShortLimits[] = {64, 16, 256, 1024, 4096, 0};

}  // namespace

LayoutResult Layout(const LayoutRecords& input, std::span<const LayoutRegion> regions,
                    int64_t target) {
  TL_CHECK(!regions.empty(), "there is a region to lay out in");
  Attempts attempts(input, regions, target, 1);
  for (const uint32_t limit : kShortLimits) {
    for (const Fit fit : {Fit::kLowest, Fit::kBest}) attempts.Try(fit, limit);
  }
  return attempts.Take();
}

QuickLayoutResult QuickLayout(const LayoutRecords& input, std::span<const LayoutRegion> regions,
                              int64_t target, int slack_percent, int most_rules) {
  TL_CHECK(!regions.empty(), "there is a region to lay out in");
  Attempts attempts(input, regions, target, slack_percent);
  for (int rule = 0; rule < most_rules; ++rule) {
    attempts.Try(Fit::kLowest, kShortLimits[rule % std::size(kShortLimits)]);
  }
  const bool met = attempts.met();
  return {attempts.Take(), met};
}

}  // namespace tideline
