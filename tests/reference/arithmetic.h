// Number types of the reference: fp32 with the rounding that Tideline documents, and an fp64 twin.
//
// In fp32 a product-sum is one fused multiply-add and the elementary functions are those of
// base/numerics.h, so that equal summation orders give equal bits. In fp64 they are the compiler's
// and libm's, so that nothing is shared with the code under test.
#ifndef TIDELINE_TESTS_REFERENCE_ARITHMETIC_H_
#define TIDELINE_TESTS_REFERENCE_ARITHMETIC_H_

#include <cmath>

#include "base/numerics.h"

namespace tideline::reference {

inline float MultiplyAdd(float a, float b, float c) { return std::fma(a, b, c); }
inline double MultiplyAdd(double a, double b, double c) { return a * b + c; }

inline float Exponential(float x) { return Exp(x); }
inline double Exponential(double x) { return std::exp(x); }

inline float Logarithm(float x) { return Log(x); }
inline double Logarithm(double x) { return std::log(x); }

inline float HyperbolicTangent(float x) { return Tanh(x); }
inline double HyperbolicTangent(double x) { return std::tanh(x); }

inline float Logistic(float x) { return Sigmoid(x); }
inline double Logistic(double x) { return 1.0 / (1.0 + std::exp(-x)); }

inline float InverseRoot(float x) { return Rsqrt(x); }
inline double InverseRoot(double x) { return 1.0 / std::sqrt(x); }

// Cosine and sine of an angle; the angle is fp64 in both number types.
inline void CosineSine(double angle, float& cosine, float& sine) {
  cosine = Cos(angle);
  sine = Sin(angle);
}
inline void CosineSine(double angle, double& cosine, double& sine) {
  cosine = std::cos(angle);
  sine = std::sin(angle);
}

}  // namespace tideline::reference

#endif  // TIDELINE_TESTS_REFERENCE_ARITHMETIC_H_
