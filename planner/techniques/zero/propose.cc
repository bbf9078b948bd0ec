#include "planner/techniques/zero/propose.h"

namespace tideline {

std::vector<Pins> ProposeZero(const ProposeContext& context, const Pins& partial) {
  std::vector<Pins> ways;
  for (int32_t zero = 0; zero <= 3; ++zero) {
    if (context.pinned.zero.value_or(zero) != zero) continue;
    const bool pinned = context.pinned.zero.has_value();
    if (zero > 0 && partial.dp.value_or(1) == 1 && !pinned) continue;
    ways.push_back(partial);
    ways.back().zero = zero;
  }
  return ways;
}

}  // namespace tideline
