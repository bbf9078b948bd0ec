// ModelShape: what a forward graph is built for, besides the model itself: one micro-batch.
#ifndef TIDELINE_MODELS_ZOO_MODEL_SHAPE_H_
#define TIDELINE_MODELS_ZOO_MODEL_SHAPE_H_

#include <cstdint>

#include "models/ir/dtype.h"

namespace tideline {

// The most that batch times sequence may be.
inline constexpr int64_t kMostTokens = int64_t{1} << 32;

struct ModelShape {
  int64_t batch = 1;
  int64_t sequence = 0;
  DType dtype = DType::kF32;
  // Columns of the logits are padded to a multiple of this, at most kMostRows (DEFINITIONS 7).
  int64_t vocab_multiple = 1;
  // One kAttention node instead of products and softmax apart; the same function.
  bool fused_attention = false;
};

}  // namespace tideline

#endif  // TIDELINE_MODELS_ZOO_MODEL_SHAPE_H_
