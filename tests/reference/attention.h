// Causal self-attention with rotary positions and grouped keys, and its derivative, from the
// mathematics.
#ifndef TIDELINE_TESTS_REFERENCE_ATTENTION_H_
#define TIDELINE_TESTS_REFERENCE_ATTENTION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <vector>

#include "models/ir/attributes.h"
#include "tests/reference/arithmetic.h"
#include "tests/reference/layers.h"

namespace tideline::reference {

// q: [batch, sequence, heads, d]; k, v: [batch, sequence, kv_heads, d]. Query head a reads key head
// a / (heads / kv_heads).
struct AttentionShape {
  int64_t batch = 0;
  int64_t sequence = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
};

// Angular frequency of pair i: theta^(-2i/d). LLaMA 3 keeps short waves, divides the frequency of
// waves longer than original/low by `factor`, and blends between (Hugging Face, rope_type llama3).
inline double RotaryFrequency(const RotaryScaling& scaling, int64_t pair, int64_t head_dim) {
  const double frequency =
      std::pow(scaling.theta, -2.0 * static_cast<double>(pair) / static_cast<double>(head_dim));
  if (scaling.factor == 1.0) return frequency;
  const double waves =
      static_cast<double>(scaling.original_positions) * frequency / (2.0 * std::numbers::pi);
  if (waves > scaling.high_frequency_factor) return frequency;
  if (waves < scaling.low_frequency_factor) return frequency / scaling.factor;
  const double blend = (waves - scaling.low_frequency_factor) /
                       (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return (1.0 - blend) * frequency / scaling.factor + blend * frequency;
}

// Turns pair (x[i], x[i + d/2]) by position * frequency(i), in place; backwards with `inverse`,
// which is the derivative as well, since the matrix is orthogonal.
template <class Real>
void Rotate(const AttentionShape& shape, int64_t heads, const RotaryScaling& scaling, bool inverse,
            Real* x) {
  const int64_t half = shape.head_dim / 2;
  for (int64_t row = 0; row < shape.batch * shape.sequence; ++row) {
    const auto position = static_cast<double>(row % shape.sequence);
    for (int64_t i = 0; i < half; ++i) {
      Real cosine;
      Real sine;
      CosineSine(position * RotaryFrequency(scaling, i, shape.head_dim), cosine, sine);
      if (inverse) sine = -sine;
      for (int64_t head = 0; head < heads; ++head) {
        Real* values = x + (row * heads + head) * shape.head_dim;
        const Real first = values[i];
        const Real second = values[i + half];
        values[i] = MultiplyAdd(first, cosine, -(second * sine));
        values[i + half] = MultiplyAdd(second, cosine, first * sine);
      }
    }
  }
}

// p[s,t] = softmax over t <= s of (q_s . k_t / sqrt(d)), 0 beyond; y_s = sum_t p[s,t] v_t.
// p: [batch, heads, sequence, sequence].
template <class Real>
void AttentionForward(const AttentionShape& shape, const Real* q, const Real* k, const Real* v,
                      Real* p, Real* y) {
  const int64_t sequence = shape.sequence;
  const int64_t d = shape.head_dim;
  const Real scale = Real(1.0 / std::sqrt(static_cast<double>(d)));
  std::fill(p, p + shape.batch * shape.heads * sequence * sequence, Real(0));
  std::fill(y, y + shape.batch * sequence * shape.heads * d, Real(0));
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      const int64_t key_head = head / (shape.heads / shape.kv_heads);
      for (int64_t s = 0; s < sequence; ++s) {
        const Real* query = q + ((b * sequence + s) * shape.heads + head) * d;
        Real* probabilities = p + ((b * shape.heads + head) * sequence + s) * sequence;
        for (int64_t t = 0; t <= s; ++t) {
          const Real* key = k + ((b * sequence + t) * shape.kv_heads + key_head) * d;
          Real sum = 0;
          for (int64_t i = 0; i < d; ++i) sum = MultiplyAdd(query[i], key[i], sum);
          probabilities[t] = scale * sum;
        }
        const Real largest = *std::max_element(probabilities, probabilities + s + 1);
        for (int64_t t = 0; t <= s; ++t) {
          probabilities[t] = Exponential(probabilities[t] - largest);
        }
        const Real inverse =
            Real(1) / TreeSum<Real>(s + 1, [&](int64_t t) { return probabilities[t]; });
        Real* out = y + ((b * sequence + s) * shape.heads + head) * d;
        for (int64_t t = 0; t <= s; ++t) {
          probabilities[t] *= inverse;
          const Real* value = v + ((b * sequence + t) * shape.kv_heads + key_head) * d;
          for (int64_t i = 0; i < d; ++i) out[i] = MultiplyAdd(probabilities[t], value[i], out[i]);
        }
      }
    }
  }
}

