// Elementary functions with the same bits on every host and on the GPU.
//
// libm differs between machines and from CUDA's library; a training run that must be reproduced bit
// for bit cannot call it. Each function here is a fixed polynomial in fp32 whose multiply-adds are
// written as std::fma, without tables and without a data-dependent loop, so that the compiler can
// vectorise it. Precondition: compiled with -ffp-contract=off and without -ffast-math.
//
// Accuracy against the exact value, over all finite inputs, subnormal results aside (measured by
// tests/base/numerics_test.cc): Sin, Cos, Sqrt 0.51 ulp; Log 1; Exp 1.1; Erf, Tanh, Rsqrt 2;
// Sigmoid 2.5.
// Special values are libm's: NaN in gives NaN out, Exp(-inf) = 0, Log(0) = -inf, Tanh(inf) = 1.
// Coefficients: Taylor for Exp, Sin and Cos; interpolation at Chebyshev nodes of the reduced range
// for Log, Tanh and Erf (the forms of Cody & Waite 1980).
#ifndef TIDELINE_BASE_NUMERICS_H_
#define TIDELINE_BASE_NUMERICS_H_

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/host_device.h"

namespace tideline {
namespace internal {

TIDELINE_HOST_DEVICE inline uint32_t BitsOf(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  return std::bit_cast<uint32_t>(value);
#endif
}

TIDELINE_HOST_DEVICE inline float FloatOf(uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

// sin or cos of a reduced angle |r| <= pi/4, Taylor in fp64: the remainder is below 1e-11.
TIDELINE_HOST_DEVICE inline double ReducedSin(double r) {
  const double z = r * r;
  double p = -1.0 / 39916800.0;
  p = std::fma(p, z, 1.0 / 362880.0);
  p = std::fma(p, z, -1.0 / 5040.0);
  p = std::fma(p, z, 1.0 / 120.0);
  p = std::fma(p, z, -1.0 / 6.0);
  return std::fma(p * z, r, r);
}

TIDELINE_HOST_DEVICE inline double ReducedCos(double r) {
  const double z = r * r;
  double p = 1.0 / 479001600.0;
  p = std::fma(p, z, -1.0 / 3628800.0);
  p = std::fma(p, z, 1.0 / 40320.0);
  p = std::fma(p, z, -1.0 / 720.0);
  p = std::fma(p, z, 1.0 / 24.0);
  p = std::fma(p, z, -0.5);
  return std::fma(p, z, 1.0);
}

// sin(radians + quarter_turns * pi / 2), the multiple of pi / 2 taken out by Cody and Waite's two
// constants.
TIDELINE_HOST_DEVICE inline double SinShifted(double radians, int64_t quarter_turns) {
  constexpr double kTwoOverPi = 0x1.45f306dc9c883p-1;
  constexpr double kHalfPiHigh = 0x1.921fb54442d18p+0;
  constexpr double kHalfPiLow = 0x1.1a62633145c07p-54;
  if (!(std::fabs(radians) <= 0x1p50)) return std::numeric_limits<double>::quiet_NaN();
  const double turns = std::rint(radians * kTwoOverPi);
  double r = std::fma(-turns, kHalfPiHigh, radians);
  r = std::fma(-turns, kHalfPiLow, r);
  const int64_t quadrant = (static_cast<int64_t>(turns) + quarter_turns) & 3;
  const double value = (quadrant & 1) != 0 ? ReducedCos(r) : ReducedSin(r);
  return (quadrant & 2) != 0 ? -value : value;
}

}  // namespace internal

// e^x = 2^n * e^r with |r| <= ln(2)/2; the power of two is applied in two steps so that subnormal
// and infinite results come out rounded as they should.
TIDELINE_HOST_DEVICE inline float Exp(float x) {
  constexpr float kLog2E = 0x1.715476p+0f;
  constexpr float kLn2High = 0x1.62e400p-1f;
  constexpr float kLn2Low = 0x1.7f7d1cp-20f;
  constexpr float kShift = 0x1.8p23f;  // adding it rounds to an integer in the low mantissa bits
  x = x < -104.0f ? -104.0f : x;
  x = x > 89.0f ? 89.0f : x;
  const float shifted = std::fma(x, kLog2E, kShift);
  const float n = shifted - kShift;
  float r = std::fma(-n, kLn2High, x);
  r = std::fma(-n, kLn2Low, r);
  float p = 1.0f / 5040.0f;
  p = std::fma(p, r, 1.0f / 720.0f);
  p = std::fma(p, r, 1.0f / 120.0f);
  p = std::fma(p, r, 1.0f / 24.0f);
  p = std::fma(p, r, 1.0f / 6.0f);
  p = std::fma(p, r, 0.5f);
  p = std::fma(p * r, r, r);
  // n + 256 is positive: its half is a plain shift.
  const uint32_t biased = internal::BitsOf(shifted) - internal::BitsOf(kShift) + 256u;
  const uint32_t first = biased >> 1;
  const uint32_t second = biased - first;
  const float first_power = internal::FloatOf((first - 1u) << 23);
  const float second_power = internal::FloatOf((second - 1u) << 23);
  return (1.0f + p) * first_power * second_power;
}

// log(x) = e ln 2 + log(m), m in [sqrt(1/2), sqrt(2)).
TIDELINE_HOST_DEVICE inline float Log(float x) {
  constexpr float kLn2High = 0x1.62e400p-1f;
  constexpr float kLn2Low = 0x1.7f7d1cp-20f;
  const bool subnormal = x < std::numeric_limits<float>::min();
  const float scaled = subnormal ? x * 0x1p23f : x;
  const uint32_t bits = internal::BitsOf(scaled);
  // Subtracting sqrt(1/2)'s bits carries into the exponent exactly when the mantissa reaches it.
  const uint32_t above = bits - 0x3f3504f3u;
  const int32_t exponent = static_cast<int32_t>(above) >> 23;
  const float f = internal::FloatOf((above & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  const float e = static_cast<float>(exponent) - (subnormal ? 23.0f : 0.0f);
  float p = 6.971611828e-02f;
  p = std::fma(p, f, -1.147973388e-01f);
  p = std::fma(p, f, 1.168541983e-01f);
  p = std::fma(p, f, -1.242568716e-01f);
  p = std::fma(p, f, 1.424905807e-01f);
  p = std::fma(p, f, -1.666780263e-01f);
  p = std::fma(p, f, 2.000071555e-01f);
  p = std::fma(p, f, -2.499999702e-01f);
  p = std::fma(p, f, 3.333333135e-01f);
  const float f2 = f * f;
  float tail = std::fma(p * f, f2, e * kLn2Low);
  tail = std::fma(-0.5f, f2, tail);
  float result = std::fma(e, kLn2High, tail + f);
  if (x == std::numeric_limits<float>::infinity()) result = x;
  if (x == 0.0f) result = -std::numeric_limits<float>::infinity();
  if (!(x >= 0.0f)) result = std::numeric_limits<float>::quiet_NaN();
  return result;
}

TIDELINE_HOST_DEVICE inline float Tanh(float x) {
  const float t = std::fabs(x);
  const float z = t * t;
  float p = 2.269501798e-03f;
  p = std::fma(p, z, -8.323187009e-03f);
  p = std::fma(p, z, 2.176250331e-02f);
  p = std::fma(p, z, -5.395846069e-02f);
  p = std::fma(p, z, 1.333329976e-01f);
  p = std::fma(p, z, -3.333333433e-01f);
  const float small = std::fma(p * z, t, t);
  const float large = 1.0f - 2.0f / (Exp(t + t) + 1.0f);
  return std::copysign(t < 0.625f ? small : large, x);
}

// The error function, 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x.
TIDELINE_HOST_DEVICE inline float Erf(float x) {
  const float t = std::fabs(x);
  const float z = t * t;
  float p = 8.316879394e-05f;
  p = std::fma(p, z, -8.130444912e-04f);
  p = std::fma(p, z, 5.199989304e-03f);
  p = std::fma(p, z, -2.685899660e-02f);
  p = std::fma(p, z, 1.128368899e-01f);
  p = std::fma(p, z, -3.761263192e-01f);
  p = std::fma(p, z, 1.283791661e-01f);
  const float small = std::fma(p, t, t);
  // Beyond 4 the result is 1 in fp32; the polynomial is not asked there.
  const float c = t < 4.0f ? t : 4.0f;
  float q = 2.774852987e-07f;
  q = std::fma(q, c, -4.499955139e-06f);
  q = std::fma(q, c, 1.279368189e-05f);
  q = std::fma(q, c, 2.762448275e-04f);
  q = std::fma(q, c, -3.668697318e-03f);
  q = std::fma(q, c, 2.402030304e-02f);
  q = std::fma(q, c, -1.066690236e-01f);
  q = std::fma(q, c, -6.348386407e-01f);
  q = std::fma(q, c, -1.287342459e-01f);
  const float large = 1.0f - Exp(std::fma(q, c, -c));
  const float magnitude = t < 0.93f ? small : large;
  return std::copysign(t == t ? magnitude : t, x);
}

TIDELINE_HOST_DEVICE inline float Sqrt(float x) { return std::sqrt(x); }

TIDELINE_HOST_DEVICE inline float Rsqrt(float x) { return 1.0f / std::sqrt(x); }

// 1 / (1 + e^-x).
TIDELINE_HOST_DEVICE inline float Sigmoid(float x) { return 1.0f / (1.0f + Exp(-x)); }

// Sine and cosine of an angle in radians, given in fp64 so that a product position * frequency
// keeps its digits: correctly rounded but for 1e-11, up to |x| = 2^30; NaN beyond 2^50.
TIDELINE_HOST_DEVICE inline float Sin(double radians) {
  return static_cast<float>(internal::SinShifted(radians, 0));
}
TIDELINE_HOST_DEVICE inline float Cos(double radians) {
  return static_cast<float>(internal::SinShifted(radians, 1));
}

// The cosine before its rounding to fp32: within 1e-11 of the exact value up to |x| = 2^30.
TIDELINE_HOST_DEVICE inline double Cos64(double radians) {
  return internal::SinShifted(radians, 1);
}

}  // namespace tideline

#endif  // TIDELINE_BASE_NUMERICS_H_
