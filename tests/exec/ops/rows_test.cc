// Sums over rows and slices.
#include <gtest/gtest.h>

#include "tests/exec/ops/op_harness.h"

namespace tideline {
namespace {

// Adds element after element in row-major order; `to` maps an element of x to one of y.
std::vector<float> Naive(const std::vector<float>& x, std::vector<float> y,
                         const std::function<int64_t(int64_t)>& to) {
  for (size_t i = 0; i < x.size(); ++i) y[to(static_cast<int64_t>(i))] += x[i];
  return y;
}

TEST(ReduceRows, AddsInRowOrder) {
  struct Test {
    const char* equation;
    Shape input, output;
    std::function<int64_t(int64_t)> to;
  };
  const Test tests[] = {
      {"bsn->n", {1, 1, 1}, {1}, [](int64_t) { return 0; }},
      {"bsn->n", {2, 3, 37}, {37}, [](int64_t i) { return i % 37; }},
      {"qbsn->qn", {3, 2, 5, 7}, {3, 7}, [](int64_t i) { return i / 70 * 7 + i % 7; }},
      {"bsad->ad", {2, 3, 4, 5}, {4, 5}, [](int64_t i) { return i % 20; }},
      {"bsad->da", {2, 3, 4, 5}, {5, 4}, [](int64_t i) { return i % 5 * 4 + i / 5 % 4; }},
      {"nbs->n", {3, 5, 7}, {3}, [](int64_t i) { return i / 35; }},
      {"bn->n", {1031, 3}, {3}, [](int64_t i) { return i % 3; }},
  };
  for (const Test& test : tests) {
    const auto x = RandomFloats(Product(test.input), "x");
    const auto start = RandomFloats(Product(test.output), "start");
    Attributes attributes;
    attributes.equation = test.equation;
    OpRun fresh(Op::kReduceRows, attributes);
    fresh.Input(test.input, x).Output(test.output).Run();
    EXPECT_EQ(fresh.Floats(1), Naive(x, std::vector<float>(start.size(), 0.0f), test.to))
        << test.equation;
    attributes.accumulate = true;
    OpRun continued(Op::kReduceRows, attributes);
    continued.Input(test.input, x).InOut(test.output, start).Run();
    EXPECT_EQ(continued.Floats(1), Naive(x, start, test.to)) << test.equation;
  }
}

// d(sum of dy * (x + bias))/d(bias) by differences; linear, so exact but for rounding.
TEST(ReduceRows, IsTheGradientOfABias) {
  const auto dy = RandomFloats(2 * 3 * 5, "dy");
  const Function naive = [](const Doubles& bias) {
    Doubles y;
    for (int i = 0; i < 2 * 3 * 5; ++i) y.push_back(bias[i % 5]);
    return y;
  };
  Attributes attributes;
  attributes.equation = "bsn->n";
  OpRun run(Op::kReduceRows, attributes);
  run.Input({2, 3, 5}, dy).Output({5}).Run();
  ExpectClose(run.Values(1), DifferenceGradient(naive, Doubles(5, 0.5), ToDoubles(dy)), 1e-6,
              "dbias");
}

TEST(Slice, TakesThisRanksPart) {
  for (int32_t dimension = 0; dimension < 3; ++dimension) {
    const Shape whole{4, 6, 10};
    Shape part = whole;
    part[dimension] /= 2;
    const auto x = RandomFloats(Product(whole), "x");
    for (int32_t rank = 0; rank < 2; ++rank) {
      Attributes attributes;
      attributes.dimension = dimension;
      OpRun run(Op::kSlice, attributes);
      run.Input(whole, x).Output(part).At({0, 0, rank}).Run();
      std::vector<float> expected;
      for (int64_t i = 0; i < Product(whole); ++i) {
        const int64_t index[] = {i / 60, i / 10 % 6, i % 10};
        if (index[dimension] / part[dimension] == rank) expected.push_back(x[i]);
      }
      EXPECT_EQ(run.Floats(1), expected);
    }
  }
}

TEST(Slice, SixteenBits) {
  Attributes attributes;
  attributes.dimension = 1;
  OpRun run(Op::kSlice, attributes);
  run.Bits({2, 4}, DType::kBF16, {0, 1, 2, 3, 4, 5, 6, 7}).Output({2, 2}, DType::kBF16);
  run.At({0, 0, 1}).Run();
  EXPECT_EQ(run.Halves(1), (std::vector<uint16_t>{2, 3, 6, 7}));
}

}  // namespace
}  // namespace tideline