// dv_t = sum_s p[s,t] dy_s, added to dv.
template <class Real>
void ValueGradient(const AttentionShape& shape, const Real* dy, const Real* p, Real* dv) {
  const int64_t sequence = shape.sequence;
  const int64_t d = shape.head_dim;
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t s = 0; s < sequence; ++s) {
      for (int64_t head = 0; head < shape.heads; ++head) {
        const int64_t key_head = head / (shape.heads / shape.kv_heads);
        const Real* gradient = dy + ((b * sequence + s) * shape.heads + head) * d;
        const Real* probabilities = p + ((b * shape.heads + head) * sequence + s) * sequence;
        for (int64_t t = 0; t <= s; ++t) {
          Real* out = dv + ((b * sequence + t) * shape.kv_heads + key_head) * d;
          for (int64_t i = 0; i < d; ++i)
            out[i] = MultiplyAdd(probabilities[t], gradient[i], out[i]);
        }
      }
    }
  }
}

// dv as above; dp[s,t] = dy_s . v_t; dz[s,t] = p[s,t] (dp[s,t] - sum_u dp[s,u]
// p[s,u]); dq_s = sum_t dz[s,t] k_t / sqrt(d); dk_t = sum_s dz[s,t] q_s / sqrt(d). dq, dk and dv
// are overwritten. Query heads that share a key head are summed outside s for dk, inside s for dv.
template <class Real>
void AttentionBackward(const AttentionShape& shape, const Real* dy, const Real* q, const Real* k,
                       const Real* v, const Real* p, Real* dq, Real* dk, Real* dv) {
  const int64_t sequence = shape.sequence;
  const int64_t d = shape.head_dim;
  const Real scale = Real(1.0 / std::sqrt(static_cast<double>(d)));
  const int64_t key_elements = shape.batch * sequence * shape.kv_heads * d;
  std::fill(dq, dq + shape.batch * sequence * shape.heads * d, Real(0));
  std::fill(dk, dk + key_elements, Real(0));
  std::fill(dv, dv + key_elements, Real(0));
  ValueGradient(shape, dy, p, dv);
  std::vector<Real> dp(sequence);
  for (int64_t b = 0; b < shape.batch; ++b) {
    for (int64_t head = 0; head < shape.heads; ++head) {
      const int64_t key_head = head / (shape.heads / shape.kv_heads);
      for (int64_t s = 0; s < sequence; ++s) {
        const int64_t query_at = ((b * sequence + s) * shape.heads + head) * d;
        const Real* probabilities = p + ((b * shape.heads + head) * sequence + s) * sequence;
        for (int64_t t = 0; t <= s; ++t) {
          const int64_t key_at = ((b * sequence + t) * shape.kv_heads + key_head) * d;
          Real sum = 0;
          for (int64_t i = 0; i < d; ++i) sum = MultiplyAdd(dy[query_at + i], v[key_at + i], sum);
          dp[t] = sum;
        }
        const Real total =
            TreeSum<Real>(s + 1, [&](int64_t t) { return dp[t] * probabilities[t]; });
        for (int64_t t = 0; t <= s; ++t) {
          const int64_t key_at = ((b * sequence + t) * shape.kv_heads + key_head) * d;
          const Real gradient = probabilities[t] * (dp[t] - total);
          for (int64_t i = 0; i < d; ++i) {
            dq[query_at + i] = MultiplyAdd(gradient, k[key_at + i], dq[query_at + i]);
            dk[key_at + i] = MultiplyAdd(gradient, q[query_at + i], dk[key_at + i]);
          }
        }
      }
    }
  }
  for (int64_t i = 0; i < shape.batch * sequence * shape.heads * d; ++i) dq[i] *= scale;
  for (int64_t i = 0; i < key_elements; ++i) dk[i] *= scale;
}

}  // namespace tideline::reference

#endif  // TIDELINE_TESTS_REFERENCE_ATTENTION_H_
