#include "planner/techniques/data_parallel/propose.h"

#include "planner/techniques/data_parallel/options.h"

namespace tideline {

std::vector<Pins> ProposeDataParallel(const ProposeContext& context, const Pins& partial) {
  const int32_t rest = context.workload.cluster.gpus() / partial.tp.value_or(1);
  const int64_t batch = context.workload.global_batch;
  const int64_t largest = DataParallelOptions().largest_micro_batch;
  const int64_t most_micro_batches = MostMicroBatches(TraitsOf(context.workload.model).blocks());
  std::vector<Pins> ways;
  for (int32_t dp = 1; dp <= rest; ++dp) {
    if (context.pinned.dp.value_or(dp) != dp || rest % dp != 0 || batch % dp != 0) continue;
    const int64_t share = batch / dp;
    const auto add = [&](int64_t micro_batch) {
      if (share % micro_batch != 0 || share / micro_batch > most_micro_batches) return;
      Pins way = partial;
      way.dp = dp;
      way.micro_batch = micro_batch;
      ways.push_back(way);
    };
    if (context.pinned.micro_batch.has_value()) {
      add(*context.pinned.micro_batch);
      continue;
    }
    for (int64_t micro_batch = 1; micro_batch <= largest; micro_batch *= 2) add(micro_batch);
  }
  return ways;
}

}  // namespace tideline
