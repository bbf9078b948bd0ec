#include "base/numerics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace tideline {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// Distance in units of the last place of the exact value (fp64 libm), at least the subnormal step.
double UlpError(float got, double exact) {
  if (std::isinf(got) && std::fabs(exact) >= 0x1.ffffffp127) return 0;
  int exponent = 0;
  std::frexp(exact, &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::fabs(static_cast<double>(got) - exact) / ulp;
}

// The largest error over every `stride`-th float of both signs.
template <typename Function, typename Exact>
double WorstUlp(Function function, Exact exact, float lowest, float highest, uint32_t stride) {
  double worst = 0;
  for (uint64_t bits = 0; bits <= 0xffffffffu; bits += stride) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (!(x >= lowest && x <= highest)) continue;
    const double error = UlpError(function(x), exact(static_cast<double>(x)));
    worst = error > worst || std::isnan(error) ? error : worst;
    if (std::isnan(worst)) return worst;
  }
  return worst;
}

constexpr uint32_t kStride = 2503;  // prime: 1.7 million samples of the whole fp32 line

TEST(Numerics, ErrorsStayWithinTheStatedBounds) {
  EXPECT_LE(WorstUlp([](float x) { return Exp(x); }, [](double x) { return std::exp(x); },
                     -kInfinity, kInfinity, kStride),
            1.1);
  EXPECT_LE(WorstUlp([](float x) { return Log(x); }, [](double x) { return std::log(x); },
                     0x1p-149f, std::numeric_limits<float>::max(), kStride),
            1.0);
  EXPECT_LE(WorstUlp([](float x) { return Tanh(x); }, [](double x) { return std::tanh(x); },
                     -kInfinity, kInfinity, kStride),
            2.0);
  EXPECT_LE(WorstUlp([](float x) { return Erf(x); }, [](double x) { return std::erf(x); },
                     -kInfinity, kInfinity, kStride),
            2.0);
  EXPECT_LE(WorstUlp([](float x) { return Sqrt(x); }, [](double x) { return std::sqrt(x); }, 0.0f,
                     std::numeric_limits<float>::max(), kStride),
            0.51);
  EXPECT_LE(WorstUlp([](float x) { return Rsqrt(x); }, [](double x) { return 1 / std::sqrt(x); },
                     0x1p-149f, std::numeric_limits<float>::max(), kStride),
            2.0);
  EXPECT_LE(WorstUlp([](float x) { return Sigmoid(x); },
                     [](double x) { return 1 / (1 + std::exp(-x)); }, -87.0f, kInfinity, kStride),
            2.5);
}

// Dense sweeps where the reduced range changes over and around 1, where a thin sample sees little.
TEST(Numerics, ErrorsStayWithinTheStatedBoundsAroundOne) {
  const auto dense = [](auto function, auto exact, float from, float to) {
    double worst = 0;
    for (int i = 0; i <= 400000; ++i) {
      const float x = from + (to - from) * static_cast<float>(i) / 400000.0f;
      worst = std::max(worst, UlpError(function(x), exact(static_cast<double>(x))));
    }
    return worst;
  };
  EXPECT_LE(dense([](float x) { return Exp(x); }, [](double x) { return std::exp(x); }, -2, 2),
            1.1);
  EXPECT_LE(dense([](float x) { return Log(x); }, [](double x) { return std::log(x); }, .25, 4),
            1.0);
  EXPECT_LE(dense([](float x) { return Tanh(x); }, [](double x) { return std::tanh(x); }, -2, 2),
            2.0);
  EXPECT_LE(dense([](float x) { return Erf(x); }, [](double x) { return std::erf(x); }, -4.5, 4.5),
            2.0);
}

