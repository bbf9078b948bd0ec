// Layers of a decoder transformer and their derivatives, written from the mathematics as plain
// loops over row-major arrays. Every Backward adds to parameter gradients and writes (or continues)
// input gradients; the formula stands above each.
//
// Orders of summation are the documented ones, so that fp32 results can be compared bit for bit: a
// matrix product is one chain per element, rows of a parameter's gradient come in order, and a sum
// along a row is a fixed tree (TreeSum).
#ifndef TIDELINE_TESTS_REFERENCE_LAYERS_H_
#define TIDELINE_TESTS_REFERENCE_LAYERS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

#include "tests/reference/arithmetic.h"

namespace tideline::reference {

template <class Real>
using Array = std::vector<Real>;

// sum_i term(i): 64 lanes, lane l adding terms l, l + 64, ... in order; then the upper half of the
// lanes is added to the lower half until one is left.
template <class Real, class Term>
Real TreeSum(int64_t count, const Term& term) {
  constexpr int64_t kLanes = 64;
  Real lanes[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) lanes[i % kLanes] += term(i);
  for (int64_t width = kLanes / 2; width > 0; width /= 2) {
    for (int64_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

// y[r,n] = sum_k x[r,k] w[k,n]: one chain per element, k ascending.
template <class Real>
void MatrixProduct(int64_t rows, int64_t inner, int64_t columns, const Real* x, const Real* w,
                   Real* y) {
  for (int64_t row = 0; row < rows; ++row) {
    Real* out = y + row * columns;
    std::fill(out, out + columns, Real(0));
    for (int64_t k = 0; k < inner; ++k) {
      const Real factor = x[row * inner + k];
      const Real* weights = w + k * columns;
      for (int64_t n = 0; n < columns; ++n) out[n] = MultiplyAdd(factor, weights[n], out[n]);
    }
  }
}

// y[r,n] = sum_k x[r,k] w[n,k]: the weight stands row by row, as a tied head reads the embedding.
template <class Real>
void TransposedProduct(int64_t rows, int64_t inner, int64_t columns, const Real* x, const Real* w,
                       Real* y) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t n = 0; n < columns; ++n) {
      Real sum = 0;
      for (int64_t k = 0; k < inner; ++k) {
        sum = MultiplyAdd(x[row * inner + k], w[n * inner + k], sum);
      }
      y[row * columns + n] = sum;
    }
  }
}

// y = x w: dx[r,k] = sum_n dy[r,n] w[k,n]. The chain continues from what dx holds.
template <class Real>
void ProductInputGradient(int64_t rows, int64_t inner, int64_t columns, const Real* dy,
                          const Real* w, Real* dx) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < inner; ++k) {
      Real sum = dx[row * inner + k];
      for (int64_t n = 0; n < columns; ++n) {
        sum = MultiplyAdd(dy[row * columns + n], w[k * columns + n], sum);
      }
      dx[row * inner + k] = sum;
    }
  }
}

// y = x w: dw[k,n] += sum_r x[r,k] dy[r,n], rows ascending.
template <class Real>
void ProductWeightGradient(int64_t rows, int64_t inner, int64_t columns, const Real* x,
                           const Real* dy, Real* dw) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t k = 0; k < inner; ++k) {
      const Real factor = x[row * inner + k];
      Real* out = dw + k * columns;
      const Real* gradient = dy + row * columns;
      for (int64_t n = 0; n < columns; ++n) out[n] = MultiplyAdd(factor, gradient[n], out[n]);
    }
  }
}

template <class Real>
void AddTo(const Array<Real>& x, Array<Real>& y) {
  for (size_t i = 0; i < y.size(); ++i) y[i] += x[i];
}

template <class Real>
void AddBias(int64_t rows, int64_t columns, const Real* bias, Real* y) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t n = 0; n < columns; ++n) y[row * columns + n] += bias[n];
  }
}

template <class Real>
void BiasGradient(int64_t rows, int64_t columns, const Real* dy, Real* dbias) {
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t n = 0; n < columns; ++n) dbias[n] += dy[row * columns + n];
  }
}

// Layer norm, or root-mean-square norm when `centred` is false (mean stays 0, no beta).
template <class Real>
struct Norm {
  bool centred = true;
  Real epsilon = 0;
  int64_t width = 0;
};

// x^ = (x - m) r, r = 1 / sqrt(mean((x - m)^2) + epsilon); y = x^ gamma + beta.
template <class Real>
void NormForward(const Norm<Real>& norm, int64_t rows, const Real* x, const Real* gamma,
                 const Real* beta, Real* y, Real* mean, Real* scale) {
  const int64_t width = norm.width;
  const Real inverse = Real(1) / Real(width);
  for (int64_t row = 0; row < rows; ++row) {
    const Real* in = x + row * width;
    const Real centre =
        norm.centred ? TreeSum<Real>(width, [&](int64_t i) { return in[i]; }) * inverse : Real(0);
    const Real squares =
        TreeSum<Real>(width, [&](int64_t i) { return (in[i] - centre) * (in[i] - centre); });
    const Real factor = InverseRoot(squares * inverse + norm.epsilon);
    mean[row] = centre;
    scale[row] = factor;
    for (int64_t i = 0; i < width; ++i) {
      const Real normalised = (in[i] - centre) * factor;
      y[row * width + i] =
          norm.centred ? MultiplyAdd(normalised, gamma[i], beta[i]) : normalised * gamma[i];
    }
  }
}

