// Convolutions against fp64 loops, gradients against finite differences of the loops, and the
// orders of the sums bit by bit.
#include <gtest/gtest.h>

#include <cmath>

#include "models/ops/windows.h"
#include "tests/exec/ops/op_harness.h"

namespace tideline {
namespace {

struct Size {
  int64_t n, i, h, w, o, r, s;
  int32_t stride, padding;
};
// 1; odd; pointwise; with stride and without padding; windows that hang over; primes; a window of
// the whole image.
const Size kSizes[] = {{1, 1, 1, 1, 1, 1, 1, 1, 0},   {2, 3, 5, 7, 4, 3, 3, 1, 1},
                       {3, 5, 4, 3, 2, 1, 1, 1, 0},   {2, 2, 7, 6, 3, 1, 1, 2, 0},
                       {1, 3, 9, 9, 2, 7, 7, 2, 3},   {2, 2, 5, 5, 3, 3, 2, 2, 1},
                       {1, 2, 11, 13, 5, 5, 3, 3, 2}, {1, 4, 4, 4, 3, 4, 4, 1, 0}};
// Forward and the weight's gradient gather 2^21 / 4707 = 445 -> 384 of 1369 positions at a time;
// the gradient of x makes 2^21 / (9 * 1369) = 170 of 523 channels.
const Size kTiled = {2, 523, 37, 37, 3, 3, 3, 1, 1};

class ConvolutionCase {
 public:
  explicit ConvolutionCase(const Size& size)
      : size_(size),
        p_(WindowsAlong(size.h, size.r, size.stride, size.padding)),
        q_(WindowsAlong(size.w, size.s, size.stride, size.padding)),
        x_shape_{size.n, size.i, size.h, size.w},
        weight_shape_{size.o, size.i, size.r, size.s},
        y_shape_{size.n, size.o, p_, q_},
        x_(RandomFloats(Product(x_shape_), "x")),
        weight_(RandomFloats(Product(weight_shape_), "weight")),
        dy_(RandomFloats(Product(y_shape_), "dy")) {}

  Attributes Window() const {
    Attributes attributes;
    attributes.window.stride = size_.stride;
    attributes.window.padding = size_.padding;
    return attributes;
  }

  std::vector<float> Forward() const {
    OpRun run(Op::kConvolution, Window());
    run.Input(x_shape_, x_).Input(weight_shape_, weight_).Output(y_shape_);
    AddScratch(Op::kConvolution, run);
    return run.Run().Floats(2);
  }
  std::vector<float> InputGradient() const {
    OpRun run(Op::kConvolutionGrad, Window());
    run.Input(y_shape_, dy_).Input(weight_shape_, weight_).Output(x_shape_);
    AddScratch(Op::kConvolutionGrad, run);
    return run.Run().Floats(2);
  }
  std::vector<float> WeightGradient(const std::vector<float>& start = {}) const {
    Attributes attributes = Window();
    attributes.accumulate = !start.empty();
    OpRun run(Op::kConvolutionWeightGrad, attributes);
    run.Input(y_shape_, dy_).Input(x_shape_, x_);
    start.empty() ? run.Output(weight_shape_) : run.InOut(weight_shape_, start);
    AddScratch(Op::kConvolutionWeightGrad, run);
    return run.Run().Floats(2);
  }

  // function(x, weight, y) with the offsets of every term, y by y, terms in order (c, kh, kw).
  template <typename Function>
  void EachTerm(const Function& function) const {
    for (int64_t n = 0; n < size_.n; ++n) {
      for (int64_t o = 0; o < size_.o; ++o) {
        for (int64_t p = 0; p < p_; ++p) {
          for (int64_t q = 0; q < q_; ++q) EachTermOf(n, o, p, q, function);
        }
      }
    }
  }
  template <typename Function>
  void EachTermOf(int64_t n, int64_t o, int64_t p, int64_t q, const Function& function) const {
    for (int64_t i = 0; i < size_.i; ++i) {
      for (int64_t r = 0; r < size_.r; ++r) {
        for (int64_t s = 0; s < size_.s; ++s) {
          const int64_t h = p * size_.stride + r - size_.padding;
          const int64_t w = q * size_.stride + s - size_.padding;
          if (h < 0 || w < 0 || h >= size_.h || w >= size_.w) continue;
          function(((n * size_.i + i) * size_.h + h) * size_.w + w,
                   ((o * size_.i + i) * size_.r + r) * size_.s + s,
                   ((n * size_.o + o) * p_ + p) * q_ + q);
        }
      }
    }
  }
  Doubles Naive(const Doubles& x, const Doubles& weight) const {
    Doubles y(Product(y_shape_), 0.0);
    EachTerm([&](int64_t a, int64_t b, int64_t c) { y[c] += x[a] * weight[b]; });
    return y;
  }

  const Size& size() const { return size_; }
  const std::vector<float>& x() const { return x_; }
  const std::vector<float>& weight() const { return weight_; }
  const std::vector<float>& dy() const { return dy_; }

