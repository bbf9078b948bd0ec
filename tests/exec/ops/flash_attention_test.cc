// Fused attention against the definition in fp64, its gradient against finite differences of that,
// and its bits against a literal reading of exec/ops/README.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/numerics.h"
#include "tests/exec/ops/op_harness.h"

namespace tideline {
namespace {

struct Case {
  int64_t batch = 1, queries = 1, keys = 1, groups = 1, per_group = 1, size = 1;
  bool causal = true;
  int64_t first_query = 0, first_key = 0, key_begin = 0, key_end = 0;  // key_end 0: all
  float dropout = 0.0f;

  Shape query_shape() const { return {batch, queries, groups, per_group, size}; }
  Shape key_shape() const { return {batch, keys, groups, size}; }
  Shape lse_shape() const { return {batch, groups, per_group, queries}; }
  int64_t heads() const { return groups * per_group; }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(size)); }
  // Whether query s sees key t.
  bool Sees(int64_t s, int64_t t) const {
    const bool in_range = t >= key_begin && t < (key_end == 0 ? keys : key_end);
    return in_range && (!causal || first_key + t <= first_query + s);
  }
  Attributes attributes() const {
    Attributes result;
    result.scale = scale();
    result.causal = causal;
    result.position_offset.base = first_query;
    result.key_offset.base = first_key;
    result.key_begin.base = key_begin;
    result.key_end.base = key_end;
    result.dropout.rate = dropout;
    result.dropout.site = 1;
    return result;
  }
};

std::vector<Case> Cases() {
  return {
      {},
      {.queries = 1, .keys = 1, .groups = 2, .per_group = 2, .size = 3},
      {.batch = 2, .queries = 7, .keys = 7, .groups = 3, .size = 5},
      {.batch = 2, .queries = 5, .keys = 5, .groups = 2, .per_group = 3, .size = 4},
      {.queries = 6, .keys = 9, .size = 4, .causal = false},
      {.queries = 64, .keys = 64, .groups = 2, .size = 8},
      {.queries = 65, .keys = 65, .size = 8},
      {.queries = 131, .keys = 131, .groups = 2, .per_group = 2, .size = 16},
      {.queries = 131, .keys = 200, .size = 64, .causal = false},
      {.queries = 70, .keys = 140, .size = 8, .first_query = 70},
      {.queries = 70, .keys = 70, .size = 8, .first_query = 10, .first_key = 40},
      {.queries = 40, .keys = 150, .size = 8, .causal = false, .key_begin = 3, .key_end = 137},
      {.queries = 150, .keys = 150, .size = 8, .key_begin = 30, .key_end = 120},
      {.queries = 9, .keys = 9, .size = 256},
  };
}

std::string Text(const Case& it) {
  return "queries " + std::to_string(it.queries) + " keys " + std::to_string(it.keys) + " size " +
         std::to_string(it.size) + (it.causal ? " causal" : "");
}

struct Operands {
  std::vector<float> q, k, v, gradient;
};
Operands Random(const Case& it) {
  const int64_t queries = Product(it.query_shape()), keys = Product(it.key_shape());
  return {RandomFloats(queries, "q", 2.0f), RandomFloats(keys, "k", 2.0f), RandomFloats(keys, "v"),
          RandomFloats(queries, "gradient")};
}

OpRun Forward(const Case& it, const Operands& operands) {
  OpRun run(Op::kAttention, it.attributes());
  run.Input(it.query_shape(), operands.q).Input(it.key_shape(), operands.k);
  run.Input(it.key_shape(), operands.v).Output(it.query_shape()).Output(it.lse_shape());
  run.Step(3).Seed(5).Layer(2).Run();
  return run;
}

// Outputs 6, 7, 8: dq, dk, dv.
OpRun Backward(const Case& it, const Operands& operands, const OpRun& forward) {
  OpRun run(Op::kAttentionGrad, it.attributes());
  run.Input(it.query_shape(), operands.gradient).Input(it.query_shape(), operands.q);
  run.Input(it.key_shape(), operands.k).Input(it.key_shape(), operands.v);
  run.Input(it.query_shape(), forward.Floats(3)).Input(it.lse_shape(), forward.Floats(4));
  run.Output(it.query_shape()).Output(it.key_shape()).Output(it.key_shape());
  run.Step(3).Seed(5).Layer(2).Run();
  return run;
}

// What each probability [b, head, s, t] is multiplied by: that of the dropout op on the unfused
// probabilities.
std::vector<float> Factors(const Case& it) {
  const Shape shape{it.batch, it.groups, it.per_group, it.queries, it.keys};
  OpRun run(Op::kDropout, it.attributes());
  run.Input(shape, std::vector<float>(static_cast<size_t>(Product(shape)), 1.0f)).Output(shape);
  run.Step(3).Seed(5).Layer(2).Run();
  return run.Floats(1);
}

