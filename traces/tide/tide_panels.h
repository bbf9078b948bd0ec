// Which panels a picture of the memory tide has.
//
// A plan on 1,024 GPUs has a handful of different tides: ranks of one pipeline stage do the same.
// DistinctPanels draws one panel for all ranks of a role whose curves look alike, named with the
// list of them; ChosenPanels one panel per rank that is asked for.
//
// Alike: resampled to 400 columns, the bytes that differ (category by category) are at most 2 % of
// the bytes there. The fullest of the ranks is drawn, so a panel's peak is the peak of all of them.
// Cost: O(samples + ranks * panels * columns).
#ifndef TIDELINE_TRACES_TIDE_TIDE_PANELS_H_
#define TIDELINE_TRACES_TIDE_TIDE_PANELS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "traces/run/run_metadata.h"
#include "traces/tide/tide.h"

namespace tideline {

// A folded simulation plays some ranks for others: `played_as[rank]` is the rank whose curve stands
// for it. Empty: every rank has its own.
using PlayedAs = std::vector<int32_t>;

// The panels, named "stage 2, ranks 16-19, 48-51", by their first rank. `curves`, which
// the panels point into, are of one space, at most one per rank; roles come from `metadata`.
std::vector<TidePanel> DistinctPanels(std::span<const TideCurve> curves,
                                      const RunMetadata& metadata, const PlayedAs& played_as);

// One panel per rank of `ranks` (ascending) that has a curve, named "rank 3, stage 0" or, where
// another was played for it, "rank 40, stage 0, as rank 8".
std::vector<TidePanel> ChosenPanels(std::span<const TideCurve> curves, const RunMetadata& metadata,
                                    const PlayedAs& played_as, std::span<const int32_t> ranks);

// "0-3, 8, 16-19" of ascending ranks.
std::string FormatRanks(std::span<const int32_t> ranks);

// Reads "0,3,8-15" with ranks below `count`; the result is ascending without repeats. Errors (exit
// 2) say what is wrong and what to write.
StatusOr<std::vector<int32_t>> ParseRanks(std::string_view text, int32_t count);

}  // namespace tideline

#endif  // TIDELINE_TRACES_TIDE_TIDE_PANELS_H_
