#include "exec/comm/element.h"

#include <cmath>
#include <limits>

#include "gtest/gtest.h"

namespace tideline {
namespace {

TEST(ElementTest, BF16RoundsToNearestEven) {
  EXPECT_EQ(FloatToBF16(1.0f), 0x3f80);
  // 1 + 2^-8 lies half way between 1 and 1 + 2^-7: to even, which is 1.
  EXPECT_EQ(FloatToBF16(1.0f + 0x1p-8f), 0x3f80);
  // 1 + 3 * 2^-8 lies half way between 1 + 2^-7 (odd) and 1 + 2^-6 (even).
  EXPECT_EQ(FloatToBF16(1.0f + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(FloatToBF16(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81);
  EXPECT_EQ(FloatToBF16(std::numeric_limits<float>::max()), 0x7f80);  // rounds to infinity
  EXPECT_TRUE(std::isnan(BF16ToFloat(FloatToBF16(std::nanf("1")))));
}

TEST(ElementTest, F16EdgesAreExact) {
  EXPECT_EQ(FloatToF16(1.0f), 0x3c00);
  EXPECT_EQ(FloatToF16(65504.0f), 0x7bff);
  EXPECT_EQ(FloatToF16(65519.0f), 0x7bff);
  EXPECT_EQ(FloatToF16(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToF16(-0.0f), 0x8000);
  EXPECT_EQ(FloatToF16(0x1p-24f), 0x0001);  // the smallest subnormal value
  EXPECT_EQ(FloatToF16(0x1p-25f), 0x0000);  // half of it: to even
  EXPECT_EQ(FloatToF16(0x1.8p-24f), 0x0002);
  EXPECT_TRUE(std::isnan(F16ToFloat(FloatToF16(std::nanf("1")))));
}

TEST(ElementTest, EveryPatternSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint16_t pattern = static_cast<uint16_t>(bits);
    if (!std::isnan(BF16ToFloat(pattern))) {
      EXPECT_EQ(FloatToBF16(BF16ToFloat(pattern)), pattern);
    }
    const float half = F16ToFloat(pattern);
    if (!std::isnan(half)) {
      EXPECT_EQ(FloatToF16(half), pattern) << bits;
    }
    // Against the definition of the format, in double precision.
    const int exponent = static_cast<int>(bits >> 10 & 31);
    const double fraction = static_cast<double>(bits & 1023) / 1024.0;
    if (exponent == 31) continue;
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1.0 + fraction, exponent - 15);
    EXPECT_EQ(half, (bits & 0x8000) != 0 ? -magnitude : magnitude) << bits;
  }
}

}  // namespace
}  // namespace tideline
