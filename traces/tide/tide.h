// Tide: live memory of a Run over time, per rank and space, split by category.
//
// A curve is the list of a rank's samples in order of time (samples of one instant in the order in
// which they were recorded, each counting on its own, as a replay counts them). What is asked of it
// is where it is highest and what it is made of there: a split is always the split of one instant,
// never a stack of separate maxima. Building sorts the samples: O(n log n); questions are O(n).
//
//   TL_ASSIGN_OR_RETURN(const Tide tide, BuildTide(run));
//   for (const TideCurve& curve : tide.curves) {
//     const TideSplit peak = Peak(curve);
//     std::cout << Sparkline(Resample(curve, 60), peak.total_bytes);
//   }
#ifndef TIDELINE_TRACES_TIDE_TIDE_H_
#define TIDELINE_TRACES_TIDE_TIDE_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "traces/run/run_source.h"

namespace tideline {

struct TideCurve {
  int32_t rank = 0;
  uint8_t space = 0;
  std::string name;            // "rank 3, device"
  int64_t capacity_bytes = 0;  // 0: not known
  int64_t begin_ns = 0;        // of the whole Run, so that curves share an axis
  int64_t end_ns = 0;
  std::vector<MemorySample> samples;  // by time, stable
};

// One panel of a picture: a curve under a name. The curve must outlive it.
struct TidePanel {
  const TideCurve* curve = nullptr;
  std::string name;
};

struct Tide {
  std::vector<std::string> categories;  // names; a number beyond them is named by its number
  std::vector<TideCurve> curves;        // by rank, then space
};

// What was live at one instant.
struct TideSplit {
  int64_t time_ns = 0;
  int64_t total_bytes = 0;
  std::vector<int64_t> by_category;  // as long as the curve's largest category, summing to total
  bool operator==(const TideSplit&) const = default;
};

// Errors: those of reading `run`. A capacity is given to the first space only (the device).
StatusOr<Tide> BuildTide(const RunSource& run);

// The first instant at which the total is greatest; a curve without samples gives zeros.
TideSplit Peak(const TideCurve& curve);

// Each category's own maximum; they need not occur together.
std::vector<int64_t> CategoryMaxima(const TideCurve& curve);

// `points` equal parts of [begin_ns, end_ns], each with the split at its highest instant (what was
// live when the part began counts). Precondition: points >= 1.
std::vector<TideSplit> Resample(const TideCurve& curve, int points);

// One character per point, from a space (nothing) over eight heights of block to full_bytes.
std::string Sparkline(std::span<const TideSplit> points, int64_t full_bytes);

}  // namespace tideline

#endif  // TIDELINE_TRACES_TIDE_TIDE_H_
