// Batch norm against fp64 loops; gradients against finite differences of the loops; parts of a
// batch against the whole.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/exec/ops/op_harness.h"

namespace tideline {
namespace {

constexpr float kEpsilon = 1e-5f;

struct Size {
  int64_t n, c, h, w;
};
const Size kSizes[] = {{2, 1, 1, 1}, {3, 2, 1, 5}, {2, 3, 7, 5}, {1, 4, 8, 8}, {5, 1, 13, 1}};

Doubles Naive(const Size& size, const Doubles& x, const Doubles& gamma, const Doubles& beta) {
  Doubles y(x.size());
  const int64_t plane = size.h * size.w;
  const double count = static_cast<double>(size.n * plane);
  for (int64_t c = 0; c < size.c; ++c) {
    double mean = 0, square = 0;
    const auto each = [&](const auto& body) {
      for (int64_t n = 0; n < size.n; ++n) {
        for (int64_t i = 0; i < plane; ++i) body((n * size.c + c) * plane + i);
      }
    };
    each([&](int64_t i) { mean += x[i] / count; });
    each([&](int64_t i) { square += (x[i] - mean) * (x[i] - mean) / count; });
    each([&](int64_t i) {
      y[i] = (x[i] - mean) / std::sqrt(square + double{kEpsilon}) * gamma[c] + beta[c];
    });
  }
  return y;
}

class NormCase {
 public:
  explicit NormCase(const Size& size)
      : size_(size),
        shape_{size.n, size.c, size.h, size.w},
        channels_{size.c},
        x_(RandomFloats(Product(shape_), "x")),
        dy_(RandomFloats(Product(shape_), "dy")),
        gamma_(RandomFloats(size.c, "gamma")),
        beta_(RandomFloats(size.c, "beta")) {
    for (float& value : x_) value = 1.5f * value + 3.0f;  // a mean far from zero
  }

  std::vector<float> Moments() const {
    OpRun run(Op::kBatchMoments);
    return run.Input(shape_, x_).Output({1, 3, size_.c}).Run().Floats(1);
  }

  // y, mean and rstd from the moments of so many parts.
  OpRun Forward(const std::vector<float>& moments, int64_t parts) const {
    Attributes attributes;
    attributes.epsilon = kEpsilon;
    OpRun run(Op::kBatchNorm, attributes);
    run.Input(shape_, x_).Input({parts, 3, size_.c}, moments);
    run.Input(channels_, gamma_).Input(channels_, beta_);
    run.Output(shape_).Output(channels_).Output(channels_).Run();
    return run;
  }

  // dx, and the sums it came from.
  void Backward(const std::vector<float>& mean, const std::vector<float>& rstd) {
    OpRun sums(Op::kBatchNormSums);
    sums.Input(shape_, dy_).Input(shape_, x_).Input(channels_, mean).Input(channels_, rstd);
    sums_ = sums.Output({3, size_.c}).Run().Floats(4);
    OpRun run(Op::kBatchNormGrad);
    run.Input(shape_, dy_).Input(shape_, x_).Input(channels_, gamma_);
    run.Input(channels_, mean).Input(channels_, rstd).Input({3, size_.c}, sums_);
    dx_ = run.Output(shape_).Run().Floats(6);
  }

