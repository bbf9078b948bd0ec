// Einsums: bits against one scalar fma chain per element in the order of the summed letters, and
// gradients (which are einsums themselves) against finite differences.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "exec/ops/einsum_plan.h"
#include "models/ops/equation.h"
#include "tests/exec/ops/op_harness.h"

namespace tideline {
namespace {

// A number per letter: its extent, or its index.
class PerLetter {
 public:
  PerLetter() = default;
  PerLetter(std::initializer_list<std::pair<char, int64_t>> values) {
    for (const auto& [letter, value] : values) (*this)[letter] = value;
  }
  int64_t& operator[](char letter) { return values_[letter - 'a']; }
  int64_t at(char letter) const { return values_[letter - 'a']; }
  void SetAll(int64_t value) { values_.fill(value); }

 private:
  std::array<int64_t, 26> values_{};
};
using Extents = PerLetter;
using Index = PerLetter;

Shape ShapeOf(const std::string& letters, const Extents& extents) {
  Shape shape;
  for (const char letter : letters) shape.push_back(extents.at(letter));
  return shape;
}

int64_t OffsetOf(const std::string& letters, const Extents& extents, const Index& index) {
  int64_t offset = 0;
  for (const char letter : letters) offset = offset * extents.at(letter) + index.at(letter);
  return offset;
}

// Calls body() for every value of the letters in `index`, the last letter fastest.
template <typename Body>
void ForEach(const std::string& letters, const Extents& extents, Index& index, const Body& body,
             size_t depth = 0) {
  if (depth == letters.size()) return body();
  for (int64_t i = 0; i < extents.at(letters[depth]); ++i) {
    index[letters[depth]] = i;
    ForEach(letters, extents, index, body, depth + 1);
  }
}

template <typename Real>
std::vector<Real> Naive(const Equation& equation, const Extents& extents,
                        const std::vector<Real>& a, const std::vector<Real>& b,
                        const std::vector<Real>& bias, const std::vector<Real>& start, Real scale) {
  std::vector<Real> c(Product(ShapeOf(equation.c, extents)));
  Index index;
  ForEach(equation.c, extents, index, [&] {
    const int64_t at = OffsetOf(equation.c, extents, index);
    Real sum = start.empty() ? Real{0} : start[at];
    ForEach(equation.k, extents, index, [&] {
      sum = std::fma(a[OffsetOf(equation.a, extents, index)],
                     b[OffsetOf(equation.b, extents, index)], sum);
    });
    if (scale != Real{1}) sum = sum * scale;
    if (equation.has_bias) sum = sum + bias[OffsetOf(equation.bias, extents, index)];
    c[at] = sum;
  });
  return c;
}

struct Case {
  std::string equation;
  Extents extents;
};

// The sums of a decoder (linear layers with q, k, v in one, attention, grouped heads, weight and
// input gradients) and some that only a general plan gets right.
std::vector<Case> Cases() {
  const Extents decoder{{'b', 2}, {'s', 7}, {'t', 5},  {'k', 19}, {'n', 23},
                        {'q', 3}, {'a', 3}, {'d', 17}, {'g', 2}};
  std::vector<Case> cases;
  for (const char* equation : {"bsk,kn->bsn",
                               "bsk,nk->bsn",
                               "bsk,kn,n->bsn",
                               "bsk,qkn,qn->qbsn",
                               "bsad,btad->bast",
                               "bast,btad->bsad",
                               "bast,bsad->btad",
                               "bsgad,btgd->bgast",
                               "bgast,btgd->bsgad",
                               "bgast,bsgad->btgd",
                               "bsk,bsn->kn",
                               "bsn,bsk->nk",
                               "qbsn,qkn->bsk",
                               "bsk,qbsn->qkn",
                               "bsad,adk->bsk",
                               "bsk,bsad->kad",
                               "k,k->",
                               "k,kn->n",
                               "nk,k->n",
                               "s,n->sn",
                               "sk,nk->ns",
                               "ksn,kbn->sb",
                               "kns,bnk->sb",
                               "sdk,bkd->bs",
                               "bks,bkn,n->nsb",
                               "bsk,bsk->bs"}) {
    cases.push_back({equation, decoder});
  }
  Extents ones = decoder, larger = decoder;
  ones.SetAll(1);
  larger['k'] = 263;  // beyond one block of the summed letter
  larger['s'] = 13;
  larger['n'] = 35;
  cases.push_back({"bsk,qkn,qn->qbsn", ones});
  cases.push_back({"bgast,btgd->bsgad", ones});
  for (const char* equation : {"bsk,kn->bsn", "bsk,nk,n->bsn", "bsk,bsn->kn", "qbsn,qkn->bsk"}) {
    cases.push_back({equation, larger});
  }
  return cases;
}

struct Operands {
  Equation equation;
  std::vector<float> a, b, bias, start;
};

Operands Make(const Case& test) {
  Operands operands{
      .equation = *ParseEquation(test.equation), .a = {}, .b = {}, .bias = {}, .start = {}};
  const Equation& equation = operands.equation;
  operands.a = RandomFloats(Product(ShapeOf(equation.a, test.extents)), "a");
  operands.b = RandomFloats(Product(ShapeOf(equation.b, test.extents)), "b");
  if (equation.has_bias) {
    operands.bias = RandomFloats(Product(ShapeOf(equation.bias, test.extents)), "bias");
  }
  operands.start = RandomFloats(Product(ShapeOf(equation.c, test.extents)), "start");
  return operands;
}

std::vector<float> RunEinsum(const Case& test, const Operands& operands, float scale,
                             bool accumulate) {
  const Equation& equation = operands.equation;
  Attributes attributes;
  attributes.equation = test.equation;
  attributes.scale = scale;
  attributes.accumulate = accumulate;
  OpRun run(Op::kEinsum, attributes);
  run.Input(ShapeOf(equation.a, test.extents), operands.a);
  run.Input(ShapeOf(equation.b, test.extents), operands.b);
  if (equation.has_bias) run.Input(ShapeOf(equation.bias, test.extents), operands.bias);
  const Shape c = ShapeOf(equation.c, test.extents);
  accumulate ? run.InOut(c, operands.start) : run.Output(c);
  return run.Run().Floats(equation.has_bias ? 3 : 2);
}

TEST(Einsum, HasTheBitsOfTheChain) {
  for (const Case& test : Cases()) {
    const Operands operands = Make(test);
    const auto naive = [&](const std::vector<float>& start, float scale) {
      return Naive<float>(operands.equation, test.extents, operands.a, operands.b, operands.bias,
                          start, scale);
    };
    EXPECT_EQ(RunEinsum(test, operands, 1.0f, false), naive({}, 1.0f)) << test.equation;
    EXPECT_EQ(RunEinsum(test, operands, 0.3f, false), naive({}, 0.3f)) << test.equation;
    if (operands.equation.has_bias) continue;
    EXPECT_EQ(RunEinsum(test, operands, 1.0f, true), naive(operands.start, 1.0f)) << test.equation;
  }
}

// By OpenBLAS the sums are the same but for rounding, in every format, and nothing beside C is
// written. (OpRun also compares two runs: they have equal bits.)
TEST(Einsum, FastProductsAreNearTheExactOnes) {
  const auto blas = HostBlas::Load();
  ASSERT_TRUE(blas.ok()) << blas.status();
  EXPECT_FALSE((*blas)->core().empty());
  for (const Case& test : Cases()) {
    const Operands operands = Make(test);
    const Equation& equation = operands.equation;
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      for (const bool accumulate : {false, true}) {
        if (accumulate && equation.has_bias) continue;
        Attributes attributes;
        attributes.equation = test.equation;
        attributes.accumulate = accumulate;
        const auto run = [&](const HostBlas* library) {
          OpRun einsum(Op::kEinsum, attributes);
          einsum.Input(ShapeOf(equation.a, test.extents), operands.a, dtype);
          einsum.Input(ShapeOf(equation.b, test.extents), operands.b, dtype);
          if (equation.has_bias) {
            einsum.Input(ShapeOf(equation.bias, test.extents), operands.bias, dtype);
          }
          const Shape c = ShapeOf(equation.c, test.extents);
          accumulate ? einsum.InOut(c, operands.start) : einsum.Output(c);
          return einsum.Blas(library).Run().Values(equation.has_bias ? 3 : 2);
        };
        ExpectClose(run(blas->get()), run(nullptr), 1e-6, test.equation);
      }
    }
  }
}

// The gradients of a linear layer, computed as the einsums that the gradient rules make of it.
TEST(Einsum, LinearLayerGradientsMatchDifferences) {
  const Extents extents{{'b', 2}, {'s', 3}, {'k', 5}, {'n', 4}};
  const Case forward{"bsk,kn,n->bsn", extents};
  const Operands operands = Make(forward);
  const auto dy = RandomFloats(2 * 3 * 4, "dy");
  const auto naive = [&](const Doubles& a, const Doubles& b) {
    return Naive<double>(operands.equation, extents, a, b, ToDoubles(operands.bias), {}, 1.0);
  };
  const Doubles a = ToDoubles(operands.a), b = ToDoubles(operands.b);
  Operands input_gradient{
      .equation = *ParseEquation("bsn,kn->bsk"), .a = dy, .b = operands.b, .bias = {}, .start = {}};
  ExpectClose(ToDoubles(RunEinsum({"bsn,kn->bsk", extents}, input_gradient, 1.0f, false)),
              DifferenceGradient([&](const Doubles& x) { return naive(x, b); }, a, ToDoubles(dy)),
              1e-6, "dx");
  Operands weight_gradient{
      .equation = *ParseEquation("bsk,bsn->kn"), .a = operands.a, .b = dy, .bias = {}, .start = {}};
  ExpectClose(ToDoubles(RunEinsum({"bsk,bsn->kn", extents}, weight_gradient, 1.0f, false)),
              DifferenceGradient([&](const Doubles& x) { return naive(a, x); }, b, ToDoubles(dy)),
              1e-6, "dw");
}

// Merging keeps the number of products small: a linear layer is one, attention one per head.
TEST(EinsumPlan, MergesWhatAdvancesEvenly) {
  const auto linear = ops::PlanEinsum("bsk,kn->bsn", {{2, 3, 5}, {5, 7}, {2, 3, 7}});
  ASSERT_TRUE(linear.ok());
  EXPECT_EQ(linear->Batches(), 1);
  EXPECT_EQ(linear->gemm.m, 6);
  const auto weight = ops::PlanEinsum("bsk,bsn->kn", {{2, 3, 5}, {2, 3, 7}, {5, 7}});
  ASSERT_TRUE(weight.ok());
  EXPECT_EQ(weight->gemm.k, 6);
  EXPECT_TRUE(weight->summed.empty());
  const auto scores =
      ops::PlanEinsum("bsad,btad->bast", {{2, 3, 4, 5}, {2, 3, 4, 5}, {2, 4, 3, 3}});
  ASSERT_TRUE(scores.ok());
  EXPECT_EQ(scores->Batches(), 8);
  const auto qkv = ops::PlanEinsum("qbsn,qkn->bsk", {{3, 2, 4, 6}, {3, 5, 6}, {2, 4, 5}});
  ASSERT_TRUE(qkv.ok());
  ASSERT_EQ(qkv->summed.size(), 1u);
  EXPECT_EQ(qkv->summed[0].extent, 3);
}

TEST(EinsumPlan, RefusesWhatDoesNotFit) {
  EXPECT_FALSE(ops::PlanEinsum("bsk,kn", {{1, 1, 1}, {1, 1}, {1}}).ok());
  EXPECT_FALSE(ops::PlanEinsum("sk,kn->sn", {{2, 3}, {4, 5}, {2, 5}}).ok());
  EXPECT_FALSE(ops::PlanEinsum("sk,kn->sn", {{2, 3}, {3, 5}, {2, 6}}).ok());
  EXPECT_FALSE(ops::PlanEinsum("sk,kn->sn", {{2, 3}, {3, 5}}).ok());
  EXPECT_FALSE(ops::PlanEinsum("sk,kn->sn", {{2, 3, 1}, {3, 5}, {2, 5}}).ok());
}

}  // namespace
}  // namespace tideline
