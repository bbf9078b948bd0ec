#include "planner/techniques/tensor_parallel/propose.h"

#include <algorithm>

namespace tideline {

std::vector<Pins> ProposeTensorParallel(const ProposeContext& context, const Pins& partial) {
  const ModelTraits model = TraitsOf(context.workload.model);
  const int32_t gpus = context.workload.cluster.gpus();
  std::vector<Pins> ways;
  for (int32_t tp = 1; tp <= gpus; ++tp) {
    if (context.pinned.tp.value_or(tp) != tp || gpus % tp != 0) continue;
    if (tp > 1 && !model.uncut.empty()) break;
    const bool divides = std::all_of(model.tensor_cuts.begin(), model.tensor_cuts.end(),
                                     [&](const TensorCut& cut) { return cut.size % tp == 0; });
    if (!divides) continue;
    for (const bool sequence : {false, true}) {
      if (context.pinned.sequence_parallel.value_or(sequence) != sequence) continue;
      const bool pinned = context.pinned.sequence_parallel.has_value();
      if (sequence && tp == 1 && !pinned) continue;
      if (sequence && context.workload.seq % tp != 0) continue;
      Pins way = partial;
      way.tp = tp;
      way.sequence_parallel = sequence;
      ways.push_back(way);
    }
  }
  return ways;
}

}  // namespace tideline