  Size size_;
  Shape shape_, channels_;
  std::vector<float> x_, dy_, gamma_, beta_, sums_, dx_;
};

TEST(BatchNorm, ForwardAndGradientsOfEveryElement) {
  for (const Size& size : kSizes) {
    NormCase test(size);
    OpRun forward = test.Forward(test.Moments(), 1);
    const Doubles x = ToDoubles(test.x_), dy = ToDoubles(test.dy_);
    const Doubles gamma = ToDoubles(test.gamma_), beta = ToDoubles(test.beta_);
    ExpectClose(forward.Values(4), Naive(size, x, gamma, beta), 1e-5, "y");
    test.Backward(forward.Floats(5), forward.Floats(6));
    const auto of_x = [&](const Doubles& values) { return Naive(size, values, gamma, beta); };
    const Doubles dx = DifferenceGradient(of_x, x, dy);
    // Two elements have gradients that all but cancel, over a small variance.
    ExpectClose(ToDoubles(test.dx_), dx, size.n * size.h * size.w > 2 ? 2e-5 : 1e-3, "dx");
    const auto of_gamma = [&](const Doubles& values) { return Naive(size, x, values, beta); };
    const auto of_beta = [&](const Doubles& values) { return Naive(size, x, gamma, values); };
    OpRun parameters(Op::kBatchNormParameterGrad);
    parameters.Input({3, size.c}, test.sums_).Output({size.c}).Output({size.c}).Run();
    ExpectClose(parameters.Values(1), DifferenceGradient(of_gamma, gamma, dy), 1e-5, "dgamma");
    ExpectClose(parameters.Values(2), DifferenceGradient(of_beta, beta, dy), 1e-5, "dbeta");
  }
}

TEST(BatchNorm, ParameterGradientsContinue) {
  Attributes attributes;
  attributes.accumulate = true;
  OpRun run(Op::kBatchNormParameterGrad, attributes);
  run.Input({3, 2}, {1, 2, 30, 40, 9, 9}).InOut({2}, {0.5f, 0.25f}).InOut({2}, {100, 200}).Run();
  EXPECT_EQ(run.Floats(1), (std::vector<float>{30.5f, 40.25f}));
  EXPECT_EQ(run.Floats(2), (std::vector<float>{101, 202}));
}

// Sums over a plane by the tree of 64 lanes, then over the samples in order.
TEST(BatchNorm, MomentsOfALargeChannelAreExact) {
  NormCase test({3, 2, 37, 41});
  const std::vector<float> moments = test.Moments();
  for (int64_t c = 0; c < 2; ++c) {
    double mean = 0, square = 0;
    const int64_t plane = 37 * 41;
    for (int64_t n = 0; n < 3; ++n) {
      for (int64_t i = 0; i < plane; ++i) mean += test.x_[(n * 2 + c) * plane + i];
    }
    mean /= 3 * plane;
    for (int64_t n = 0; n < 3; ++n) {
      for (int64_t i = 0; i < plane; ++i) {
        square += std::pow(test.x_[(n * 2 + c) * plane + i] - mean, 2);
      }
    }
    EXPECT_NEAR(moments[c], mean, 1e-6);
    EXPECT_NEAR(moments[2 + c] / square, 1, 1e-6);
    EXPECT_EQ(moments[4 + c], 3 * plane);
  }
}

// The batch cut into uneven parts gives the statistics of the whole.
TEST(BatchNorm, PartsCombineToTheWhole) {
  const Size size{5, 3, 4, 3};
  NormCase test(size);
  std::vector<float> parts;
  for (const auto& [begin, end] : {std::pair{0, 1}, std::pair{1, 3}, std::pair{3, 5}}) {
    const int64_t sample = size.c * size.h * size.w;
    const std::vector<float> some(test.x_.begin() + begin * sample, test.x_.begin() + end * sample);
    OpRun run(Op::kBatchMoments);
    run.Input({end - begin, size.c, size.h, size.w}, some).Output({1, 3, size.c}).Run();
    const std::vector<float> moments = run.Floats(1);
    parts.insert(parts.end(), moments.begin(), moments.end());
  }
  OpRun whole = test.Forward(test.Moments(), 1);
  OpRun combined = test.Forward(parts, 3);
  for (const int output : {4, 5, 6}) {
    ExpectClose(combined.Values(output), whole.Values(output), 1e-6, "combined");
  }
}

TEST(BatchNorm, RunningStatisticsMoveByTheirShare) {
  // Two channels of 4 elements: means 1 and 2, squared distances 6 and 12.
  const std::vector<float> moments = {1, 2, 6, 12, 4, 4};
  Attributes attributes;
  attributes.constant = 0.25f;
  OpRun run(Op::kBatchNormTrack, attributes);
  run.Input({1, 3, 2}, moments).InOut({2}, {0, 10}).InOut({2}, {1, 1}).Run();
  // 0 + (1 - 0) / 4; 10 + (2 - 10) / 4. Variances 6 / 3 and 12 / 3: 1 + (2 - 1) / 4; 1 + 3 / 4.
  EXPECT_EQ(run.Floats(1), (std::vector<float>{0.25f, 8.0f}));
  EXPECT_EQ(run.Floats(2), (std::vector<float>{1.25f, 1.75f}));
}

TEST(BatchNorm, FixedStatisticsAreTakenAsTheyAre) {
  const Size size{2, 3, 3, 5};
  NormCase test(size);
  const std::vector<float> mean = {1, -2, 0.5f}, variance = {4, 0.25f, 1};
  Attributes attributes;
  attributes.epsilon = kEpsilon;
  OpRun run(Op::kBatchNormFixed, attributes);
  run.Input(test.shape_, test.x_).Input({3}, mean).Input({3}, variance);
  run.Input({3}, test.gamma_).Input({3}, test.beta_).Output(test.shape_).Run();
  Doubles expected;
  for (size_t i = 0; i < test.x_.size(); ++i) {
    const size_t c = i / 15 % 3;
    expected.push_back((test.x_[i] - mean[c]) / std::sqrt(variance[c] + double{kEpsilon}) *
                           test.gamma_[c] +
                       test.beta_[c]);
  }
  ExpectClose(run.Values(5), expected, 1e-6, "y");
}

}  // namespace
}  // namespace tideline