// o, and lse behind it.
Doubles Naive(const Case& it, const std::vector<float>& factors, const Doubles& q, const Doubles& k,
              const Doubles& v) {
  Doubles o(q.size(), 0.0), lse(static_cast<size_t>(Product(it.lse_shape())));
  for (size_t row = 0; row < lse.size(); ++row) {
    const int64_t s = static_cast<int64_t>(row) % it.queries;
    const int64_t head = static_cast<int64_t>(row) / it.queries % it.heads();
    const int64_t b = static_cast<int64_t>(row) / it.queries / it.heads();
    const int64_t at = ((b * it.queries + s) * it.heads() + head) * it.size;
    const auto key_at = [&](int64_t t) {
      return ((b * it.keys + t) * it.groups + head / it.per_group) * it.size;
    };
    Doubles weights(static_cast<size_t>(it.keys), 0.0);
    double total = 0;
    for (int64_t t = 0; t < it.keys; ++t) {
      if (!it.Sees(s, t)) continue;
      double score = 0;
      for (int64_t i = 0; i < it.size; ++i) score += q[at + i] * k[key_at(t) + i];
      weights[t] = std::exp(it.scale() * score);
      total += weights[t];
    }
    lse[row] = std::log(total);
    for (int64_t t = 0; t < it.keys && total > 0; ++t) {
      const double factor = factors.empty() ? 1.0 : factors[row * it.keys + t];
      const double p = weights[t] / total * factor;
      for (int64_t i = 0; i < it.size; ++i) o[at + i] += p * v[key_at(t) + i];
    }
  }
  o.insert(o.end(), lse.begin(), lse.end());
  return o;
}

void ExpectForward(const Case& it, const Operands& operands, const OpRun& run,
                   const std::vector<float>& factors) {
  const Doubles expected =
      Naive(it, factors, ToDoubles(operands.q), ToDoubles(operands.k), ToDoubles(operands.v));
  const auto middle = expected.begin() + static_cast<std::ptrdiff_t>(operands.q.size());
  ExpectClose(run.Values(3), {expected.begin(), middle}, 2e-6, "o " + Text(it));
  const Doubles lse = run.Values(4);
  for (size_t row = 0; row < lse.size(); ++row) {
    const double exact = *(middle + static_cast<std::ptrdiff_t>(row));
    if (std::isinf(exact)) {
      EXPECT_EQ(lse[row], exact) << Text(it);  // a query that sees no key
    } else {
      EXPECT_NEAR(lse[row], exact, 4e-6 * std::max(1.0, std::fabs(exact))) << Text(it);
    }
  }
}

// Each operand on its own by differences; large ones along a direction.
void ExpectBackward(const Case& it, const Operands& operands, const OpRun& run,
                    const std::vector<float>& factors) {
  const Doubles inputs[] = {ToDoubles(operands.q), ToDoubles(operands.k), ToDoubles(operands.v)};
  const Doubles weights = ToDoubles(operands.gradient);
  for (int of = 0; of < 3; ++of) {
    const Function function = [&](const Doubles& moved) {
      Doubles o = Naive(it, factors, of == 0 ? moved : inputs[0], of == 1 ? moved : inputs[1],
                        of == 2 ? moved : inputs[2]);
      o.resize(weights.size());
      return o;
    };
    const std::string what = "gradient " + std::to_string(of) + " " + Text(it);
    if (inputs[of].size() < 200) {
      ExpectClose(run.Values(6 + of), DifferenceGradient(function, inputs[of], weights), 4e-6,
                  what);
      continue;
    }
    for (const char* stream : {"first direction", "second direction"}) {
      const Doubles direction =
          ToDoubles(RandomFloats(static_cast<int64_t>(inputs[of].size()), stream));
      EXPECT_NEAR(Dot(run.Values(6 + of), direction),
                  DirectionalDifference(function, inputs[of], weights, direction), 2e-4)
          << what;
    }
  }
}

TEST(FlashAttention, MatchesTheDefinitionAndItsDifferences) {
  for (const Case& it : Cases()) {
    const Operands operands = Random(it);
    const OpRun forward = Forward(it, operands);
    ExpectForward(it, operands, forward, {});
    ExpectBackward(it, operands, Backward(it, operands, forward), {});
  }
}

