// Element types of tensors.
#ifndef TIDELINE_MODELS_IR_DTYPE_H_
#define TIDELINE_MODELS_IR_DTYPE_H_

#include <cstdint>
#include <string_view>

#include "base/status.h"

namespace tideline {

enum class DType : uint8_t { kF32, kBF16, kF16, kI32 };

// Bytes of one element.
constexpr int64_t SizeOf(DType dtype) {
  return dtype == DType::kBF16 || dtype == DType::kF16 ? 2 : 4;
}

// "fp32", "bf16", "fp16", "int32": the spelling of flags and files.
std::string_view Name(DType dtype);

// Reads what Name() writes; an unknown name lists the valid ones (exit 2).
StatusOr<DType> ParseDType(std::string_view name);

}  // namespace tideline

#endif  // TIDELINE_MODELS_IR_DTYPE_H_
