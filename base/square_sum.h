// SquareSum: the exact sum of the squares of fp32 values.
//
// Algorithm: every square of a finite fp32 value is a whole multiple of 2^-298 below 2^256, so sums
// of them are whole numbers of 640 bits, and whole numbers add to the same sum in any order
// (Kulisch, "Computer arithmetic and validity", 2008: the long accumulator). A norm made of it
// therefore does not depend on how values are cut over ranks, buckets and blocks, nor on the order
// of a reduction. Between kernels and ranks the number is kValues fp32 values: its digits of 8
// bits, lowest first, and then the count of values that were no finite numbers. An all-reduce of
// such digits in fp32 is exact up to kMostSummed summands, since no digit then reaches 2^24.
//
// Cost: about 10 integer operations per value.
#ifndef TIDELINE_BASE_SQUARE_SUM_H_
#define TIDELINE_BASE_SQUARE_SUM_H_

#include <cmath>
#include <cstdint>
#include <span>

#include "base/host_device.h"
#include "base/numerics.h"

namespace tideline {

class SquareSum {
 public:
  static constexpr int kLimbs = 20;  // of 32 bits; the lowest bit is 2^-298
  static constexpr int kDigits = 4 * kLimbs;
  static constexpr int kValues = kDigits + 1;
  static constexpr int64_t kMostSummed = 65536;  // 255 * 65536 < 2^24

  // Adds value^2 to the limbs, which may grow beyond 32 bits: at most 2^31 times between two calls
  // of Carry. False, and nothing is added, when the value is no finite number.
  TIDELINE_HOST_DEVICE static bool Add(float value, uint64_t* limbs) {
    const uint32_t bits = internal::BitsOf(value);
    const uint32_t exponent = bits >> 23 & 0xffu;
    if (exponent == 0xffu) return false;
    const uint64_t mantissa = (bits & 0x7fffffu) | (exponent == 0 ? 0u : 0x800000u);
    const uint64_t square = mantissa * mantissa;
    const uint32_t position = exponent == 0 ? 0u : 2 * (exponent - 1);
    const uint64_t low = (square & 0xffffffffu) << position % 32;
    const uint64_t high = ((square >> 32) << position % 32) + (low >> 32);
    uint64_t* limb = limbs + position / 32;
    limb[0] += low & 0xffffffffu;
    limb[1] += high & 0xffffffffu;
    limb[2] += high >> 32;
    return true;
  }

  // Brings every limb but the last below 2^32.
  TIDELINE_HOST_DEVICE static void Carry(uint64_t* limbs) {
    for (int i = 0; i + 1 < kLimbs; ++i) {
      limbs[i + 1] += limbs[i] >> 32;
      limbs[i] &= 0xffffffffu;
    }
  }

  // Digit i of limbs that have been carried.
  TIDELINE_HOST_DEVICE static float Digit(const uint64_t* limbs, int i) {
    return static_cast<float>(limbs[i / 4] >> 8 * (i % 4) & 0xffu);
  }

  // Adds kDigits digits, each possibly a sum of many, to the limbs.
  TIDELINE_HOST_DEVICE static void AddDigit(float digit, int i, uint64_t* limbs) {
    limbs[i / 4] += static_cast<uint64_t>(digit) << 8 * (i % 4);
  }

  // The sum that `values` stand for, rounded once to fp64; infinity when a value was no finite
  // number.
  static double Value(std::span<const float, kValues> values) {
    if (values[kDigits] != 0) return HUGE_VAL;
    uint64_t limbs[kLimbs] = {};
    for (int i = 0; i < kDigits; ++i) AddDigit(values[i], i, limbs);
    Carry(limbs);
    int top = kLimbs - 1;
    while (top > 0 && limbs[top] == 0) --top;
    // Three limbs have at least 65 significant bits; of what is below only matters whether it is 0.
    const auto limb = [&](int index) { return index < 0 ? uint64_t{0} : limbs[index]; };
    __extension__ using Wide = unsigned __int128;
    Wide window = Wide{limb(top)} << 64 | limb(top - 1) << 32 | limb(top - 2);
    for (int i = 0; i < top - 2; ++i) window |= limbs[i] != 0 ? 1u : 0u;
    return std::ldexp(static_cast<double>(window), 32 * (top - 2) - 298);
  }
};

}  // namespace tideline

#endif  // TIDELINE_BASE_SQUARE_SUM_H_
