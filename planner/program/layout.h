// Layout: addresses for byte ranges that come to life and die, in few bytes. A pure function: for a
// static Program it is called once per section, for serving once per shape.
//
// Time is a list position. Several *views* (lanes of a Program; one for an allocator with a single
// clock) may bring records to life, and each learns of a death at a time of its own: two records
// conflict unless one of them begins, on its view, at or after the time when that view knows the
// other to be dead. Records that conflict get disjoint bytes.
//
// The problem is NP-hard (dynamic storage allocation, Garey and Johnson SR2). Records are placed in
// order of birth by several rules, and the lowest extent wins: lowest fit, best fit, and two-ended
// fits (long-lived records from the bottom, short-lived ones from the top of the target), which
// keep transients from splitting the space of what stays. One try costs O(n log n + n gaps); the
// first one within 1 % of the target ends the search. Deterministic.
#ifndef TIDELINE_PLANNER_PROGRAM_LAYOUT_H_
#define TIDELINE_PLANNER_PROGRAM_LAYOUT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tideline {

struct LayoutRecord {
  int64_t bytes = 0;   // a multiple of the caller's alignment, so that addresses are
  uint32_t begin = 0;  // ascending over the records
  uint32_t view = 0;   // the one that brings it to life
};

struct LayoutRecords {
  static constexpr uint32_t kNever = UINT32_MAX;
  std::vector<LayoutRecord> records;
  uint32_t views = 1;
  // records x views: a record of that view may reuse the bytes when it begins at or after this.
  std::vector<uint32_t> ends;
};

// A range of addresses that may be used. A record lies within one region.
struct LayoutRegion {
  static constexpr int64_t kUnbounded = INT64_MAX;
  int64_t begin = 0;
  int64_t bytes = kUnbounded;
};

struct LayoutResult {
  static constexpr int64_t kNoRoom = -1;
  std::vector<int64_t> addresses;  // per record; kNoRoom where no region could hold it
  int64_t extent = 0;              // one past the highest byte used; 0 when none is
  int64_t unplaced_bytes = 0;
  std::string rule;  // that won, for reports: "two-ended, short under 64"
};

// `regions` ascending and disjoint; `target` is a lower bound of the extent (the largest sum of
// bytes alive at once, on top of the first region's begin): the search stops when it is nearly met.
LayoutResult Layout(const LayoutRecords& input, std::span<const LayoutRegion> regions,
                    int64_t target);

// The same with at most `most_rules` rules, ended within `slack_percent` of the target; says
// whether that was met.
struct QuickLayoutResult {
  LayoutResult result;
  bool met = false;
};
QuickLayoutResult QuickLayout(const LayoutRecords& input, std::span<const LayoutRegion> regions,
                              int64_t target, int slack_percent, int most_rules);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_LAYOUT_H_
