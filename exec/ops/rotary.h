// Rotary frequencies (Su et al., "RoFormer", 2021), with LLaMA 3's rescaling of long wavelengths
// as in Hugging Face's rope_scaling "llama3".
#ifndef TIDELINE_EXEC_OPS_ROTARY_H_
#define TIDELINE_EXEC_OPS_ROTARY_H_

#include <cstdint>
#include <vector>

#include "models/ir/attributes.h"

namespace tideline::ops {

// Largest head size that the rotary kernel takes.
inline constexpr int64_t kMaxRotaryHeadSize = 1024;

// head_size / 2 angular frequencies, theta^(-2i / head_size), in radians per position. The angle
// of a position is position * frequency, in fp64. Precondition: head_size is even.
std::vector<double> RotaryFrequencies(const RotaryScaling& scaling, int64_t head_size);

}  // namespace tideline::ops

#endif  // TIDELINE_EXEC_OPS_ROTARY_H_
