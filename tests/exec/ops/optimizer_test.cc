// AdamW against the paper's formulas in fp64, spans, shards and 16-bit formats; casts.
#include <gtest/gtest.h>

#include <cmath>

#include "exec/comm/element.h"
#include "tests/exec/ops/op_harness.h"

namespace tideline {
namespace {

struct State {
  Doubles parameter, momentum, variance;
};

// Loshchilov & Hutter, algorithm 2, schedule multiplier 1, decay times the learning rate as
// PyTorch.
void NaiveStep(State& state, const Doubles& gradient, const std::vector<bool>& decay, int64_t t) {
  const double lr = double{1e-3f}, beta1 = double{0.9f}, beta2 = double{0.999f};
  for (size_t i = 0; i < gradient.size(); ++i) {
    state.momentum[i] = beta1 * state.momentum[i] + (1 - beta1) * gradient[i];
    state.variance[i] = beta2 * state.variance[i] + (1 - beta2) * gradient[i] * gradient[i];
    const double m = state.momentum[i] / (1 - std::pow(beta1, t));
    const double v = state.variance[i] / (1 - std::pow(beta2, t));
    const double update = m / (std::sqrt(v) + double{1e-8f});
    state.parameter[i] -= lr * (update + (decay[i] ? double{0.01f} : 0) * state.parameter[i]);
  }
}

TEST(AdamW, FollowsTheFormulasOverSteps) {
  for (const int64_t count : {1, 37, 4099}) {
    Attributes attributes;
    attributes.spans = {{.begin = 0, .end = count / 2, .decay = true},
                        {.begin = count / 2, .end = count, .decay = false}};
    const Shape shape{count};
    auto parameter = RandomFloats(count, "parameter");
    std::vector<float> momentum(count, 0.0f), variance(count, 0.0f);
    State state{ToDoubles(parameter), Doubles(count, 0.0), Doubles(count, 0.0)};
    std::vector<bool> decay(count, false);
    for (int64_t i = 0; i < count / 2; ++i) decay[i] = true;
    for (int64_t step = 0; step < 4; ++step) {
      const auto gradient = RandomFloats(count, "gradient" + std::to_string(step));
      OpRun run(Op::kAdamW, attributes);
      run.Input(shape, gradient).InOut(shape, parameter).InOut(shape, momentum);
      run.InOut(shape, variance).Step(step).Run();
      parameter = run.Floats(1);
      momentum = run.Floats(2);
      variance = run.Floats(3);
      NaiveStep(state, ToDoubles(gradient), decay, step + 1);
      ExpectClose(run.Values(1), state.parameter, 1e-6, "parameter");
      ExpectClose(run.Values(2), state.momentum, 1e-6, "momentum");
      ExpectClose(run.Values(3), state.variance, 1e-6, "variance");
    }
  }
}

// At t = 1 both corrections cancel: the update is lr * sign(g), decay apart. Here lr = 0.5,
// decay 0.25, g = -4: p = 2 * (1 - 0.5 * 0.25) + 0.5 = 2.25, and 2 + 0.5 = 2.5 without decay.
TEST(AdamW, FirstStepByHand) {
  Attributes attributes;
  attributes.adam.learning_rate = 0.5f;
  attributes.adam.decay = 0.25f;
  attributes.spans = {{.begin = 1, .end = 2, .decay = true}};
  OpRun run(Op::kAdamW, attributes);
  run.Input({3}, {-4, -4, 0}).InOut({3}, {2, 2, 2}).InOut({3}, {0, 0, 0}).InOut({3}, {0, 0, 0});
  run.Run();
  EXPECT_NEAR(run.Floats(1)[0], 2.5, 1e-6);
  EXPECT_NEAR(run.Floats(1)[1], 2.25, 1e-6);
  EXPECT_EQ(run.Floats(1)[2], 2.0f);  // no gradient, outside every span
}

// The step's rate is in the update and in the decay. Of a warm-up over 4 steps to 0.5, step 1 has
// rate 0.25; with momentum and variance of a constant gradient g = -4 (m = g (1 - 0.9^t), v = g^2
// (1 - 0.999^t)) the update is rate * sign(g): 2 * (1 - 0.25 * 0.25) + 0.25 = 2.125.
TEST(AdamW, FollowsTheScheduleByHand) {
  Attributes attributes;
  attributes.adam.learning_rate = 0.5f;
  attributes.adam.decay = 0.25f;
  attributes.adam.warmup_steps = 4;
  attributes.spans = {{.begin = 0, .end = 1, .decay = true}};
  std::vector<float> momentum{-4 * 0.1f}, variance{16 * 0.001f};  // after step 0
  OpRun run(Op::kAdamW, attributes);
  run.Input({1}, {-4}).InOut({1}, {2}).InOut({1}, momentum).InOut({1}, variance).Step(1).Run();
  EXPECT_NEAR(run.Floats(1)[0], 2.125, 1e-5);
  // A schedule that has ended at 0 changes nothing any more.
  attributes.adam.schedule = RateSchedule::kCosine;
  attributes.adam.decay_steps = 9;
  OpRun ended(Op::kAdamW, attributes);
  ended.Input({1}, {-4}).InOut({1}, {2}).InOut({1}, momentum).InOut({1}, variance).Step(9).Run();
  EXPECT_EQ(ended.Floats(1)[0], 2.0f);
}

// Three shards of a bucket, cut across its spans, give the bits of the whole bucket.
TEST(AdamW, ShardsHaveTheBitsOfTheBucket) {
  constexpr int64_t kCount = 99, kShard = 33;
  Attributes attributes;
  attributes.spans = {{.begin = 0, .end = 20, .decay = true},
                      {.begin = 20, .end = 41, .decay = false},
                      {.begin = 50, .end = 90, .decay = true}};
  const auto gradient = RandomFloats(kCount, "g"), parameter = RandomFloats(kCount, "p");
  const auto momentum = RandomFloats(kCount, "m"), variance = RandomFloats(kCount, "v");
  std::vector<float> positive = variance;
  for (float& value : positive) value = std::fabs(value);
  OpRun whole(Op::kAdamW, attributes);
  whole.Input({kCount}, gradient).InOut({kCount}, parameter).InOut({kCount}, momentum);
  whole.InOut({kCount}, positive).Step(5).Run();
  attributes.element_offset.per_coordinate[static_cast<int>(Axis::kData)] = kShard;
  for (int32_t rank = 0; rank < 3; ++rank) {
    const auto part = [rank](const std::vector<float>& all) {
      return std::vector<float>(all.begin() + rank * kShard, all.begin() + (rank + 1) * kShard);
    };
    OpRun shard(Op::kAdamW, attributes);
    shard.Input({kShard}, part(gradient)).InOut({kShard}, part(parameter));
    shard.InOut({kShard}, part(momentum)).InOut({kShard}, part(positive));
    shard.At({rank, 0, 0}).Step(5).Run();
    EXPECT_EQ(shard.Floats(1), part(whole.Floats(1)));
    EXPECT_EQ(shard.Floats(3), part(whole.Floats(3)));
  }
}

// More segments than one launch takes: 700 spans of three elements, every other one decayed, with
// gaps between. Without gradients and moments an element only decays: p (1 - 0.5 * 0.25).
TEST(AdamW, TakesAnyNumberOfSpans) {
  constexpr int64_t kSpans = 700, kCount = kSpans * 4;
  Attributes attributes;
  attributes.adam.learning_rate = 0.5f;
  attributes.adam.decay = 0.25f;
  for (int64_t span = 0; span < kSpans; ++span) {
    attributes.spans.push_back({.begin = span * 4, .end = span * 4 + 3, .decay = span % 2 == 0});
  }
  const std::vector<float> zeros(kCount, 0.0f), parameter = RandomFloats(kCount, "p");
  OpRun run(Op::kAdamW, attributes);
  run.Input({kCount}, zeros).InOut({kCount}, parameter).InOut({kCount}, zeros);
  run.InOut({kCount}, zeros).Run();
  const std::vector<float> after = run.Floats(1);
  for (int64_t i = 0; i < kCount; ++i) {
    const bool decays = i / 4 % 2 == 0 && i % 4 < 3;
    EXPECT_EQ(after[i], decays ? parameter[i] * 0.875f : parameter[i]) << i;
  }
}

TEST(AdamW, MasterWeightsAreRoundedIntoTheParameter) {
  constexpr int64_t kCount = 37;
  const auto gradient = RandomFloats(kCount, "g"), master = RandomFloats(kCount, "p");
  const std::vector<float> zero(kCount, 0.0f);
  OpRun plain(Op::kAdamW);
  plain.Input({kCount}, gradient).InOut({kCount}, master).InOut({kCount}, zero);
  plain.InOut({kCount}, zero).Run();
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    OpRun run(Op::kAdamW);
    run.Input({kCount}, gradient).Output({kCount}, dtype).InOut({kCount}, master);
    run.InOut({kCount}, zero).InOut({kCount}, zero).Run();
    EXPECT_EQ(run.Floats(2), plain.Floats(1));
    for (int64_t i = 0; i < kCount; ++i) {
      const float exact = plain.Floats(1)[i];
      EXPECT_EQ(run.Halves(1)[i], dtype == DType::kBF16 ? FloatToBF16(exact) : FloatToF16(exact));
    }
  }
  // A 16-bit gradient is what it rounds to.
  std::vector<uint16_t> bits;
  std::vector<float> rounded;
  for (const float value : gradient) {
    bits.push_back(FloatToBF16(value));
    rounded.push_back(BF16ToFloat(bits.back()));
  }
  OpRun short_gradient(Op::kAdamW), long_gradient(Op::kAdamW);
  short_gradient.Bits({kCount}, DType::kBF16, bits);
  long_gradient.Input({kCount}, rounded);
  for (OpRun* run : {&short_gradient, &long_gradient}) {
    run->InOut({kCount}, master).InOut({kCount}, zero).InOut({kCount}, zero).Run();
  }
  EXPECT_EQ(short_gradient.Floats(1), long_gradient.Floats(1));
}

// 1 + 2^-8 is halfway between bf16's 1 and 1 + 2^-7: ties go to even, that is 1; 3 * 2^-8 is
// halfway above and goes up to 1 + 2^-6. fp16 keeps both.
TEST(Cast, RoundsToNearestEven) {
  OpRun bf16(Op::kCast), fp16(Op::kCast);
  const std::vector<float> values{1.0f + 0x1p-8f, 1.0f + 3 * 0x1p-8f, -65520.0f, 1e-8f};
  bf16.Input({4}, values).Output({4}, DType::kBF16).Run();
  fp16.Input({4}, values).Output({4}, DType::kF16).Run();
  EXPECT_EQ(bf16.Halves(1)[0], 0x3f80);
  EXPECT_EQ(bf16.Halves(1)[1], 0x3f82);
  EXPECT_EQ(fp16.Halves(1), (std::vector<uint16_t>{0x3c04, 0x3c0c, 0xfc00, 0}));
  OpRun back(Op::kCast), across(Op::kCast);
  back.Bits({4}, DType::kF16, fp16.Halves(1)).Output({4}).Run();
  EXPECT_EQ(back.Floats(1), (std::vector<float>{values[0], values[1], -INFINITY, 0.0f}));
  across.Bits({4}, DType::kF16, fp16.Halves(1)).Output({4}, DType::kBF16).Run();
  EXPECT_EQ(across.Halves(1)[0], 0x3f80);
}

}  // namespace
}  // namespace tideline
