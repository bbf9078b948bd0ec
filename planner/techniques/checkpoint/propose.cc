#include "planner/techniques/checkpoint/propose.h"

namespace tideline {

std::vector<Pins> ProposeCheckpoint(const ProposeContext& context, const Pins& partial) {
  std::vector<Pins> ways;
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    if (context.pinned.recompute.value_or(recompute) != recompute) continue;
    // Fused attention keeps nothing that selective recomputation could drop.
    const bool fused = context.pinned.attention == AttentionForm::kFused;
    if (fused && recompute == Recompute::kSelective) continue;
    ways.push_back(partial);
    ways.back().recompute = recompute;
  }
  return ways;
}

}  // namespace tideline
