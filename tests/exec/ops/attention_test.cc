// Rotary positions and causal softmax against fp64 loops and finite differences.
#include <gtest/gtest.h>

#include <cmath>

#include "exec/ops/rotary.h"
#include "tests/exec/ops/op_harness.h"

namespace tideline {
namespace {

Doubles NaiveRotary(const Shape& shape, int64_t first_position, double theta, const Doubles& x) {
  Doubles y(x.size());
  const int64_t d = shape[3], half = d / 2;
  for (size_t i = 0; i < x.size(); ++i) {
    const int64_t element = static_cast<int64_t>(i) % d;
    const int64_t position = static_cast<int64_t>(i) / (shape[2] * d) % shape[1] + first_position;
    const double angle = position * std::pow(theta, -2.0 * (element % half) / d);
    const double partner = element < half ? -x[i + half] : x[i - half];
    y[i] = x[i] * std::cos(angle) + partner * std::sin(angle);
  }
  return y;
}

TEST(Rotary, MatchesLoopsAndItsInverseIsItsGradient) {
  for (const Shape& shape : {Shape{1, 1, 1, 2}, Shape{2, 5, 3, 6}, Shape{1, 37, 2, 64}}) {
    const auto x = RandomFloats(Product(shape), "x"), dy = RandomFloats(Product(shape), "dy");
    Attributes attributes;
    attributes.position_offset.base = 100;
    attributes.position_offset.per_coordinate[static_cast<int>(Axis::kTensor)] = 1000;
    OpRun forward(Op::kRotary, attributes);
    forward.Input(shape, x).Output(shape).At({0, 0, 3}).Run();
    const Function naive = [&](const Doubles& v) { return NaiveRotary(shape, 3100, 10000, v); };
    ExpectClose(forward.Values(1), naive(ToDoubles(x)), 1e-6, "rotary");
    attributes.inverse = true;
    OpRun backward(Op::kRotary, attributes);
    backward.Input(shape, dy).Output(shape).At({0, 0, 3}).Run();
    if (x.size() < 200) {
      ExpectClose(backward.Values(1), DifferenceGradient(naive, ToDoubles(x), ToDoubles(dy)), 1e-6,
                  "rotary gradient");
    } else {
      const Doubles direction = ToDoubles(RandomFloats(Product(shape), "direction"));
      EXPECT_NEAR(Dot(backward.Values(1), direction),
                  DirectionalDifference(naive, ToDoubles(x), ToDoubles(dy), direction), 1e-4);
    }
  }
}

// LLaMA 3.1: theta 500000, factor 8, low 1, high 4, 8192 original positions, head size 128. Pair i
// has wavelength 2 pi theta^(2i/128). Below 8192/4 = 2048 it stays (i = 0: 2 pi; i = 28:
// 2 pi 500000^0.4375 = 1955.8), above 8192 it is divided by 8 (i = 36: 2 pi 500000^0.5625 = 10086);
// i = 32: 2 pi 500000^0.5 = 4442.9, so blend = (8192/4442.9 - 1)/3 = 0.28128 and the frequency is
// ((1 - 0.28128)/8 + 0.28128)/707.107 = 5.2484e-4.
TEST(Rotary, RescalesLongWavelengthsAsLlama3) {
  const RotaryScaling scaling{.theta = 500000,
                              .factor = 8,
                              .low_frequency_factor = 1,
                              .high_frequency_factor = 4,
                              .original_positions = 8192};
  const auto frequencies = ops::RotaryFrequencies(scaling, 128);
  ASSERT_EQ(frequencies.size(), 64u);
  EXPECT_DOUBLE_EQ(frequencies[0], 1.0);
  EXPECT_DOUBLE_EQ(frequencies[28], std::pow(500000.0, -56.0 / 128));
  EXPECT_NEAR(frequencies[32], 5.2484e-4, 1e-8);
  EXPECT_DOUBLE_EQ(frequencies[36], std::pow(500000.0, -72.0 / 128) / 8);
  EXPECT_DOUBLE_EQ(frequencies[63], std::pow(500000.0, -126.0 / 128) / 8);
}

Doubles NaiveSoftmax(int64_t rows, int64_t keys, const Doubles& scores) {
  Doubles y(scores.size(), 0.0);
  for (int64_t row = 0; row < static_cast<int64_t>(scores.size()) / keys; ++row) {
    const int64_t visible = keys - rows + row % rows + 1;
    double sum = 0;
    for (int64_t i = 0; i < visible; ++i) sum += std::exp(scores[row * keys + i]);
    for (int64_t i = 0; i < visible; ++i) {
      y[row * keys + i] = std::exp(scores[row * keys + i]) / sum;
    }
  }
  return y;
}

TEST(CausalSoftmax, MatchesLoopsAndDifferences) {
  for (const Shape& shape : {Shape{1, 1, 1, 1}, Shape{1, 2, 3, 3}, Shape{2, 1, 5, 7},
                             Shape{1, 1, 13, 13}, Shape{1, 2, 131, 131}}) {
    const int64_t rows = shape[2], keys = shape[3];
    const auto scores = RandomFloats(Product(shape), "scores", 3.0f);
    const auto dp = RandomFloats(Product(shape), "dp");
    const Function naive = [&](const Doubles& v) { return NaiveSoftmax(rows, keys, v); };
    OpRun forward(Op::kCausalSoftmax);
    forward.Input(shape, scores).Output(shape).Run();
    ExpectClose(forward.Values(1), naive(ToDoubles(scores)), 1e-6, "softmax");
    OpRun backward(Op::kCausalSoftmaxGrad);
    backward.Input(shape, dp).Input(shape, forward.Floats(1)).Output(shape).Run();
    if (scores.size() < 400) {
      ExpectClose(backward.Values(2), DifferenceGradient(naive, ToDoubles(scores), ToDoubles(dp)),
                  1e-6, "softmax gradient");
    } else {
      const Doubles direction = ToDoubles(RandomFloats(Product(shape), "direction"));
      EXPECT_NEAR(Dot(backward.Values(2), direction),
                  DirectionalDifference(naive, ToDoubles(scores), ToDoubles(dp), direction), 1e-4);
    }
  }
}

// A shift of all scores changes nothing, however large; keys behind the query never matter.
TEST(CausalSoftmax, IsStableAndMasked) {
  OpRun run(Op::kCausalSoftmax);
  run.Input({1, 1, 2, 2}, {500.0f, NAN, -500.0f, -500.0f}).Output({1, 1, 2, 2}).Run();
  EXPECT_EQ(run.Floats(1), (std::vector<float>{1.0f, 0.0f, 0.5f, 0.5f}));
}

}  // namespace
}  // namespace tideline
