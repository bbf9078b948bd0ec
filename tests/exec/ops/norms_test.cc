// LayerNorm and RMSNorm against fp64 loops; gradients against finite differences of the loops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/exec/ops/op_harness.h"

namespace tideline {
namespace {

constexpr float kEpsilon = 1e-5f;

struct Size {
  int64_t rows, hidden;
};
const Size kSizes[] = {{1, 1}, {2, 3}, {3, 37}, {2, 64}, {5, 65}};
const Size kLarge = {7, 1531};

Attributes WithEpsilon() {
  Attributes attributes;
  attributes.epsilon = kEpsilon;
  return attributes;
}

struct Norm {
  Doubles y, mean, rstd;
};

// `centered`: LayerNorm; else RMSNorm, where beta is not used.
Norm Naive(bool centered, int64_t hidden, const Doubles& x, const Doubles& gamma,
           const Doubles& beta) {
  Norm norm;
  for (size_t row = 0; row < x.size() / hidden; ++row) {
    const double* values = &x[row * hidden];
    double mean = 0, square = 0;
    for (int64_t i = 0; centered && i < hidden; ++i) mean += values[i] / hidden;
    for (int64_t i = 0; i < hidden; ++i) square += (values[i] - mean) * (values[i] - mean) / hidden;
    const double rstd = 1 / std::sqrt(square + double{kEpsilon});
    for (int64_t i = 0; i < hidden; ++i) {
      norm.y.push_back((values[i] - mean) * rstd * gamma[i] + (centered ? beta[i] : 0));
    }
    norm.mean.push_back(mean);
    norm.rstd.push_back(rstd);
  }
  return norm;
}

// Everything about one norm at one size.
class NormCase {
 public:
  NormCase(bool centered, Size size)
      : centered_(centered),
        size_(size),
        shape_{1, size.rows, size.hidden},
        rows_shape_{1, size.rows},
        count_(size.rows * size.hidden),
        x_(RandomFloats(count_, "x")),
        dy_(RandomFloats(count_, "dy")),
        gamma_(RandomFloats(size.hidden, "gamma")),
        beta_(RandomFloats(size.hidden, "beta")) {
    for (float& value : x_) value = 1.5f * value + 0.25f;  // a mean that is not zero
  }

  void Forward() {
    OpRun run(centered_ ? Op::kLayerNorm : Op::kRmsNorm, WithEpsilon());
    run.Input(shape_, x_).Input({size_.hidden}, gamma_);
    if (centered_) run.Input({size_.hidden}, beta_);
    const int y = centered_ ? 3 : 2;
    run.Output(shape_);
    if (centered_) run.Output(rows_shape_);
    run.Output(rows_shape_).Run();
    const Norm expected =
        Naive(centered_, size_.hidden, ToDoubles(x_), ToDoubles(gamma_), ToDoubles(beta_));
    ExpectClose(run.Values(y), expected.y, 3e-6, "y");
    if (centered_) ExpectClose(run.Values(4), expected.mean, 1e-6, "mean");
    ExpectClose(run.Values(centered_ ? 5 : 3), expected.rstd, 2e-6, "rstd");
    mean_ = centered_ ? run.Floats(4) : std::vector<float>{};
    rstd_ = run.Floats(centered_ ? 5 : 3);
  }

  Doubles InputGradient() {
    OpRun run(centered_ ? Op::kLayerNormGrad : Op::kRmsNormGrad);
    run.Input(shape_, dy_).Input(shape_, x_).Input({size_.hidden}, gamma_);
    if (centered_) run.Input(rows_shape_, mean_);
    run.Input(rows_shape_, rstd_).Output(shape_).Run();
    return run.Values(centered_ ? 5 : 4);
  }

  // dgamma and, for LayerNorm, dbeta; continued from `start` when it is given.
  std::vector<Doubles> ParameterGradients(const std::vector<float>& start) {
    Attributes attributes;
    attributes.accumulate = !start.empty();
    OpRun run(centered_ ? Op::kLayerNormParameterGrad : Op::kRmsNormParameterGrad, attributes);
    run.Input(shape_, dy_).Input(shape_, x_);
    if (centered_) run.Input(rows_shape_, mean_);
    run.Input(rows_shape_, rstd_);
    for (int output = 0; output < (centered_ ? 2 : 1); ++output) {
      start.empty() ? run.Output({size_.hidden}) : run.InOut({size_.hidden}, start);
    }
    run.Run();
    std::vector<Doubles> gradients{run.Values(centered_ ? 4 : 3)};
    if (centered_) gradients.push_back(run.Values(5));
    return gradients;
  }

