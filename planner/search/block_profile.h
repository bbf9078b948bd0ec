// BlockProfile: what the blocks of a model cost one rank under a sharding: seconds, bytes kept from
// forward to backward, transient peaks. Taken from the rank's real training graph, with the cost
// model for kernels and ring formulas for collectives; nothing is lowered.
//
// Where all layers are alike (decoders) a graph with a single one is profiled: some hundred nodes,
// a few milliseconds.
#ifndef TIDELINE_PLANNER_SEARCH_BLOCK_PROFILE_H_
#define TIDELINE_PLANNER_SEARCH_BLOCK_PROFILE_H_

#include <array>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "planner/plan/plan.h"

namespace tideline {

inline constexpr int kRecomputes = 3;

// One block on one rank for one micro-batch. Arrays are by Recompute.
struct BlockProfile {
  double forward_s = 0;
  std::array<double, kRecomputes> backward_s{};      // with what is run again
  std::array<int64_t, kRecomputes> kept_bytes{};     // from forward to backward, input included
  std::array<int64_t, kRecomputes> backward_peak{};  // highest level above what was kept before it
  int64_t forward_peak = 0;                          // highest level above what lived before it
  int64_t parameters = 0;                            // elements on this rank
  int64_t nodes = 0;                                 // instructions of forward and backward
};

struct ModelProfile {
  std::vector<BlockProfile> blocks;     // every block of the model
  std::vector<int64_t> boundary_bytes;  // by block: sent to a stage that begins with it
  int64_t tied_parameters = 0;          // elements shared by two blocks; counted in both
};

// Bandwidth and latency of one ring step among ranks that lie `stride` apart in rank order, `size`
// of them, when all such groups communicate at once.
struct RingLink {
  double bandwidth = 0;
  double latency_s = 0;
};
RingLink LinkOf(const ClusterSpec& cluster, int64_t size, int64_t stride);

// Uses the model, seq, micro_batch, types, tp, sequence_parallel and cluster of `plan`.
StatusOr<ModelProfile> ProfileBlocks(const Plan& plan);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_SEARCH_BLOCK_PROFILE_H_
