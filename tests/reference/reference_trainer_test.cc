#include "tests/reference/reference_trainer.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/rng.h"
#include "exec/data/builtin_text.h"
#include "gtest/gtest.h"
#include "tests/reference/attention.h"
#include "tests/reference/compare.h"
#include "tests/reference/test_models.h"

namespace tideline::reference {
namespace {

std::vector<DecoderConfig> Models() { return {TinyGpt(), TinyOpt(), TinyLlama()}; }

// Biases away from 0 and norms away from 1, so that no term of a gradient vanishes by accident.
void Disturb(ReferenceTrainer<double>& trainer) {
  for (const ParameterInfo& parameter : trainer.Parameters()) {
    std::vector<double>& values = trainer.MutableParameter(parameter.name);
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] += 0.1 * NormalAt(99, "disturb." + parameter.name, i);
    }
  }
}

// (L(w + h) - L(w - h)) / 2h has an error of order h^2 in fp64; each parameter tensor is sampled.
TEST(ReferenceTrainer, GradientsAreTheDerivativesOfTheLoss) {
  for (const DecoderConfig& config : Models()) {
    ReferenceTrainer<double> trainer(config, {.sequence = 7, .global_batch = 2});
    Disturb(trainer);
    const Batch batch = ReferenceBatch(BuiltinText(), 7, 2, 0);
    trainer.ComputeGradients(batch);
    for (const ParameterInfo& parameter : trainer.Parameters()) {
      const std::vector<double> gradient = trainer.Gradient(parameter.name);
      double largest = 0;
      for (const double value : gradient) largest = std::max(largest, std::fabs(value));
      std::vector<double>& values = trainer.MutableParameter(parameter.name);
      // Elements of large and of small gradient, and rows that the batch never touches.
      size_t at = 0;
      for (size_t i = 0; i < gradient.size(); ++i) {
        if (std::fabs(gradient[i]) > std::fabs(gradient[at])) at = i;
      }
      const size_t stride = gradient.size() / 5 + 1;
      for (int sample = 0; sample < 6; ++sample) {
        const double kept = values[at];
        const double h = 1e-5;
        values[at] = kept + h;
        const double above = trainer.Loss(batch);
        values[at] = kept - h;
        const double below = trainer.Loss(batch);
        values[at] = kept;
        EXPECT_NEAR(gradient[at], (above - below) / (2 * h), 1e-6 * largest + 1e-9)
            << config.name << " " << parameter.name << " element " << at;
        at = (at + stride) % gradient.size();
      }
    }
  }
}

// Every tensor gets a gradient, except that OPT's separate key biases have an exact gradient of 0:
// they shift all scores of a query alike.
TEST(ReferenceTrainer, OnlyKeyBiasesHaveNoGradient) {
  for (const DecoderConfig& config : Models()) {
    ReferenceTrainer<double> trainer(config, {.sequence = 7, .global_batch = 2});
    Disturb(trainer);
    trainer.ComputeGradients(ReferenceBatch(BuiltinText(), 7, 2, 0));
    for (const ParameterInfo& parameter : trainer.Parameters()) {
      double largest = 0;
      for (const double value : trainer.Gradient(parameter.name)) {
        largest = std::max(largest, std::fabs(value));
      }
      if (parameter.name.find("attention.k.bias") != std::string::npos) {
        EXPECT_LT(largest, 1e-15) << config.name << " " << parameter.name;
      } else {
        EXPECT_GT(largest, 1e-5) << config.name << " " << parameter.name;
      }
    }
  }
}

TEST(ReferenceTrainer, SinglePrecisionIsCloseToItsTwin) {
  for (const DecoderConfig& config : Models()) {
    const ReferenceOptions options{.sequence = 16, .global_batch = 4, .micro_batch = 2};
    ReferenceTrainer<float> single(config, options);
    ReferenceTrainer<double> twin(config, options);
    const Batch batch = ReferenceBatch(BuiltinText(), 16, 4, 0);
    EXPECT_NEAR(single.ComputeGradients(batch), twin.ComputeGradients(batch), 2e-6);
    for (const ParameterInfo& parameter : single.Parameters()) {
      const TensorDifference difference =
          CompareTensors(twin.Gradient(parameter.name), single.Gradient(parameter.name));
      EXPECT_TRUE(difference.within) << config.name << " " << Describe(parameter.name, difference);
    }
    for (int step = 0; step < 3; ++step) {
      const Batch next = ReferenceBatch(BuiltinText(), 16, 4, step);
      EXPECT_NEAR(single.Step(next), twin.Step(next), 1e-5);
    }
  }
}

// The untrained model is uniform over its vocabulary to within the small initial values: log 257.
TEST(ReferenceTrainer, LossStartsAtTheUniformOneAndFalls) {
  for (const DecoderConfig& config : Models()) {
    ReferenceTrainer<float> trainer(config, {.sequence = 32, .global_batch = 4});
    std::vector<double> losses;
    for (int step = 0; step < 40; ++step) {
      losses.push_back(trainer.Step(ReferenceBatch(BuiltinText(), 32, 4, step)));
    }
    EXPECT_NEAR(losses[0], std::log(257.0), 0.05) << config.name;
    EXPECT_LT(losses.back(), losses[0] - 0.8) << config.name;
  }
}

