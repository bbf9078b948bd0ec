// Element: 16-bit floating point values to fp32 and back, rounded to nearest, ties to even.
//
// In integer arithmetic only, so that the bits are the same on every machine. NaN stays NaN (quiet,
// sign kept). Safe from any thread.
#ifndef TIDELINE_EXEC_COMM_ELEMENT_H_
#define TIDELINE_EXEC_COMM_ELEMENT_H_

#include <cstdint>
#include <cstring>

#include "base/host_device.h"
#include "base/numerics.h"
#include "models/ir/dtype.h"

namespace tideline {

TIDELINE_HOST_DEVICE inline float BF16ToFloat(uint16_t bits) {
  return internal::FloatOf(uint32_t{bits} << 16);
}

TIDELINE_HOST_DEVICE inline uint16_t FloatToBF16(float value) {
  const uint32_t bits = internal::BitsOf(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>(bits >> 16 | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

TIDELINE_HOST_DEVICE inline float F16ToFloat(uint16_t bits) {
  const uint32_t sign = uint32_t{bits & 0x8000u} << 16;
  const uint32_t magnitude = bits & 0x7fffu;
  if (magnitude >= 0x7c00u)
    return internal::FloatOf(sign | 0x7f800000u | (magnitude & 0x3ffu) << 13);
  // The exponent bias differs by 112; multiplying by 2^112 also normalises subnormal values.
  const float scaled = internal::FloatOf(magnitude << 13) * 0x1p112f;
  return internal::FloatOf(sign | internal::BitsOf(scaled));
}

TIDELINE_HOST_DEVICE inline uint16_t FloatToF16(float value) {
  const uint32_t bits = internal::BitsOf(value);
  const uint16_t sign = static_cast<uint16_t>(bits >> 16 & 0x8000u);
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return sign | 0x7e00u;
  if (magnitude >= 0x477ff000u) return sign | 0x7c00u;  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {
    // Below 2^-14: adding 1/2 leaves round-to-nearest-even multiples of 2^-24 in the low bits.
    const float shifted = internal::FloatOf(magnitude) + 0.5f;
    return sign | static_cast<uint16_t>(internal::BitsOf(shifted) - 0x3f000000u);
  }
  const uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1u);
  return sign | static_cast<uint16_t>((rounded - 0x38000000u) >> 13);
}

// Element `index` of an array of `dtype`; precondition: a floating type.
inline float LoadElement(const void* array, int64_t index, DType dtype) {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, static_cast<const char*>(array) + 4 * index, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, static_cast<const char*>(array) + 2 * index, 2);
  return dtype == DType::kBF16 ? BF16ToFloat(bits) : F16ToFloat(bits);
}

inline void StoreElement(void* array, int64_t index, DType dtype, float value) {
  if (dtype == DType::kF32) {
    std::memcpy(static_cast<char*>(array) + 4 * index, &value, 4);
    return;
  }
  const uint16_t bits = dtype == DType::kBF16 ? FloatToBF16(value) : FloatToF16(value);
  std::memcpy(static_cast<char*>(array) + 2 * index, &bits, 2);
}

}  // namespace tideline

#endif  // TIDELINE_EXEC_COMM_ELEMENT_H_
