#include "planner/techniques/zero/propose.h"

namespace tideline {

std::vector<Pins> ProposeZero(const ProposeContext& context, const Pins& partial) {
  std::vector<Pins> ways;
  for (int32_t zero = 0; zero <= 3; ++zero) {
    if (context.pinned.zero.value_or(zero) != zero) continue;
    const bool pinned = context.pinned.zero.has_value();
    if (zero > 0 && partial.dp.value_or(1) == 1 && !pinned) continue;
    const auto add = [&](GradientReduction reduce) {
      if (context.pinned.reduce.value_or(reduce) != reduce) return;
      ways.push_back(partial);
      ways.back().zero = zero;
      ways.back().reduce = reduce;
    };
    add(GradientReduction::kOnce);
    // With one micro-batch the two are the same.
    const int64_t samples = partial.dp.value_or(1) * partial.micro_batch.value_or(1);
    const bool several = context.workload.global_batch > samples;
    const bool one_chunk = partial.chunks.value_or(1) == 1;
    if (zero >= 2 && one_chunk && (several || context.pinned.reduce.has_value())) {
      add(GradientReduction::kEachMicroBatch);
    }
  }
  return ways;
}

}  // namespace tideline
