#include "planner/techniques/pipeline/propose.h"

#include "planner/techniques/pipeline/options.h"

namespace tideline {

std::vector<Pins> ProposePipeline(const ProposeContext& context, const Pins& partial) {
  const int32_t ranks = partial.tp.value_or(1) * partial.dp.value_or(1);
  const int32_t pp = context.workload.cluster.gpus() / ranks;
  const ModelTraits model = TraitsOf(context.workload.model);
  const int64_t micro_batches =
      context.workload.global_batch / (partial.dp.value_or(1) * partial.micro_batch.value_or(1));
  std::vector<Pins> ways;
  if (context.pinned.pp.value_or(pp) != pp || !CutsInto(model, pp)) return ways;
  const auto add = [&](Schedule schedule, int32_t chunks) {
    if (context.pinned.schedule.value_or(schedule) != schedule) return;
    if (context.pinned.chunks.value_or(chunks) != chunks) return;
    if (!CutsInto(model, int64_t{pp} * chunks)) return;
    if (schedule == Schedule::kInterleaved && micro_batches % pp != 0) return;
    Pins way = partial;
    way.pp = pp;
    way.schedule = schedule;
    way.chunks = chunks;
    ways.push_back(way);
  };
  add(Schedule::k1F1B, 1);
  if (context.pinned.schedule == Schedule::kGPipe) add(Schedule::kGPipe, 1);
  const bool interleaving_is_pinned = context.pinned.schedule == Schedule::kInterleaved;
  if (pp == 1 && !interleaving_is_pinned) return ways;
  if (context.pinned.chunks.has_value()) {
    add(Schedule::kInterleaved, *context.pinned.chunks);
    return ways;
  }
  for (int32_t chunks = interleaving_is_pinned ? 1 : 2; chunks <= PipelineOptions().most_chunks;
       ++chunks) {
    add(Schedule::kInterleaved, chunks);
  }
  return ways;
}

}  // namespace tideline
