// Rotary positions and the causal softmax of unfused attention.
#include <cmath>
#include <limits>
#include <vector>

#include "base/numerics.h"
#include "exec/ops/formats.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"
#include "exec/ops/rotary.h"

namespace tideline::ops {
namespace {

using Frequencies = Table<double, kMaxRotaryHeadSize / 2>;

// One block per position; element i is paired with element i + d/2 (Hugging Face's "rotate half"):
//   y[i] = x[i] cos - x[i + d/2] sin, y[i + d/2] = x[i + d/2] cos + x[i] sin.
template <typename T>
struct Rotary {
  static constexpr const char* kName = "rotary";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> x, Out<T, Mode> y,
                                       int64_t sequence, int64_t heads, int64_t first_position,
                                       bool inverse, const Frequencies& frequencies) {
    const int64_t half = frequencies.size();
    const double position = static_cast<double>(first_position + block.index());
    TIDELINE_BLOCK_SHARED float cosine[kMaxRotaryHeadSize / 2];
    TIDELINE_BLOCK_SHARED float sine[kMaxRotaryHeadSize / 2];
    block.Each(half, [&](int64_t i) {
      cosine[i] = Cos(position * frequencies[i]);
      sine[i] = inverse ? -Sin(position * frequencies[i]) : Sin(position * frequencies[i]);
    });
    const int64_t row_elements = heads * 2 * half;
    const int64_t batches = x.count() / (sequence * row_elements);
    block.EachRow(batches * heads, half, [&](int64_t row, int64_t i) {
      const int64_t low =
          (row / heads * sequence + block.index()) * row_elements + row % heads * 2 * half;
      const float first = x[low + i];
      const float second = x[low + half + i];
      y[low + i] = std::fma(first, cosine[i], -(second * sine[i]));
      y[low + half + i] = std::fma(second, cosine[i], first * sine[i]);
    });
  }
};

// One block per row of scores. Row s of t keys sees the first t - rows + s + 1 of them.
template <typename T>
struct CausalSoftmax {
  static constexpr const char* kName = "causal_softmax";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> scores,
                                       Out<T, Mode> probabilities, int64_t rows, int64_t keys) {
    const int64_t row = block.index() * keys;
    const int64_t visible = keys - rows + block.index() % rows + 1;
    const float largest = block.Reduce(
        visible, -std::numeric_limits<float>::infinity(),
        [](int64_t, float score) { return score; }, [](float a, float b) { return b > a ? b : a; },
        scores.From(row));
    const float sum = block.Sum(
        visible, [largest](int64_t, float score) { return Exp(score - largest); },
        scores.From(row));
    const float inverse = 1.0f / sum;
    block.Map(
        visible,
        [largest, inverse](int64_t, float& to, float score) {
          to = Exp(score - largest) * inverse;
        },
        probabilities.From(row), scores.From(row));
    block.Map(
        keys - visible, [](int64_t, float& to) { to = 0.0f; }, probabilities.From(row + visible));
  }
};

// dscores = p (dp - sum(dp p)).
template <typename T>
struct CausalSoftmaxGrad {
  static constexpr const char* kName = "causal_softmax_grad";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> dprobabilities,
                                       In<T, Mode> probabilities, Out<T, Mode> dscores,
                                       int64_t rows, int64_t keys) {
    const int64_t row = block.index() * keys;
    const int64_t visible = keys - rows + block.index() % rows + 1;
    const float dot = block.Sum(
        visible, [](int64_t, float gradient, float p) { return gradient * p; },
        dprobabilities.From(row), probabilities.From(row));
    block.Map(
        visible, [dot](int64_t, float& to, float gradient, float p) { to = p * (gradient - dot); },
        dscores.From(row), dprobabilities.From(row), probabilities.From(row));
    block.Map(
        keys - visible, [](int64_t, float& to) { to = 0.0f; }, dscores.From(row + visible));
  }
};

}  // namespace

std::vector<double> RotaryFrequencies(const RotaryScaling& scaling, int64_t head_size) {
  std::vector<double> frequencies;
  for (int64_t i = 0; i < head_size / 2; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(head_size);
    double frequency = std::pow(scaling.theta, exponent);
    if (scaling.factor != 1.0) {
      const double original = static_cast<double>(scaling.original_positions);
      const double wavelength = 2.0 * 3.141592653589793 / frequency;
      const double low = scaling.low_frequency_factor;
      const double high = scaling.high_frequency_factor;
      if (wavelength > original / low) {
        frequency /= scaling.factor;
      } else if (wavelength >= original / high) {
        const double blend = (original / wavelength - low) / (high - low);
        frequency = (1.0 - blend) * frequency / scaling.factor + blend * frequency;
      }
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

Status LaunchRotary(const OpCall& call) {
  const std::vector<int64_t>& shape = call.Shape(0);
  Frequencies frequencies;
  for (const double each : RotaryFrequencies(call.attributes().rotary, shape[3])) {
    frequencies.Push(each);
  }
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<Rotary<T>>(call.target(), shape[1], call.Read<T>(0), call.Write<T>(1), shape[1],
                             shape[2], call.At(call.attributes().position_offset),
                             call.attributes().inverse, frequencies);
  });
}

Status LaunchCausalSoftmax(const OpCall& call) {
  const std::vector<int64_t>& shape = call.Shape(0);
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<CausalSoftmax<T>>(call.target(), call.Rows(0), call.Read<T>(0), call.Write<T>(1),
                                    shape[shape.size() - 2], shape.back());
  });
}

Status LaunchCausalSoftmaxGrad(const OpCall& call) {
  const std::vector<int64_t>& shape = call.Shape(0);
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<CausalSoftmaxGrad<T>>(call.target(), call.Rows(0), call.Read<T>(0),
                                        call.Read<T>(1), call.Write<T>(2), shape[shape.size() - 2],
                                        shape.back());
  });
}

}  // namespace tideline::ops