// With g = dy gamma: dx = r (g - mean(g) - x^ mean(g x^)); without centring the mean(g) term is 0.
template <class Real>
void NormInputGradient(const Norm<Real>& norm, int64_t rows, const Real* dy, const Real* x,
                       const Real* gamma, const Real* mean, const Real* scale, Real* dx) {
  const int64_t width = norm.width;
  const Real inverse = Real(1) / Real(width);
  for (int64_t row = 0; row < rows; ++row) {
    const Real* gradient = dy + row * width;
    const auto g = [&](int64_t i) { return gradient[i] * gamma[i]; };
    const auto normalised = [&](int64_t i) {
      return (x[row * width + i] - mean[row]) * scale[row];
    };
    const Real average = norm.centred ? TreeSum<Real>(width, g) * inverse : Real(0);
    const Real along =
        TreeSum<Real>(width, [&](int64_t i) { return g(i) * normalised(i); }) * inverse;
    for (int64_t i = 0; i < width; ++i) {
      dx[row * width + i] = scale[row] * (g(i) - average - normalised(i) * along);
    }
  }
}

// dgamma += sum_r dy x^; dbeta += sum_r dy.
template <class Real>
void NormParameterGradient(const Norm<Real>& norm, int64_t rows, const Real* dy, const Real* x,
                           const Real* mean, const Real* scale, Real* dgamma, Real* dbeta) {
  const int64_t width = norm.width;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < width; ++i) {
      const Real gradient = dy[row * width + i];
      const Real normalised = (x[row * width + i] - mean[row]) * scale[row];
      dgamma[i] = MultiplyAdd(gradient, normalised, dgamma[i]);
      if (norm.centred) dbeta[i] += gradient;
    }
  }
}

// gelu(x) = x (1 + tanh u) / 2, u = sqrt(2/pi) (x + 0.044715 x^3).
template <class Real>
Real Gelu(Real x) {
  const Real root = Real(0.79788456080286535588);
  const Real t = HyperbolicTangent(root * MultiplyAdd(Real(0.044715) * x * x, x, x));
  return Real(0.5) * x * (Real(1) + t);
}

// gelu'(x) = (1 + tanh u) / 2 + x (1 - tanh^2 u) u' / 2, u' = sqrt(2/pi) (1 + 3 * 0.044715 x^2).
template <class Real>
Real GeluDerivative(Real x) {
  const Real root = Real(0.79788456080286535588);
  const Real t = HyperbolicTangent(root * MultiplyAdd(Real(0.044715) * x * x, x, x));
  const Real slope = root * MultiplyAdd(Real(3) * Real(0.044715) * x, x, Real(1));
  return Real(0.5) * (Real(1) + t) + Real(0.5) * x * MultiplyAdd(-t, t, Real(1)) * slope;
}

// y = silu(gate) up, silu(x) = x sigma(x), silu'(x) = sigma(x) (1 + x (1 - sigma(x))):
// dgate = dy up silu'(gate), dup = dy silu(gate).
template <class Real>
Real SwiGlu(Real gate, Real up) {
  return gate * Logistic(gate) * up;
}
template <class Real>
void SwiGluBackward(Real dy, Real gate, Real up, Real& dgate, Real& dup) {
  const Real sigma = Logistic(gate);
  dgate = dy * up * sigma * MultiplyAdd(gate, Real(1) - sigma, Real(1));
  dup = dy * gate * sigma;
}

// loss_r = log sum_v exp(x[r,v]) - x[r,target]; dx[r,v] = scale (softmax(x)[v] - [v = target]).
// Adds the losses to `total`; `x` becomes the gradient when `scale` is not 0.
template <class Real>
void CrossEntropy(int64_t rows, int64_t vocab, const int32_t* targets, Real scale, Real* x,
                  Real& total) {
  for (int64_t row = 0; row < rows; ++row) {
    Real* logits = x + row * vocab;
    const Real largest = *std::max_element(logits, logits + vocab);
    const Real log_sum = largest + Logarithm(TreeSum<Real>(vocab, [&](int64_t v) {
                           return Exponential(logits[v] - largest);
                         }));
    total += log_sum - logits[targets[row]];
    if (scale == Real(0)) continue;
    for (int64_t v = 0; v < vocab; ++v) {
      const Real probability = Exponential(logits[v] - log_sum);
      logits[v] = scale * (probability - (v == targets[row] ? Real(1) : Real(0)));
    }
  }
}

}  // namespace tideline::reference

#endif  // TIDELINE_TESTS_REFERENCE_LAYERS_H_
