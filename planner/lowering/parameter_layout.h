// Where the parameters of one stage lie: flat buckets, reduced, updated and gathered as wholes.
//
// Parameters are laid out in the order in which backward finishes their gradients (last block
// first), packed without gaps, and a bucket is closed when its gradients reach the bucket size;
// with ZeRO 3 at every block. Parameters of different treatment never share a bucket: those whose
// gradients are to be summed over tp, and those with several uses (tied embeddings). Sharded
// buckets are padded to a multiple of dp * 64 elements. O(parameters log parameters).
#ifndef TIDELINE_PLANNER_LOWERING_PARAMETER_LAYOUT_H_
#define TIDELINE_PLANNER_LOWERING_PARAMETER_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "planner/draft/draft.h"

namespace tideline {

inline constexpr int64_t kShardAlignmentElements = 64;

struct ParameterSlot {
  TensorId parameter = kNone;
  int64_t offset = 0;  // first element in the bucket
  int64_t elements = 0;
  std::vector<TensorId> gradients;  // one per use on this stage, in order of use
};

struct Bucket {
  std::vector<ParameterSlot> slots;
  int64_t elements = 0;         // without padding
  int64_t padded = 0;           // elements of the buffers
  int64_t shard = 0;            // elements that one dp rank owns; = padded when nothing is sharded
  bool tensor_partial = false;  // its gradients are summed over tp
  std::vector<int32_t>
      stages;  // tied over several stages: all of them, in order of use; else empty
  std::vector<int32_t> blocks;  // that read it on this stage, ascending
};

struct StageParameters {
  std::vector<Bucket> buckets;  // in the order in which backward finishes them
  // Per tensor of the graph: bucket and slot of a parameter or of a parameter's gradient, kNone of
  // others and of those on other stages; for gradients also the index of the use.
  std::vector<int32_t> bucket_of;
  std::vector<int32_t> slot_of;
  std::vector<int32_t> use_of;
};

// ZeRO stage in effect: 0 when there is nothing to shard over.
int32_t EffectiveZero(const Draft& draft);

StageParameters LayOutParameters(const Draft& draft, int32_t stage);

// Bytes of model state that one rank of a stage holds between steps, or at most while it updates
// (DEFINITIONS 9).
struct StateFigures {
  int64_t parameter_bytes = 0;
  int64_t gradient_bytes = 0;
  int64_t optimizer_bytes = 0;
  int64_t total() const { return parameter_bytes + gradient_bytes + optimizer_bytes; }
};
StateFigures StateOf(const Draft& draft, const StageParameters& parameters);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_LOWERING_PARAMETER_LAYOUT_H_