 private:
  void AddScratch(Op op, OpRun& run) const {
    const ConvolutionShape shape{size_.n, size_.i, size_.h, size_.w,      size_.o,      size_.r,
                                 size_.s, p_,      q_,      size_.stride, size_.padding};
    const Shape scratch = ConvolutionScratch(op, shape);
    if (!scratch.empty()) run.Output(scratch);
  }

  Size size_;
  int64_t p_, q_;
  Shape x_shape_, weight_shape_, y_shape_;
  std::vector<float> x_, weight_, dy_;
};

TEST(Convolution, ForwardAndGradientsOfEveryElement) {
  for (const Size& size : kSizes) {
    const ConvolutionCase test(size);
    const Doubles x = ToDoubles(test.x()), weight = ToDoubles(test.weight());
    const Doubles dy = ToDoubles(test.dy());
    ExpectClose(ToDoubles(test.Forward()), test.Naive(x, weight), 1e-5, "y");
    const Function of_x = [&](const Doubles& values) { return test.Naive(values, weight); };
    const Function of_weight = [&](const Doubles& values) { return test.Naive(x, values); };
    ExpectClose(ToDoubles(test.InputGradient()), DifferenceGradient(of_x, x, dy), 1e-5, "dx");
    ExpectClose(ToDoubles(test.WeightGradient()), DifferenceGradient(of_weight, weight, dy), 1e-5,
                "dweight");
  }
}

// Every output is one fma chain in order (c, kh, kw), whatever the tile.
TEST(Convolution, OutputsAreChainsInOrderOfTheirTerms) {
  for (const Size& size : {kSizes[1], kSizes[2], kSizes[4], kTiled}) {
    const ConvolutionCase test(size);
    const std::vector<float> y = test.Forward();
    std::vector<float> expected(y.size(), 0.0f);
    test.EachTerm([&](int64_t a, int64_t b, int64_t c) {
      expected[c] = std::fma(test.weight()[b], test.x()[a], expected[c]);
    });
    EXPECT_EQ(y, expected);
  }
}

// Every gradient of a weight is one fma chain in order (n, oh, ow), continued from what it held.
TEST(Convolution, WeightGradientsAreChainsInOrderOfPositions) {
  for (const Size& size : {kSizes[1], kSizes[2], kSizes[5], kTiled}) {
    const ConvolutionCase test(size);
    const std::vector<float> start =
        RandomFloats(static_cast<int64_t>(test.weight().size()), "start");
    std::vector<float> expected = start;
    const int64_t p = WindowsAlong(size.h, size.r, size.stride, size.padding);
    const int64_t q = WindowsAlong(size.w, size.s, size.stride, size.padding);
    for (int64_t n = 0; n < size.n; ++n) {
      for (int64_t position = 0; position < p * q; ++position) {
        for (int64_t o = 0; o < size.o; ++o) {
          test.EachTermOf(n, o, position / q, position % q, [&](int64_t a, int64_t b, int64_t c) {
            expected[b] = std::fma(test.dy()[c], test.x()[a], expected[b]);
          });
        }
      }
    }
    EXPECT_EQ(test.WeightGradient(start), expected);
  }
}

// A gradient of the image is a chain over o for each (kh, kw), these added in order.
TEST(Convolution, InputGradientsAddTheirWindowsInOrder) {
  for (const Size& size : {kSizes[1], kSizes[5], kTiled}) {
    const ConvolutionCase test(size);
    const std::vector<float> dx = test.InputGradient();
    const int64_t p = WindowsAlong(size.h, size.r, size.stride, size.padding);
    const int64_t q = WindowsAlong(size.w, size.s, size.stride, size.padding);
    for (size_t at = 0; at<dx.size(); at += size.i> 100 ? 9973 : 1) {
      const int64_t w = static_cast<int64_t>(at) % size.w;
      const int64_t h = static_cast<int64_t>(at) / size.w % size.h;
      const int64_t i = static_cast<int64_t>(at) / (size.w * size.h) % size.i;
      const int64_t n = static_cast<int64_t>(at) / (size.w * size.h * size.i);
      float sum = 0.0f;
      for (int64_t r = 0; r < size.r; ++r) {
        for (int64_t s = 0; s < size.s; ++s) {
          const int64_t down = h + size.padding - r, across = w + size.padding - s;
          if (down < 0 || across < 0 || down % size.stride != 0 || across % size.stride != 0) {
            continue;
          }
          if (down / size.stride >= p || across / size.stride >= q) continue;
          float chain = 0.0f;
          for (int64_t o = 0; o < size.o; ++o) {
            chain = std::fma(
                test.weight()[((o * size.i + i) * size.r + r) * size.s + s],
                test.dy()[((n * size.o + o) * p + down / size.stride) * q + across / size.stride],
                chain);
          }
          sum += chain;
        }
      }
      ASSERT_EQ(dx[at], sum) << at;
    }
  }
}

}  // namespace
}  // namespace tideline
