// Rotary positions and the causal softmax of unfused attention.
#include <array>
#include <cmath>
#include <vector>

#include "base/numerics.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"
#include "exec/ops/rotary.h"

namespace tideline::ops {
namespace {

// One block per position; element i is paired with element i + d/2 (Hugging Face's "rotate half"):
//   y[i] = x[i] cos - x[i + d/2] sin, y[i + d/2] = x[i + d/2] cos + x[i] sin.
struct Rotary {
  static constexpr const char* kName = "rotary";
  template <typename Mode>
  static void Run(const Block& block, In<float, Mode> x, Out<float, Mode> y, int64_t sequence,
                  int64_t heads, int64_t first_position, bool inverse,
                  const std::vector<double>& frequencies) {
    const int64_t half = static_cast<int64_t>(frequencies.size());
    const double position = static_cast<double>(first_position + block.index());
    std::array<float, kMaxRotaryHeadSize / 2> cosine, sine;
    block.Each(half, [&](int64_t i) {
      cosine[i] = Cos(position * frequencies[i]);
      sine[i] = inverse ? -Sin(position * frequencies[i]) : Sin(position * frequencies[i]);
    });
    const int64_t row_elements = heads * 2 * half;
    const int64_t batches = x.count() / (sequence * row_elements);
    for (int64_t batch = 0; batch < batches; ++batch) {
      for (int64_t head = 0; head < heads; ++head) {
        const int64_t low = (batch * sequence + block.index()) * row_elements + head * 2 * half;
        const int64_t high = low + half;
        block.Each(half, [&](int64_t i) {
          const float first = x[low + i];
          const float second = x[high + i];
          y[low + i] = std::fma(first, cosine[i], -(second * sine[i]));
          y[high + i] = std::fma(second, cosine[i], first * sine[i]);
        });
      }
    }
  }
};

// One block per row of scores. Row s of t keys sees the first t - rows + s + 1 of them.
struct CausalSoftmax {
  static constexpr const char* kName = "causal_softmax";
  template <typename Mode>
  static void Run(const Block& block, In<float, Mode> scores, Out<float, Mode> probabilities,
                  int64_t rows, int64_t keys) {
    const int64_t row = block.index() * keys;
    const int64_t visible = keys - rows + block.index() % rows + 1;
    const float largest = block.Reduce(
        visible, -std::numeric_limits<float>::infinity(),
        [&](int64_t i) -> float { return scores[row + i]; },
        [](float a, float b) { return b > a ? b : a; });
    block.Each(visible,
               [&](int64_t i) { probabilities[row + i] = Exp(scores[row + i] - largest); });
    const float sum =
        block.Sum(visible, [&](int64_t i) -> float { return probabilities[row + i]; });
    const float inverse = 1.0f / sum;
    block.Each(visible,
               [&](int64_t i) { probabilities[row + i] = probabilities[row + i] * inverse; });
    block.Each(keys - visible, [&](int64_t i) { probabilities[row + visible + i] = 0.0f; });
  }
};

// dscores = p (dp - sum(dp p)).
struct CausalSoftmaxGrad {
  static constexpr const char* kName = "causal_softmax_grad";
  template <typename Mode>
  static void Run(const Block& block, In<float, Mode> dprobabilities, In<float, Mode> probabilities,
                  Out<float, Mode> dscores, int64_t rows, int64_t keys) {
    const int64_t row = block.index() * keys;
    const int64_t visible = keys - rows + block.index() % rows + 1;
    const float dot = block.Sum(
        visible, [&](int64_t i) { return dprobabilities[row + i] * probabilities[row + i]; });
    block.Each(visible, [&](int64_t i) {
      dscores[row + i] = probabilities[row + i] * (dprobabilities[row + i] - dot);
    });
    block.Each(keys - visible, [&](int64_t i) { dscores[row + visible + i] = 0.0f; });
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
  return Launch<Rotary>(call.target(), shape[1], call.Read(0), call.Write(1), shape[1], shape[2],
                        call.At(call.attributes().position_offset), call.attributes().inverse,
                        RotaryFrequencies(call.attributes().rotary, shape[3]));
}

Status LaunchCausalSoftmax(const OpCall& call) {
  const std::vector<int64_t>& shape = call.Shape(0);
  return Launch<CausalSoftmax>(call.target(), call.Rows(0), call.Read(0), call.Write(1),
                               shape[shape.size() - 2], shape.back());
}

Status LaunchCausalSoftmaxGrad(const OpCall& call) {
  const std::vector<int64_t>& shape = call.Shape(0);
  return Launch<CausalSoftmaxGrad>(call.target(), call.Rows(0), call.Read(0), call.Read(1),
                                   call.Write(2), shape[shape.size() - 2], shape.back());
}

}  // namespace tideline::ops
