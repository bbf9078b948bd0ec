#include "planner/techniques/data_parallel/lower.h"

#include "planner/techniques/data_parallel/batch_statistics.h"

namespace tideline {

bool UsesDataParallel(const Plan& plan) { return plan.dp > 1; }

Status LowerDataParallel(Draft& draft) {
  draft.mesh[static_cast<size_t>(Axis::kData)] = draft.plan.dp;
  draft.micro_batches = draft.plan.micro_batches();
  draft.order = {SerialOrder(draft.micro_batches)};
  // Replicas drop by the global number of a sample.
  for (Node& node : draft.graph.nodes) {
    if (node.attributes.dropout.rate == 0) continue;
    node.attributes.dropout.first_sample.per_coordinate[static_cast<size_t>(Axis::kData)] =
        draft.micro_batches * draft.graph.batch;
  }
  ShareBatchStatistics(draft.graph, draft.plan.dp);
  return absl::OkStatus();
}

}  // namespace tideline
