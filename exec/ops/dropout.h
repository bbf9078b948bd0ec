// Dropout: which elements are dropped, as a function of where they are.
//
// An element is named by its global sample, its head (0 where there are none), its row (position of
// the token or query) and its column (hidden element or key). Philox (base/rng.h) of that name,
// keyed by seed, step, layer and site, gives its fate. So a mask is never stored: backward, a
// replay, another rank, another micro-batch find the same one (DEFINITIONS 12a).
#ifndef TIDELINE_EXEC_OPS_DROPOUT_H_
#define TIDELINE_EXEC_OPS_DROPOUT_H_

#include <cstdint>

#include "base/host_device.h"
#include "base/rng.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {

// One layer's mask at one site and step. Trivially copyable: an argument of kernels.
struct DropoutMask {
  static constexpr int kTogether = 4;  // columns whose fate comes from one block of numbers

  uint32_t key[2] = {0, 0};
  uint32_t threshold = 0;    // dropped: words below it
  float kept = 1.0f;         // what a kept element is multiplied by
  int64_t first_sample = 0;  // global number of the first sample of the tensor
  bool active = false;       // false: nothing is dropped

  // The factors of columns kTogether * group and the following: 0 or `kept`.
  TIDELINE_HOST_DEVICE void Factors(int64_t sample, int64_t head, int64_t row, int64_t group,
                                    float (&factors)[kTogether]) const {
    const PhiloxBlock words =
        Philox4x32({{static_cast<uint32_t>(group), static_cast<uint32_t>(row),
                     static_cast<uint32_t>(head), static_cast<uint32_t>(first_sample + sample)}},
                   key[0], key[1]);
    for (int i = 0; i < kTogether; ++i) factors[i] = words.word[i] < threshold ? 0.0f : kept;
  }
};

// The mask of an op with attributes.dropout. `batch`: samples of the tensor.
DropoutMask MaskOf(const OpCall& call, int64_t batch);

}  // namespace tideline::ops

#endif  // TIDELINE_EXEC_OPS_DROPOUT_H_