TEST(FlashAttention, DropsTheProbabilitiesThatTheDropoutOpDrops) {
  for (Case it : {Case{.batch = 2, .queries = 5, .keys = 5, .groups = 2, .per_group = 2, .size = 4},
                  Case{.queries = 70, .keys = 70, .size = 8},
                  Case{.queries = 6, .keys = 9, .size = 4, .causal = false}}) {
    it.dropout = 0.3f;
    const Operands operands = Random(it);
    const std::vector<float> factors = Factors(it);
    EXPECT_GT(std::count(factors.begin(), factors.end(), 0.0f), 0);
    const OpRun forward = Forward(it, operands);
    ExpectForward(it, operands, forward, factors);
    ExpectBackward(it, operands, Backward(it, operands, forward), factors);
  }
}

// The block's tree over 64 lanes.
float Tree(std::vector<float> lanes) {
  lanes.resize(64, 0.0f);
  for (size_t width = 32; width > 0; width /= 2) {
    for (size_t lane = 0; lane < width; ++lane) lanes[lane] += lanes[lane + width];
  }
  return lanes[0];
}

// exec/ops/README.md, one query at a time: o and lse.
void LiteralForward(const Case& it, const Operands& from, std::vector<float>& o,
                    std::vector<float>& lse) {
  o.assign(from.q.size(), 0.0f);
  lse.assign(static_cast<size_t>(Product(it.lse_shape())), 0.0f);
  for (size_t row = 0; row < lse.size(); ++row) {
    const int64_t s = static_cast<int64_t>(row) % it.queries;
    const int64_t head = static_cast<int64_t>(row) / it.queries % it.heads();
    const int64_t b = static_cast<int64_t>(row) / it.queries / it.heads();
    const int64_t at = ((b * it.queries + s) * it.heads() + head) * it.size;
    float largest = -std::numeric_limits<float>::infinity(), total = 0.0f;
    for (int64_t t0 = 0; t0 < it.keys && it.Sees(s, t0); t0 += 64) {
      const int64_t width = std::min<int64_t>(64, it.keys - t0);
      std::vector<float> p(static_cast<size_t>(width));
      float next = largest;
      for (int64_t j = 0; j < width; ++j) {
        const int64_t key = ((b * it.keys + t0 + j) * it.groups + head / it.per_group) * it.size;
        float score = 0.0f;
        for (int64_t i = 0; i < it.size; ++i) {
          score = std::fma(from.q[at + i], from.k[key + i], score);
        }
        p[j] = score * it.scale();
        if (it.Sees(s, t0 + j)) next = std::max(next, p[j]);
      }
      for (int64_t j = 0; j < width; ++j) p[j] = it.Sees(s, t0 + j) ? Exp(p[j] - next) : 0.0f;
      const float correction = Exp(largest - next);
      total = std::fma(total, correction, Tree(p));
      for (int64_t i = 0; i < it.size; ++i) {
        float sum = o[at + i] * correction;
        for (int64_t j = 0; j < width; ++j) {
          const int64_t key = ((b * it.keys + t0 + j) * it.groups + head / it.per_group) * it.size;
          sum = std::fma(p[j], from.v[key + i], sum);
        }
        o[at + i] = sum;
      }
      largest = next;
    }
    const float inverse = 1.0f / total;
    for (int64_t i = 0; i < it.size; ++i) o[at + i] *= inverse;
    lse[row] = largest + Log(total);
  }
}

TEST(FlashAttention, HasTheBitsOfTheLiteralOrder) {
  for (const Case& it :
       {Case{.batch = 2, .queries = 7, .keys = 7, .groups = 2, .per_group = 2, .size = 5},
        Case{.queries = 131, .keys = 131, .groups = 2, .size = 16},
        Case{.queries = 33, .keys = 130, .size = 24, .causal = false}}) {
    const Operands operands = Random(it);
    const OpRun run = Forward(it, operands);
    std::vector<float> o, lse;
    LiteralForward(it, operands, o, lse);
    EXPECT_EQ(run.Floats(3), o) << Text(it);
    EXPECT_EQ(run.Floats(4), lse) << Text(it);
  }
}

// A rank that holds some of the queries gives the bits of all of them, whatever the cut: o, lse and
// dq of its queries.
TEST(FlashAttention, QueriesAreIndependentOfEachOther) {
  const Case whole{.queries = 150, .keys = 150, .groups = 2, .per_group = 2, .size = 8};
  const Operands operands = Random(whole);
  const OpRun forward = Forward(whole, operands);
  const OpRun backward = Backward(whole, operands, forward);
  const int64_t row = whole.heads() * whole.size;
  for (const auto& [begin, end] :
       {std::pair<int64_t, int64_t>{0, 1}, {37, 101}, {64, 128}, {149, 150}}) {
    Case part = whole;
    part.queries = end - begin;
    part.first_query = begin;
    const auto cut = [&, first = begin, last = end](const std::vector<float>& values) {
      return std::vector<float>(values.begin() + first * row, values.begin() + last * row);
    };
    const Operands own{cut(operands.q), operands.k, operands.v, cut(operands.gradient)};
    const OpRun part_forward = Forward(part, own);
    EXPECT_EQ(part_forward.Floats(3), cut(forward.Floats(3))) << begin;
    const OpRun part_backward = Backward(part, own, part_forward);
    EXPECT_EQ(part_backward.Floats(6), cut(backward.Floats(6))) << begin;
  }
}