  Doubles x() const { return ToDoubles(x_); }
  Doubles dy() const { return ToDoubles(dy_); }
  Doubles gamma() const { return ToDoubles(gamma_); }
  Doubles beta() const { return ToDoubles(beta_); }
  Function OfX() const {
    return
        [this](const Doubles& x) { return Naive(centered_, size_.hidden, x, gamma(), beta()).y; };
  }
  Function OfGamma() const {
    return [this](const Doubles& gamma) {
      return Naive(centered_, size_.hidden, x(), gamma, beta()).y;
    };
  }
  Function OfBeta() const {
    return [this](const Doubles& beta) {
      return Naive(centered_, size_.hidden, x(), gamma(), beta).y;
    };
  }

 private:
  bool centered_;
  Size size_;
  Shape shape_, rows_shape_;
  int64_t count_;
  std::vector<float> x_, dy_, gamma_, beta_, mean_, rstd_;
};

TEST(Norms, ForwardAndGradientsOfEveryElement) {
  for (const bool centered : {true, false}) {
    for (const Size size : kSizes) {
      NormCase test(centered, size);
      test.Forward();
      const Doubles dx = DifferenceGradient(test.OfX(), test.x(), test.dy());
      double largest = 1;
      for (const double value : dx) largest = std::max(largest, std::fabs(value));
      ExpectClose(test.InputGradient(), dx, 1e-5, "dx");
      const auto gradients = test.ParameterGradients({});
      ExpectClose(gradients[0], DifferenceGradient(test.OfGamma(), test.gamma(), test.dy()), 1e-5,
                  "dgamma");
      if (centered) {
        ExpectClose(gradients[1], DifferenceGradient(test.OfBeta(), test.beta(), test.dy()), 1e-5,
                    "dbeta");
      }
    }
  }
}

TEST(Norms, LargeRowsAlongADirection) {
  for (const bool centered : {true, false}) {
    NormCase test(centered, kLarge);
    test.Forward();
    const Doubles direction = ToDoubles(RandomFloats(kLarge.rows * kLarge.hidden, "direction"));
    const double expected = DirectionalDifference(test.OfX(), test.x(), test.dy(), direction);
    EXPECT_NEAR(Dot(test.InputGradient(), direction), expected, 1e-4);
    const Doubles along = ToDoubles(RandomFloats(kLarge.hidden, "along"));
    EXPECT_NEAR(Dot(test.ParameterGradients({})[0], along),
                DirectionalDifference(test.OfGamma(), test.gamma(), test.dy(), along), 1e-4);
  }
}

// Two halves of the rows, one continued from the other, have the bits of all rows at once.
TEST(Norms, ParameterGradientsContinueInRowOrder) {
  constexpr int64_t kRows = 6, kHidden = 37;
  const auto x = RandomFloats(kRows * kHidden, "x"), dy = RandomFloats(kRows * kHidden, "dy");
  const auto mean = RandomFloats(kRows, "mean"), rstd = RandomFloats(kRows, "rstd");
  const auto part = [](const std::vector<float>& all, int64_t row, int64_t rows) {
    const auto width = static_cast<int64_t>(all.size()) / kRows;
    return std::vector<float>(all.begin() + row * width, all.begin() + (row + rows) * width);
  };
  const auto gradients = [&](int64_t row, int64_t rows, const std::vector<float>& dgamma,
                             const std::vector<float>& dbeta) {
    Attributes attributes;
    attributes.accumulate = true;
    OpRun run(Op::kLayerNormParameterGrad, attributes);
    run.Input({1, rows, kHidden}, part(dy, row, rows))
        .Input({1, rows, kHidden}, part(x, row, rows));
    run.Input({1, rows}, part(mean, row, rows)).Input({1, rows}, part(rstd, row, rows));
    run.InOut({kHidden}, dgamma).InOut({kHidden}, dbeta).Run();
    return std::pair(run.Floats(4), run.Floats(5));
  };
  const auto start = RandomFloats(kHidden, "start");
  const auto whole = gradients(0, kRows, start, start);
  const auto first = gradients(0, 2, start, start);
  EXPECT_EQ(gradients(2, kRows - 2, first.first, first.second), whole);
}

}  // namespace
}  // namespace tideline
