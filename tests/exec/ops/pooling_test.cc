// Pools, patches, joins and splits against plain loops; gradients against finite differences.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <tuple>

#include "models/ops/windows.h"
#include "tests/exec/ops/op_harness.h"

namespace tideline {
namespace {

struct Size {
  int64_t n, c, h, w;
  int32_t height, width, stride, padding;
};
const Size kMaxima[] = {{1, 1, 1, 1, 1, 1, 1, 0}, {2, 3, 7, 5, 3, 3, 2, 1},
                        {1, 2, 6, 6, 2, 2, 2, 0}, {1, 2, 5, 8, 3, 2, 1, 1},
                        {2, 1, 9, 7, 2, 2, 3, 0}, {1, 1, 56, 37, 3, 3, 2, 1}};
const Size kAverages[] = {{1, 1, 1, 1, 1, 1, 1, 0},
                          {2, 3, 7, 7, 7, 7, 7, 0},
                          {1, 2, 6, 4, 2, 2, 2, 0},
                          {2, 2, 7, 5, 3, 2, 1, 0},
                          {1, 3, 37, 41, 2, 3, 5, 0}};

Attributes Window(const Size& size) {
  Attributes attributes;
  attributes.window = {size.height, size.width, size.stride, size.padding};
  return attributes;
}

Shape Windows(const Size& size) {
  return {size.n, size.c, WindowsAlong(size.h, size.height, size.stride, size.padding),
          WindowsAlong(size.w, size.width, size.stride, size.padding)};
}

// body(window, element) for every element that every window sees, in order.
template <typename Body>
void EachSeen(const Size& size, const Body& body) {
  const Shape windows = Windows(size);
  for (int64_t window = 0; window < Product(windows); ++window) {
    const int64_t q = window % windows[3], p = window / windows[3] % windows[2];
    const int64_t plane = window / (windows[3] * windows[2]) * size.h * size.w;
    for (int64_t r = 0; r < size.height; ++r) {
      for (int64_t s = 0; s < size.width; ++s) {
        const int64_t h = p * size.stride + r - size.padding;
        const int64_t w = q * size.stride + s - size.padding;
        if (h < 0 || w < 0 || h >= size.h || w >= size.w) continue;
        body(window, plane + h * size.w + w);
      }
    }
  }
}

Doubles NaivePool(const Size& size, bool maximum, const Doubles& x) {
  const size_t count = static_cast<size_t>(Product(Windows(size)));
  Doubles y(count, maximum ? -INFINITY : 0.0);
  EachSeen(size, [&](int64_t window, int64_t element) {
    y[window] = maximum ? std::max(y[window], x[element])
                        : y[window] + x[element] / (size.height * size.width);
  });
  return y;
}

TEST(Pooling, MaximaAndTheirGradients) {
  for (const Size& size : kMaxima) {
    const Shape shape{size.n, size.c, size.h, size.w}, windows = Windows(size);
    const auto x = RandomFloats(Product(shape), "x");
    const auto dy = RandomFloats(Product(windows), "dy");
    OpRun run(Op::kMaxPool, Window(size));
    run.Input(shape, x).Output(windows).Output(windows, DType::kI32).Run();
    EXPECT_EQ(run.Values(1), NaivePool(size, true, ToDoubles(x)));
    std::vector<int32_t> index;
    for (const float bits : run.Floats(2)) index.push_back(std::bit_cast<int32_t>(bits));
    OpRun gradient(Op::kMaxPoolGrad, Window(size));
    gradient.Input(windows, dy).Ids(windows, index).Output(shape).Run();
    const auto of_x = [&](const Doubles& values) { return NaivePool(size, true, values); };
    ExpectClose(gradient.Values(2), DifferenceGradient(of_x, ToDoubles(x), ToDoubles(dy)), 1e-6,
                "dx");
  }
}

TEST(Pooling, TheFirstOfEqualMaximaWinsAndNanIsNotLost) {
  const Size size{1, 1, 2, 4, 2, 2, 2, 0};
  OpRun run(Op::kMaxPool, Window(size));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  run.Input({1, 1, 2, 4}, {1, 5, 2, nan, 5, 0, 3, 4});
  run.Output({1, 1, 1, 2}).Output({1, 1, 1, 2}, DType::kI32).Run();
  EXPECT_EQ(run.Floats(1)[0], 5);
  EXPECT_TRUE(std::isnan(run.Floats(1)[1]));
  EXPECT_EQ(std::bit_cast<int32_t>(run.Floats(2)[0]), 1);
  EXPECT_EQ(std::bit_cast<int32_t>(run.Floats(2)[1]), 3);
}

TEST(Pooling, AveragesAndTheirGradients) {
  for (const Size& size : kAverages) {
    const Shape shape{size.n, size.c, size.h, size.w}, windows = Windows(size);
    const auto x = RandomFloats(Product(shape), "x");
    const auto dy = RandomFloats(Product(windows), "dy");
    OpRun run(Op::kAveragePool, Window(size));
    run.Input(shape, x).Output(windows).Run();
    ExpectClose(run.Values(1), NaivePool(size, false, ToDoubles(x)), 1e-6, "y");
    OpRun gradient(Op::kAveragePoolGrad, Window(size));
    gradient.Input(windows, dy).Output(shape).Run();
    const auto of_x = [&](const Doubles& values) { return NaivePool(size, false, values); };
    ExpectClose(gradient.Values(1), DifferenceGradient(of_x, ToDoubles(x), ToDoubles(dy)), 1e-6,
                "dx");
  }
}

// An image of one channel, 2 x 4, in patches of 1 x 2: each is a run of the row-major image.
TEST(Patches, AreRowsOfTheImageAndGoBack) {
  Attributes attributes;
  attributes.window = {.height = 1, .width = 2};
  OpRun run(Op::kPatches, attributes);
  run.Input({1, 1, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}).Output({1, 4, 2}).Run();
  EXPECT_EQ(run.Floats(1), (std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7}));
  // In patches of 2 x 2 the rows of both halves are apart; channels come first in a patch.
  attributes.window = {.height = 2, .width = 2};
  OpRun square(Op::kPatches, attributes);
  square.Input({1, 1, 2, 4}, {0, 1, 2, 3, 4, 5, 6, 7}).Output({1, 2, 4}).Run();
  EXPECT_EQ(square.Floats(1), (std::vector<float>{0, 1, 4, 5, 2, 3, 6, 7}));
  for (const auto& [n, c, side] : {std::tuple{1, 1, 2}, std::tuple{3, 5, 6}, {2, 3, 14}}) {
    const Shape shape{n, c, side, side}, cut{n, side * side / 4, c * 4};
    const auto x = RandomFloats(Product(shape), "x");
    OpRun forward(Op::kPatches, attributes);
    forward.Input(shape, x).Output(cut).Run();
    OpRun back(Op::kPatchesGrad, attributes);
    EXPECT_EQ(back.Input(cut, forward.Floats(1)).Output(shape).Run().Floats(1), x);
  }
}

TEST(Concat, JoinsAlongEveryDimensionAndSplitUndoesIt) {
  for (int32_t dimension = 0; dimension < 3; ++dimension) {
    for (const auto& [left, right] : {std::pair{1, 1}, std::pair{3, 5}, std::pair{1, 37}}) {
      Attributes attributes;
      attributes.dimension = dimension;
      Shape a{2, 3, 5}, b{2, 3, 5}, y{2, 3, 5};
      a[dimension] = left;
      b[dimension] = right;
      y[dimension] = left + right;
      const auto first = RandomFloats(Product(a), "a"), second = RandomFloats(Product(b), "b");
      OpRun run(Op::kConcat, attributes);
      run.Input(a, first).Input(b, second).Output(y).Run();
      std::vector<float> expected;
      int64_t outer = 1;
      for (int32_t d = 0; d < dimension; ++d) outer *= y[d];
      for (int64_t o = 0; o < outer; ++o) {
        const int64_t run_a = Product(a) / outer, run_b = Product(b) / outer;
        expected.insert(expected.end(), first.begin() + o * run_a, first.begin() + (o + 1) * run_a);
        expected.insert(expected.end(), second.begin() + o * run_b,
                        second.begin() + (o + 1) * run_b);
      }
      EXPECT_EQ(run.Floats(2), expected);
      OpRun split(Op::kSplit, attributes);
      split.Input(y, expected).Output(a).Output(b).Run();
      EXPECT_EQ(split.Floats(1), first);
      EXPECT_EQ(split.Floats(2), second);
    }
  }
}

}  // namespace
}  // namespace tideline
