// Batch norms under data parallelism: statistics of the whole micro-batch of all replicas.
#ifndef TIDELINE_PLANNER_TECHNIQUES_DATA_PARALLEL_BATCH_STATISTICS_H_
#define TIDELINE_PLANNER_TECHNIQUES_DATA_PARALLEL_BATCH_STATISTICS_H_

#include "models/ir/graph.h"

namespace tideline {

// Makes the batch norms of a training graph share their statistics between `replicas` ranks: the
// moments of each replica are gathered, so that every one combines the same parts in rank order
// (Chan et al. 1979; SyncBatchNorm of PyTorch does the same), and the sums of its gradient are
// all-reduced. Parameter gradients read the replica's own sums, since they are added over replicas
// with all others. Graphs without batch norms stay as they are. O(nodes).
void ShareBatchStatistics(Graph& graph, int32_t replicas);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_DATA_PARALLEL_BATCH_STATISTICS_H_