// Rows of a batch are independent, so the split into micro-batches continues the same chains and
// changes no bit of a product's gradient; replicas are summed apart, which may.
TEST(ReferenceTrainer, MicroBatchesContinueTheChainsAndReplicasAgreeWithinRounding) {
  const Batch batch = ReferenceBatch(BuiltinText(), 8, 4, 0);
  for (const DecoderConfig& config : Models()) {
    ReferenceTrainer<float> whole(config, {.sequence = 8, .global_batch = 4});
    ReferenceTrainer<float> split(config, {.sequence = 8, .global_batch = 4, .micro_batch = 1});
    ReferenceTrainer<float> replicas(config, {.sequence = 8, .global_batch = 4, .replicas = 2});
    whole.ComputeGradients(batch);
    split.ComputeGradients(batch);
    replicas.ComputeGradients(batch);
    for (const ParameterInfo& parameter : whole.Parameters()) {
      const std::vector<float>& expected = whole.Gradient(parameter.name);
      if (parameter.decay) {
        EXPECT_EQ(expected, split.Gradient(parameter.name)) << parameter.name;
      }
      const TensorDifference difference =
          CompareTensors(expected, replicas.Gradient(parameter.name));
      EXPECT_TRUE(difference.within) << Describe(parameter.name, difference);
    }
  }
}

// One Adam step by hand: at t = 1 both corrections cancel, so with g = 0.5, w = 2, decay 0.01:
// w' = 2 - 0.001 (0.5 / (0.5 + 1e-8) + 0.01 * 2) = 2 - 0.001 * 1.02 (to 1e-10).
TEST(ReferenceTrainer, FirstUpdateIsSignedLearningRatePlusDecay) {
  const DecoderConfig config = TinyGpt();
  ReferenceTrainer<double> trainer(config, {.sequence = 8, .global_batch = 1});
  const Batch batch = ReferenceBatch(BuiltinText(), 8, 1, 0);
  std::vector<std::vector<double>> before;
  for (const ParameterInfo& parameter : trainer.Parameters()) {
    before.push_back(trainer.Parameter(parameter.name));
  }
  trainer.Step(batch);
  size_t index = 0;
  for (const ParameterInfo& parameter : trainer.Parameters()) {
    const std::vector<double>& old = before[index++];
    for (size_t i = 0; i < old.size(); ++i) {
      const double gradient = trainer.Gradient(parameter.name)[i];
      if (std::fabs(gradient) < 1e-4 && gradient != 0) continue;
      const double direction = gradient == 0 ? 0.0 : std::copysign(1.0, gradient);
      const double decay = parameter.decay ? 0.01 * old[i] : 0.0;
      EXPECT_NEAR(trainer.Parameter(parameter.name)[i], old[i] - 0.001 * (direction + decay), 2e-7)
          << parameter.name;
    }
  }
}

// 10 bytes, sequence 3: (10 - 1) / 3 = 3 sequences, starting at 0, 3, 6. With batch 2, step 1 has
// samples 2 and 3: sequences 2 and 0.
TEST(ReferenceBatch, TakesSequencesInOrderAndWraps) {
  const Batch batch = ReferenceBatch("abcdefghij", 3, 2, 1);
  EXPECT_EQ(batch.ids, (std::vector<int32_t>{'g', 'h', 'i', 'a', 'b', 'c'}));
  EXPECT_EQ(batch.targets, (std::vector<int32_t>{'h', 'i', 'j', 'b', 'c', 'd'}));
}

// Meta's LLaMA 3.1: theta 500000, factor 8, low 1, high 4, 8192 positions, head size 128. Pair 0
// turns by 1 radian: wave length 2 pi < 2048, kept. Pair 63 has wave length 2 pi 500000^(63/64) =
// 2.56 million > 8192: divided by 8.
TEST(RotaryFrequency, KeepsShortWavesAndStretchesLongOnes) {
  RotaryScaling scaling;
  scaling.theta = 500000.0;
  scaling.factor = 8.0;
  EXPECT_DOUBLE_EQ(RotaryFrequency(scaling, 0, 128), 1.0);
  EXPECT_DOUBLE_EQ(RotaryFrequency(scaling, 63, 128), std::pow(500000.0, -126.0 / 128.0) / 8.0);
  // Between them the frequency never rises with the pair.
  for (int64_t pair = 1; pair < 64; ++pair) {
    EXPECT_LT(RotaryFrequency(scaling, pair, 128), RotaryFrequency(scaling, pair - 1, 128));
  }
}

TEST(CompareTensors, TellsBitsToleranceAndNonsenseApart) {
  const std::vector<float> expected = {1.0f, -2.0f, 0.0f};
  EXPECT_TRUE(CompareTensors(expected, expected).bitwise);
  const std::vector<float> near = {1.0f + 1e-5f, -2.0f, 0.0f};
  EXPECT_FALSE(CompareTensors(expected, near).bitwise);
  EXPECT_TRUE(CompareTensors(expected, near).within);  // bar: 1e-5 * 2
  const std::vector<float> far = {1.0f + 3e-5f, -2.0f, 0.0f};
  EXPECT_FALSE(CompareTensors(expected, far).within);
  EXPECT_EQ(CompareTensors(expected, far).worst, 0u);
  const std::vector<float> broken = {1.0f, std::nanf(""), 0.0f};
  EXPECT_FALSE(CompareTensors(expected, broken).within);
  EXPECT_FALSE(CompareTensors(expected, std::vector<float>{1.0f}).within);
  const std::vector<float> zeros(3, 0.0f);
  EXPECT_TRUE(CompareTensors(zeros, std::vector<float>{5e-9f, 0.0f, 0.0f}).within);
  EXPECT_FALSE(CompareTensors(zeros, std::vector<float>{5e-7f, 0.0f, 0.0f}).within);
}

}  // namespace
}  // namespace tideline::reference
