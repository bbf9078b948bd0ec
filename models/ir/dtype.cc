#include "models/ir/dtype.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

constexpr std::array<DType, 4> kDTypes = {DType::kF32, DType::kBF16, DType::kF16, DType::kI32};

}  // namespace

std::string_view Name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "fp32";
    case DType::kBF16:
      return "bf16";
    case DType::kF16:
      return "fp16";
    case DType::kI32:
      return "int32";
  }
  return "invalid";
}

StatusOr<DType> ParseDType(std::string_view name) {
  for (DType dtype : kDTypes) {
    if (Name(dtype) == name) return dtype;
  }
  return UsageError(absl::StrCat("unknown data type '", std::string(name),
                                 "'; write one of fp32, bf16, fp16, int32"));
}

}  // namespace tideline
