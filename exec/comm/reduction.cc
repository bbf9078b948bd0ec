#include "exec/comm/reduction.h"

#include <cmath>

#include "base/check.h"

namespace tideline {
namespace {

// Adds rows [begin, end) into row `begin`.
void AppendTree(int32_t begin, int32_t end, std::vector<ReductionStep>& steps) {
  if (end - begin < 2) return;
  const int32_t middle = begin + (end - begin + 1) / 2;
  AppendTree(begin, middle, steps);
  AppendTree(middle, end, steps);
  steps.push_back({begin, middle});
}

void AppendHalving(int32_t members, std::vector<ReductionStep>& steps) {
  const int32_t power = static_cast<int32_t>(std::bit_floor(static_cast<uint32_t>(members)));
  const int32_t excess = members - power;
  std::vector<int32_t> active;
  for (int32_t rank = 0; rank < 2 * excess; rank += 2) {
    steps.push_back({rank, rank + 1});
    active.push_back(rank);
  }
  for (int32_t rank = 2 * excess; rank < members; ++rank) active.push_back(rank);
  for (int32_t distance = power / 2; distance > 0; distance /= 2) {
    for (int32_t index = 0; index < distance; ++index) {
      steps.push_back({active[index], active[index + distance]});
    }
  }
}

float Larger(float a, float b) {
  if (std::isnan(a)) return a;
  if (std::isnan(b)) return b;
  return a < b ? b : a;
}

}  // namespace

ReductionSteps StepsOf(ReductionOrder order, int32_t members, int32_t first_rank) {
  TL_CHECK(members >= 1, "a reduction has members");
  ReductionSteps result;
  switch (order) {
    case ReductionOrder::kRank:
      first_rank = 0;
      [[fallthrough]];
    case ReductionOrder::kRing:
      result.result = first_rank % members;
      for (int32_t hop = 1; hop < members; ++hop) {
        result.steps.push_back({result.result, (result.result + hop) % members});
      }
      break;
    case ReductionOrder::kTree:
      AppendTree(0, members, result.steps);
      break;
    case ReductionOrder::kHalvingDoubling:
      AppendHalving(members, result.steps);
      break;
  }
  return result;
}

RingChunk RingChunkAt(int64_t index, int64_t count, int32_t members) {
  const int64_t small = count / members;
  const int64_t longer = count % members;
  const int64_t boundary = longer * (small + 1);
  const int64_t chunk =
      index < boundary ? index / (small + 1) : longer + (index - boundary) / small;
  const int64_t end =
      chunk < longer ? (chunk + 1) * (small + 1) : boundary + (chunk - longer + 1) * small;
  return {static_cast<int32_t>(chunk), end};
}

const float* Reduce(const ReductionSteps& steps, Reduction reduction, std::span<float* const> rows,
                    int64_t count) {
  for (const ReductionStep& step : steps.steps) {
    float* into = rows[step.into];
    const float* from = rows[step.from];
    if (reduction == Reduction::kSum) {
      for (int64_t i = 0; i < count; ++i) into[i] += from[i];
    } else {
      for (int64_t i = 0; i < count; ++i) into[i] = Larger(into[i], from[i]);
    }
  }
  return rows[steps.result];
}

}  // namespace tideline
