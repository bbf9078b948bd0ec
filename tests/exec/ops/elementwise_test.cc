// Element-wise kernels against fp64 loops, their gradients against finite differences of the loops.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/exec/ops/op_harness.h"

namespace tideline {
namespace {

// 1, odd, prime, several blocks.
const Shape kShapes[] = {{1}, {3, 5}, {2, 7, 31}, {3, 8191}};

double GeluOf(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
double ReluOf(double x) { return x > 0 ? x : 0; }
double SiluOf(double x) { return x / (1 + std::exp(-x)); }

Doubles MapOf(double (*function)(double), const Doubles& x) {
  Doubles y;
  for (const double value : x) y.push_back(function(value));
  return y;
}

// Element-wise functions: all differences may be taken at once.
Doubles MapGradient(double (*function)(double), const Doubles& x, const Doubles& dy) {
  Doubles dx;
  for (size_t i = 0; i < x.size(); ++i) {
    dx.push_back(dy[i] * (function(x[i] + 1e-6) - function(x[i] - 1e-6)) / 2e-6);
  }
  return dx;
}

TEST(Elementwise, Add) {
  for (const Shape& shape : kShapes) {
    const auto a = RandomFloats(Product(shape), "a"), b = RandomFloats(Product(shape), "b");
    OpRun run(Op::kAdd);
    run.Input(shape, a).Input(shape, b).Output(shape).Run();
    const auto y = run.Floats(2);
    for (size_t i = 0; i < a.size(); ++i) ASSERT_EQ(y[i], a[i] + b[i]);
  }
}

TEST(Elementwise, AddBias) {
  for (const Shape& shape : {Shape{1}, Shape{3, 1}, Shape{2, 3, 37}, Shape{5, 129}}) {
    const int64_t n = shape.back();
    const auto x = RandomFloats(Product(shape), "x"), bias = RandomFloats(n, "bias");
    OpRun run(Op::kAddBias);
    run.Input(shape, x).Input({n}, bias).Output(shape).Run();
    const auto y = run.Floats(2);
    for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], x[i] + bias[i % n]);
  }
}

TEST(Elementwise, GeluAndItsGradient) {
  for (const Shape& shape : kShapes) {
    const auto x = RandomFloats(Product(shape), "x", 5.0f), dy = RandomFloats(Product(shape), "dy");
    OpRun forward(Op::kGelu);
    forward.Input(shape, x).Output(shape).Run();
    ExpectClose(forward.Values(1), MapOf(GeluOf, ToDoubles(x)), 1e-6, "gelu");
    OpRun backward(Op::kGeluGrad);
    backward.Input(shape, dy).Input(shape, x).Output(shape).Run();
    ExpectClose(backward.Values(2), MapGradient(GeluOf, ToDoubles(x), ToDoubles(dy)), 2e-6,
                "gelu_grad");
  }
}

TEST(Elementwise, ReluAndItsGradient) {
  for (const Shape& shape : kShapes) {
    const auto x = RandomFloats(Product(shape), "x"), dy = RandomFloats(Product(shape), "dy");
    OpRun forward(Op::kRelu);
    forward.Input(shape, x).Output(shape).Run();
    ExpectClose(forward.Values(1), MapOf(ReluOf, ToDoubles(x)), 0, "relu");
    OpRun backward(Op::kReluGrad);
    backward.Input(shape, dy).Input(shape, forward.Floats(1)).Output(shape).Run();
    ExpectClose(backward.Values(2), MapGradient(ReluOf, ToDoubles(x), ToDoubles(dy)), 1e-6,
                "relu_grad");
  }
  // At zero the gradient is zero, and NaN is not hidden.
  OpRun zero(Op::kReluGrad);
  zero.Input({2}, {1.0f, 1.0f}).Input({2}, {0.0f, -0.0f}).Output({2}).Run();
  EXPECT_EQ(zero.Floats(2), (std::vector<float>{0.0f, 0.0f}));
  OpRun not_a_number(Op::kRelu);
  not_a_number.Input({1}, {NAN}).Output({1}).Run();
  EXPECT_TRUE(std::isnan(not_a_number.Floats(1)[0]));
}

TEST(Elementwise, SwiGluAndItsGradients) {
  for (const Shape& shape : kShapes) {
    const int64_t count = Product(shape);
    const auto gate = RandomFloats(count, "gate", 5.0f), up = RandomFloats(count, "up");
    const auto dy = RandomFloats(count, "dy");
    OpRun forward(Op::kSwiGlu);
    forward.Input(shape, gate).Input(shape, up).Output(shape).Run();
    Doubles expected, dgate_weights, dup;
    for (int64_t i = 0; i < count; ++i) {
      expected.push_back(SiluOf(gate[i]) * up[i]);
      dgate_weights.push_back(double{dy[i]} * up[i]);
      // The product is linear in `up`: a difference over a unit step is exact.
      dup.push_back(dy[i] * (SiluOf(gate[i]) * (up[i] + 1.0) - SiluOf(gate[i]) * up[i]));
    }
    ExpectClose(forward.Values(2), expected, 1e-6, "swiglu");
    OpRun backward(Op::kSwiGluGrad);
    backward.Input(shape, dy).Input(shape, gate).Input(shape, up).Output(shape).Output(shape).Run();
    ExpectClose(backward.Values(3), MapGradient(SiluOf, ToDoubles(gate), dgate_weights), 2e-6,
                "dgate");
    ExpectClose(backward.Values(4), dup, 1e-6, "dup");
  }
}

TEST(Elementwise, AccumulateAndScale) {
  for (const Shape& shape : kShapes) {
    const auto x = RandomFloats(Product(shape), "x"), y = RandomFloats(Product(shape), "y");
    OpRun sum(Op::kAccumulate);
    sum.Input(shape, x).InOut(shape, y).Run();
    Attributes attributes;
    attributes.constant = 0.37f;
    OpRun scale(Op::kScale, attributes);
    scale.InOut(shape, y).Run();
    const auto summed = sum.Floats(1), scaled = scale.Floats(0);
    for (size_t i = 0; i < x.size(); ++i) {
      ASSERT_EQ(summed[i], y[i] + x[i]);
      ASSERT_EQ(scaled[i], y[i] * 0.37f);
    }
  }
}

}  // namespace
}  // namespace tideline
