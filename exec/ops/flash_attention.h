// What the checks need to know of fused attention's kernels (flash_attention.cu).
#ifndef TIDELINE_EXEC_OPS_FLASH_ATTENTION_H_
#define TIDELINE_EXEC_OPS_FLASH_ATTENTION_H_

#include <cstdint>

namespace tideline::ops {

inline constexpr int64_t kMaxAttentionHeadSize = 256;

}  // namespace tideline::ops

#endif  // TIDELINE_EXEC_OPS_FLASH_ATTENTION_H_