// Two ranges of keys, merged, are all keys; and the gradients of the ranges, made with the merged
// result, add up to (queries) or are parts of (keys, values) those of the whole.
TEST(FlashAttention, RangesOfKeysMerge) {
  const Case whole{.queries = 90, .keys = 90, .groups = 2, .per_group = 2, .size = 8};
  const Operands operands = Random(whole);
  const OpRun all = Forward(whole, operands);
  const OpRun all_gradients = Backward(whole, operands, all);
  Case low = whole, high = whole;
  low.key_end = high.key_begin = 50;
  const OpRun below = Forward(low, operands), above = Forward(high, operands);
  OpRun merged(Op::kMergeAttention);
  merged.Input(whole.query_shape(), below.Floats(3)).Input(whole.lse_shape(), below.Floats(4));
  merged.Input(whole.query_shape(), above.Floats(3)).Input(whole.lse_shape(), above.Floats(4));
  merged.Output(whole.query_shape()).Output(whole.lse_shape()).Run();
  ExpectClose(merged.Values(4), all.Values(3), 1e-6, "o");
  ExpectClose(merged.Values(5), all.Values(4), 1e-6, "lse");
  // The first 50 queries see no key of the upper range: the lower range's result, untouched.
  std::vector<float> first = merged.Floats(4), untouched = below.Floats(3);
  first.resize(50 * 4 * 8);
  untouched.resize(50 * 4 * 8);
  EXPECT_EQ(first, untouched);

  const OpRun low_gradients = Backward(low, operands, all);
  const OpRun high_gradients = Backward(high, operands, all);
  for (int output = 6; output < 9; ++output) {
    Doubles sum = low_gradients.Values(output);
    const Doubles other = high_gradients.Values(output);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
    ExpectClose(sum, all_gradients.Values(output), 2e-6, "gradient");
  }
}

// Scores beyond the range of exp, all equal: the mean of the values seen; their mirror image too.
TEST(FlashAttention, IsStable) {
  const Case it{.queries = 2, .keys = 2, .size = 1};
  for (const float large : {300.0f, -300.0f}) {
    const OpRun run = Forward(it, {{1, 1}, {large, large}, {2, 4}, {}});
    EXPECT_EQ(run.Floats(3), (std::vector<float>{2, 3}));
  }
}

TEST(FlashAttention, NoKeysGiveNothing) {
  const Case it{.queries = 3, .keys = 4, .size = 2, .first_key = 2};
  const Operands operands = Random(it);
  const OpRun forward = Forward(it, operands);
  const OpRun backward = Backward(it, operands, forward);
  for (int64_t i = 0; i < 2 * 2; ++i) {  // queries 0 and 1
    EXPECT_EQ(forward.Floats(3)[i], 0.0f);
    EXPECT_EQ(backward.Floats(6)[i], 0.0f);
  }
  EXPECT_EQ(forward.Floats(4)[0], -std::numeric_limits<float>::infinity());
  EXPECT_EQ(forward.Floats(4)[1], -std::numeric_limits<float>::infinity());
  for (int64_t i = 2; i < 8; ++i) {  // keys 1 to 3 are behind every query
    EXPECT_EQ(backward.Floats(7)[i], 0.0f);
    EXPECT_EQ(backward.Floats(8)[i], 0.0f);
  }
}

TEST(FlashAttention, RefusesLargeHeads) {
  const Case it{.queries = 2, .keys = 2, .size = 257};
  Kernel kernel;
  kernel.op = Op::kAttention;
  kernel.operands = {{it.query_shape(), DType::kF32, Access::kRead},
                     {it.key_shape(), DType::kF32, Access::kRead},
                     {it.key_shape(), DType::kF32, Access::kRead},
                     {it.query_shape(), DType::kF32, Access::kWrite},
                     {it.lse_shape(), DType::kF32, Access::kWrite}};
  const Status status = CheckSupported(kernel);
  EXPECT_EQ(ExitCode(status), 6);
  EXPECT_NE(status.message().find("attention=unfused"), std::string_view::npos) << status;
}

}  // namespace
}  // namespace tideline