TEST(Numerics, SineAndCosineHoldOverRotaryAngles) {
  double worst = 0;
  for (int i = 0; i <= 400000; ++i) {
    const double x = (i - 200000) * (131072.0 / 200000.0);
    worst = std::max(worst, UlpError(Sin(x), std::sin(x)));
    worst = std::max(worst, UlpError(Cos(x), std::cos(x)));
    const double near = i * 1e-5;
    worst = std::max(worst, UlpError(Sin(near), std::sin(near)));
    worst = std::max(worst, UlpError(Cos(near), std::cos(near)));
  }
  EXPECT_LE(worst, 0.51);
  // Close to multiples of pi/2 the reduction must keep relative accuracy.
  for (int turns = 1; turns < 90000; turns += 7) {
    const double x = turns * 1.5707963267948966;
    EXPECT_LE(UlpError(Sin(x), std::sin(x)), 0.51) << turns;
    EXPECT_LE(UlpError(Cos(x), std::cos(x)), 0.51) << turns;
  }
}

TEST(Numerics, SpecialValues) {
  EXPECT_EQ(Exp(-kInfinity), 0.0f);
  EXPECT_EQ(Exp(kInfinity), kInfinity);
  EXPECT_EQ(Exp(0.0f), 1.0f);
  EXPECT_EQ(Exp(89.0f), kInfinity);
  EXPECT_TRUE(std::isnan(Exp(kNaN)));
  EXPECT_EQ(Log(0.0f), -kInfinity);
  EXPECT_EQ(Log(1.0f), 0.0f);
  EXPECT_EQ(Log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(Log(-1.0f)));
  EXPECT_TRUE(std::isnan(Log(kNaN)));
  EXPECT_EQ(Tanh(kInfinity), 1.0f);
  EXPECT_EQ(Tanh(-kInfinity), -1.0f);
  EXPECT_TRUE(std::signbit(Tanh(-0.0f)));
  EXPECT_TRUE(std::isnan(Tanh(kNaN)));
  EXPECT_EQ(Erf(kInfinity), 1.0f);
  EXPECT_EQ(Erf(-kInfinity), -1.0f);
  EXPECT_TRUE(std::isnan(Erf(kNaN)));
  EXPECT_EQ(Sigmoid(0.0f), 0.5f);
  EXPECT_EQ(Sigmoid(-kInfinity), 0.0f);
  EXPECT_EQ(Sigmoid(kInfinity), 1.0f);
  EXPECT_EQ(Sin(0.0), 0.0f);
  EXPECT_EQ(Cos(0.0), 1.0f);
  EXPECT_TRUE(std::isnan(Sin(std::numeric_limits<double>::infinity())));
  EXPECT_TRUE(std::isnan(Cos(std::numeric_limits<double>::quiet_NaN())));
}

// The bits themselves are the contract: another compiler, machine or flag must not change them.
TEST(Numerics, BitsOfTenThousandValuesAreFixed) {
  uint64_t hash = 0xcbf29ce484222325u;
  const auto mix = [&hash](float value) {
    hash = (hash ^ std::bit_cast<uint32_t>(value)) * 0x100000001b3u;
  };
  for (int i = -5000; i < 5000; ++i) {
    const float x = static_cast<float>(i) * 0.0037f;
    mix(Exp(x));
    mix(Log(std::fabs(x) + 0.001f));
    mix(Tanh(x));
    mix(Erf(x));
    mix(Sigmoid(x));
    mix(Rsqrt(std::fabs(x) + 0.001f));
    mix(Sin(x));
    mix(Cos(x));
  }
  EXPECT_EQ(hash, 14736889680905515550u);
}

// Before the rounding to fp32: 1e-11, over several turns and at the quarter turns themselves.
TEST(Numerics, Cos64KeepsElevenDigits) {
  for (int i = -4000; i <= 4000; ++i) {
    const double x = i * 0.0078125;
    EXPECT_NEAR(Cos64(x), std::cos(x), 1e-11) << x;
  }
  EXPECT_EQ(Cos64(0.0), 1.0);
  EXPECT_TRUE(std::isnan(Cos64(std::numeric_limits<double>::infinity())));
}

}  // namespace
}  // namespace tideline
