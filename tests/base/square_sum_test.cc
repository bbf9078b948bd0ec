#include "base/square_sum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.h"

namespace tideline {
namespace {

using Values = std::array<float, SquareSum::kValues>;

// The digits of a sum, as a kernel writes them.
Values DigitsOf(const std::vector<float>& values) {
  uint64_t limbs[SquareSum::kLimbs] = {};
  Values digits{};
  for (const float value : values) {
    if (!SquareSum::Add(value, limbs)) digits[SquareSum::kDigits] = 1;
  }
  SquareSum::Carry(limbs);
  for (int i = 0; i < SquareSum::kDigits; ++i) digits[i] = SquareSum::Digit(limbs, i);
  return digits;
}

double SumOf(const std::vector<float>& values) { return SquareSum::Value(DigitsOf(values)); }

TEST(SquareSumTest, ByHand) {
  EXPECT_EQ(SumOf({}), 0.0);
  EXPECT_EQ(SumOf({0.0f, -0.0f}), 0.0);
  EXPECT_EQ(SumOf({3.0f, -4.0f}), 25.0);
  EXPECT_EQ(SumOf({0.5f}), 0.25);
  // The ends of fp32: the least number is 2^-149, the largest 2^128 - 2^104.
  EXPECT_EQ(SumOf({std::numeric_limits<float>::denorm_min()}), std::ldexp(1.0, -298));
  EXPECT_EQ(SumOf({FLT_MAX}), double{FLT_MAX} * double{FLT_MAX});
  // 1 + 2^-53 lies half way to the next fp64 number and rounds to even; a bit more rounds up. 2^-27
  // twice is 2^-53.
  const float tiny = std::ldexp(1.0f, -27);
  EXPECT_EQ(SumOf({1.0f, tiny, tiny}), 1.0);
  EXPECT_EQ(SumOf({1.0f, tiny, tiny, std::numeric_limits<float>::denorm_min()}),
            std::nextafter(1.0, 2.0));
}

TEST(SquareSumTest, WhatIsNoFiniteNumberIsTold) {
  for (const float odd : {INFINITY, -INFINITY, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_TRUE(std::isinf(SumOf({1.0f, odd, 2.0f})));
  }
}

// Values are odd multiples of 2^-46 below 1, so squares are multiples of 2^-92 below 1, and 113
// bits hold the sum of 2^16 of them exactly.
TEST(SquareSumTest, IsTheExactSumRoundedOnce) {
  for (const int count : {1, 2, 3, 64, 997, 65536}) {
    std::vector<float> values;
    __extension__ __float128 exact = 0;
    const StreamKey key = MakeStreamKey(7, "squares");
    for (int i = 0; i < count; ++i) {
      const uint32_t drawn = BlockAt(key, static_cast<uint64_t>(i)).word[0];
      values.push_back(
          std::ldexp(static_cast<float>(drawn >> 8 | 1u), -24 - static_cast<int>(drawn % 23)));
      exact += static_cast<__float128>(values.back()) * values.back();
    }
    EXPECT_EQ(SumOf(values), static_cast<double>(exact)) << count;
  }
}

// However values are ordered, cut, and their parts added as fp32 numbers, as an all-reduce does.
TEST(SquareSumTest, DoesNotDependOnOrderNorCut) {
  std::vector<float> values;
  const StreamKey key = MakeStreamKey(3, "bits");
  for (uint64_t i = 0; i < 3000; ++i) {
    // Any finite bits: all exponents, subnormal numbers too.
    const float value = std::bit_cast<float>(BlockAt(key, i).word[1]);
    if (std::isfinite(value)) values.push_back(value);
  }
  const double whole = SumOf(values);
  std::reverse(values.begin(), values.end());
  EXPECT_EQ(SumOf(values), whole);
  for (const size_t part : {size_t{1}, size_t{7}, size_t{1024}}) {
    Values sum{};
    for (size_t begin = 0; begin < values.size(); begin += part) {
      const size_t end = std::min(values.size(), begin + part);
      const Values digits = DigitsOf({values.begin() + begin, values.begin() + end});
      for (size_t i = 0; i < sum.size(); ++i) sum[i] += digits[i];
    }
    EXPECT_EQ(SquareSum::Value(sum), whole) << part;
  }
}

}  // namespace
}  // namespace tideline
