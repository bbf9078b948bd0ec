// Every kernel in every format. Its definition: it computes what the fp32 kernel computes of the
// same values and rounds each result once. So its bits are those of the rounded fp32 result, and it
// is as near to naive loops in fp64 as one rounding and the error of fp32 allow.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

#include "exec/comm/element.h"
#include "tests/exec/ops/op_harness.h"
#include "tests/models/ops/fp64_interpreter.h"

namespace tideline {
namespace {

// x: the compute type; f: fp32; i: ids; g: a gradient, fp32 or the compute type, that may continue.
struct Argument {
  char kind;
  Shape shape;
  std::vector<float> values = {};  // of an input; rounded to its type before use
};

struct Case {
  std::string name;
  Op op;
  Attributes attributes;
  std::vector<Argument> inputs, outputs;
  // Results in fp64 where the naive interpreter of graphs does not know the op.
  std::function<std::vector<Doubles>(const std::vector<Doubles>&)> exact = {};
};

struct Formats {
  DType compute, gradient;
};

DType TypeOf(const Argument& argument, const Formats& formats) {
  if (argument.kind == 'x') return formats.compute;
  if (argument.kind == 'g') return formats.gradient;
  return argument.kind == 'i' ? DType::kI32 : DType::kF32;
}

// 2^-p with p bits of precision: half a unit in the last place of 1.
double UnitRoundoff(DType dtype) {
  return dtype == DType::kBF16 ? 0x1p-8 : dtype == DType::kF16 ? 0x1p-11 : 0x1p-24;
}

Argument Random(char kind, Shape shape, const std::string& stream, float scale = 1.0f) {
  std::vector<float> values = RandomFloats(Product(shape), stream, scale);
  return {kind, std::move(shape), std::move(values)};
}

Argument Positive(char kind, Shape shape, const std::string& stream) {
  Argument argument = Random(kind, std::move(shape), stream);
  for (float& value : argument.values) value = 0.25f + std::fabs(value);
  return argument;
}

Argument Ids(Shape shape, int64_t bound) {
  const std::vector<int32_t> ids = RandomIds(Product(shape), bound, "ids");
  return {'i', std::move(shape), {ids.begin(), ids.end()}};
}

// Probabilities as a causal softmax leaves them: keys behind the query have 0.
Argument Masked(Shape shape) {
  Argument argument = Positive('x', shape, "p");
  const int64_t keys = shape.back(), queries = shape[shape.size() - 2];
  for (size_t i = 0; i < argument.values.size(); ++i) {
    const auto at = static_cast<int64_t>(i);
    if (at % keys > at / keys % queries) argument.values[i] = 0;
  }
  return argument;
}

std::vector<Case> ElementwiseCases() {
  const Shape shape{2, 3, 67};
  const auto x = [&](const std::string& stream) { return Random('x', shape, stream, 3.0f); };
  const Argument y{'x', shape};
  Attributes scale;
  scale.constant = 0.37f;
  std::vector<Case> cases = {
      {"add", Op::kAdd, {}, {x("a"), x("b")}, {y}},
      {"add_bias", Op::kAddBias, {}, {x("x"), Random('x', {67}, "bias")}, {y}},
      {"gelu", Op::kGelu, {}, {x("x")}, {y}},
      {"gelu_grad", Op::kGeluGrad, {}, {x("dy"), x("x")}, {y}},
      {"relu", Op::kRelu, {}, {x("x")}, {y}},
      {"relu_grad", Op::kReluGrad, {}, {x("dy"), x("y")}, {y}},
      {"swiglu", Op::kSwiGlu, {}, {x("gate"), x("up")}, {y}},
      {"swiglu_grad", Op::kSwiGluGrad, {}, {x("dy"), x("gate"), x("up")}, {y, y}},
      {"slice", Op::kSlice, {}, {x("x")}, {{'x', {1, 3, 67}}}, [](const std::vector<Doubles>& in) {
         return std::vector<Doubles>{Doubles(in[0].begin(), in[0].begin() + 201)};
       }}};
  return cases;
}

std::vector<Case> NormCases() {
  const Shape shape{2, 3, 67}, rows{2, 3}, hidden{67};
  const Argument x = Random('x', shape, "x", 2.0f), dy = Random('x', shape, "dy");
  const Argument gamma = Random('x', hidden, "gamma"), beta = Random('x', hidden, "beta");
  const Argument mean = Random('f', rows, "mean"), rstd = Positive('f', rows, "rstd");
  const Argument y{'x', shape}, row{'f', rows}, gradient = Random('g', hidden, "start");
  Attributes epsilon;
  epsilon.epsilon = 1e-5f;
  return {{"layer_norm", Op::kLayerNorm, epsilon, {x, gamma, beta}, {y, row, row}},
          {"rms_norm", Op::kRmsNorm, epsilon, {x, gamma}, {y, row}},
          {"layer_norm_grad", Op::kLayerNormGrad, {}, {dy, x, gamma, mean, rstd}, {y}},
          {"rms_norm_grad", Op::kRmsNormGrad, {}, {dy, x, gamma, rstd}, {y}},
          {"layer_norm_parameter_grad",
           Op::kLayerNormParameterGrad,
           {},
           {dy, x, mean, rstd},
           {gradient, gradient}},
          {"rms_norm_parameter_grad", Op::kRmsNormParameterGrad, {}, {dy, x, rstd}, {gradient}}};
}

std::vector<Case> EinsumCases() {
  std::vector<Case> cases;
  const auto add = [&](const std::string& equation, Shape a, Shape b, Shape bias, char kind,
                       Shape c, float scale) {
    Case test{equation, Op::kEinsum, {}, {Random('x', a, "a"), Random('x', b, "b")}, {}};
    if (!bias.empty()) test.inputs.push_back(Random('x', bias, "bias"));
    test.outputs = {Random(kind, c, "start")};
    test.attributes.equation = equation;
    test.attributes.scale = scale;
    cases.push_back(std::move(test));
  };
  add("bsk,qkn,qn->qbsn", {2, 5, 300}, {3, 300, 21}, {3, 21}, 'x', {3, 2, 5, 21}, 1.0f);
  add("bsad,btad->bast", {2, 7, 3, 16}, {2, 7, 3, 16}, {}, 'x', {2, 3, 7, 7}, 0.25f);
  add("bast,btad->bsad", {2, 3, 7, 7}, {2, 7, 3, 16}, {}, 'x', {2, 7, 3, 16}, 1.0f);
  add("qbsn,qkn->bsk", {3, 2, 5, 21}, {3, 67, 21}, {}, 'x', {2, 5, 67}, 1.0f);  // a loop of sums
  add("sk,nk->ns", {70, 33}, {19, 33}, {}, 'x', {19, 70}, 1.0f);  // a C that is contiguous in rows
  add("ak,ckb->abc", {3, 17}, {5, 17, 7}, {}, 'x', {3, 7, 5}, 0.5f);  // and in neither
  add("bsk,bsn->kn", {2, 60, 33}, {2, 60, 40}, {}, 'g', {33, 40}, 1.0f);
  add("sm,sn->mn", {3, 1030}, {3, 1029}, {}, 'g', {1030, 1029}, 1.0f);  // more than one panel
  return cases;
}

// The mask of this dropout: what it makes of ones in fp32.
Doubles MaskOf(const Attributes& attributes, const Shape& shape) {
  OpRun run(Op::kDropout, attributes);
  run.Input(shape, std::vector<float>(static_cast<size_t>(Product(shape)), 1.0f)).Output(shape);
  return run.Run().Values(1);
}

std::vector<Case> FusedAttentionCases() {
  const Shape queries{2, 9, 2, 3, 20}, keys{2, 9, 2, 20}, rows{2, 2, 3, 9}, hidden{2, 5, 67};
  const Argument q = Random('x', queries, "q"), k = Random('x', keys, "k");
  const Argument v = Random('x', keys, "v"), o{'x', queries}, lse{'f', rows};
  const Argument gradient = Random('x', queries, "do"), some_o = Random('x', queries, "o");
  Attributes causal, dropout;
  causal.causal = true;
  causal.scale = 0.25f;
  dropout.dropout.rate = 0.25f;
  return {{"attention", Op::kAttention, causal, {q, k, v}, {o, lse}},
          {"attention_grad",
           Op::kAttentionGrad,
           causal,
           {gradient, q, k, v, some_o, Positive('f', rows, "lse")},
           {{'x', queries}, {'x', keys}, {'x', keys}}},
          {"dropout",
           Op::kDropout,
           dropout,
           {Random('x', hidden, "x")},
           {{'x', hidden}},
           [=](const std::vector<Doubles>& in) {
             Doubles y = MaskOf(dropout, hidden);
             for (size_t i = 0; i < y.size(); ++i) y[i] *= in[0][i];
             return std::vector<Doubles>{y};
           }},
          // Halves of equal weight: their mean, and log 2 more.
          {"merge_attention",
           Op::kMergeAttention,
           {},
           {q,
            {'f', rows, std::vector<float>(108, 2.0f)},
            some_o,
            {'f', rows, std::vector<float>(108, 2.0f)}},
           {o, lse},
           [](const std::vector<Doubles>& in) {
             Doubles mean = in[0], both = in[1];
             for (size_t i = 0; i < mean.size(); ++i) mean[i] = (mean[i] + in[2][i]) / 2;
             for (double& value : both) value += std::log(2.0);
             return std::vector<Doubles>{mean, both};
           }}};
}

std::vector<Case> AttentionCases() {
  const Shape scores{2, 3, 9, 9};
  Attributes position;
  position.position_offset.base = 5;
  return {
      {"rotary", Op::kRotary, position, {Random('x', {2, 5, 3, 8}, "x")}, {{'x', {2, 5, 3, 8}}}},
      {"softmax", Op::kCausalSoftmax, {}, {Random('x', scores, "x", 4.0f)}, {{'x', scores}}},
      {"softmax_grad",
       Op::kCausalSoftmaxGrad,
       {},
       {Random('x', scores, "dp"), Masked(scores)},
       {{'x', scores}}}};
}

std::vector<Case> EmbeddingCases() {
  const Shape shape{2, 7, 67}, table{5, 67}, positions{12, 67};
  const Argument x = Random('x', shape, "x"), ids = Ids({2, 7}, 5), y{'x', shape};
  Attributes position;
  position.position_offset.base = 2;
  return {{"embedding", Op::kEmbedding, {}, {ids, Random('x', table, "table")}, {y}},
          {"embedding_grad", Op::kEmbeddingGrad, {}, {ids, x}, {Random('g', table, "start")}},
          {"add_position", Op::kAddPosition, position, {x, Random('x', positions, "table")}, {y}},
          {"add_position_grad",
           Op::kAddPositionGrad,
           position,
           {x},
           {Random('g', positions, "start")}}};
}

std::vector<Case> LossCases() {
  const Shape logits{2, 3, 37}, rows{2, 3};
  const Argument x = Random('x', logits, "logits", 4.0f), ids = Ids(rows, 31);
  const Argument row{'f', rows};
  Attributes padded;
  padded.valid_columns = 31;
  padded.loss_scale = 0.125f;
  const Argument largest{'f', rows, {4, 4, 4, 4, 4, 4}};
  return {{"cross_entropy", Op::kCrossEntropy, padded, {x, ids}, {row, row}},
          {"cross_entropy_grad",
           Op::kCrossEntropyGrad,
           padded,
           {x, ids, Positive('f', rows, "lse")},
           {{'x', logits}}},
          {"row_max",
           Op::kRowMax,
           padded,
           {x},
           {row},
           [](const std::vector<Doubles>& in) {
             Doubles largest(6, -INFINITY);
             for (int i = 0; i < 6 * 37; ++i) {
               if (i % 37 < 31) largest[i / 37] = std::max(largest[i / 37], in[0][i]);
             }
             return std::vector<Doubles>{largest};
           }},
          {"cross_entropy_partial",
           Op::kCrossEntropyPartial,
           padded,
           {x, ids, largest},
           {{'f', {2, 2, 3}}},
           [](const std::vector<Doubles>& in) {
             Doubles partial(12, 0.0);
             for (int i = 0; i < 6 * 37; ++i) {
               if (i % 37 < 31) partial[i / 37] += std::exp(in[0][i] - in[2][i / 37]);
               if (i % 37 == in[1][i / 37]) partial[6 + i / 37] = in[0][i];
             }
             return std::vector<Doubles>{partial};
           }}};
}

std::vector<Case> SumCases() {
  Attributes rows, swapped, inner, scale;
  rows.equation = "qbsn->qn";
  swapped.equation = "bsad->da";
  inner.equation = "nbs->n";
  scale.constant = 0.37f;
  const auto add = [](const std::vector<Doubles>& in) {
    Doubles sum = in[1];
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += in[0][i];
    return std::vector<Doubles>{sum};
  };
  return {{"rows",
           Op::kReduceRows,
           rows,
           {Random('x', {3, 2, 9, 67}, "x")},
           {Random('g', {3, 67}, "start")}},
          {"rows_swapped",
           Op::kReduceRows,
           swapped,
           {Random('x', {2, 9, 4, 5}, "x")},
           {Random('g', {5, 4}, "start")}},
          {"rows_inner",
           Op::kReduceRows,
           inner,
           {Random('x', {3, 5, 67}, "x")},
           {Random('g', {3}, "start")}},
          // Always continues: the last value handed to `add` is what the output held.
          {"accumulate",
           Op::kAccumulate,
           {},
           {Random('g', {2, 67}, "x")},
           {Random('g', {2, 67}, "start")},
           add}};
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (auto make : {ElementwiseCases, NormCases, EinsumCases, AttentionCases, FusedAttentionCases,
                    EmbeddingCases, LossCases, SumCases}) {
    for (Case& test : make()) cases.push_back(std::move(test));
  }
  return cases;
}

// One run in the formats, or in fp32 on the values that remain of theirs.
OpRun RunCase(const Case& test, const Formats& formats, bool in_fp32, bool accumulate) {
  Attributes attributes = test.attributes;
  attributes.accumulate = accumulate;
  OpRun run(test.op, attributes);
  for (const Argument& input : test.inputs) {
    const DType dtype = TypeOf(input, formats);
    if (dtype == DType::kI32) {
      run.Ids(input.shape, {input.values.begin(), input.values.end()});
    } else {
      run.Input(input.shape, Rounded(input.values, dtype), in_fp32 ? DType::kF32 : dtype);
    }
  }
  for (const Argument& output : test.outputs) {
    const DType dtype = TypeOf(output, formats);
    const DType used = in_fp32 ? DType::kF32 : dtype;
    const bool continues = accumulate || test.op == Op::kAccumulate;
    continues ? run.InOut(output.shape, Rounded(output.values, dtype), used)
              : run.Output(output.shape, used);
  }
  run.Run();
  return run;
}

// What naive loops in fp64 say.
std::vector<Doubles> Exact(const Case& test, const Formats& formats, bool accumulate) {
  const auto values = [&](const Argument& argument) {
    const DType dtype = TypeOf(argument, formats);
    return ToDoubles(dtype == DType::kI32 ? argument.values : Rounded(argument.values, dtype));
  };
  if (test.exact) {
    std::vector<Doubles> inputs;
    for (const Argument& input : test.inputs) inputs.push_back(values(input));
    for (const Argument& output : test.outputs) inputs.push_back(values(output));
    return test.exact(inputs);
  }
  Graph graph;
  Node node{.name = test.name, .op = test.op, .attributes = test.attributes};
  node.attributes.accumulate = accumulate;
  const auto add = [&](const Argument& argument, std::vector<TensorId>& list) {
    list.push_back(static_cast<TensorId>(graph.tensors.size()));
    graph.tensors.push_back({.name = std::to_string(list.back()), .shape = argument.shape});
  };
  for (const Argument& input : test.inputs) add(input, node.inputs);
  for (const Argument& output : test.outputs) add(output, node.outputs);
  graph.nodes.push_back(node);
  Fp64Interpreter interpreter(graph);
  for (size_t i = 0; i < test.inputs.size(); ++i) {
    const Doubles all = values(test.inputs[i]);
    std::copy(all.begin(), all.end(), interpreter.Values(node.inputs[i]));
  }
  for (size_t i = 0; accumulate && i < test.outputs.size(); ++i) {
    const Doubles all = values(test.outputs[i]);
    std::copy(all.begin(), all.end(), interpreter.Values(node.outputs[i]));
  }
  interpreter.Run(0, 1);
  std::vector<Doubles> results;
  for (const TensorId output : node.outputs) results.push_back(interpreter.Copy(output));
  return results;
}

void ExpectNear(const Doubles& got, const Doubles& exact, DType dtype) {
  ASSERT_EQ(got.size(), exact.size());
  double largest = 1;
  for (const double value : exact) largest = std::max(largest, std::fabs(value));
  for (size_t i = 0; i < got.size(); ++i) {
    const double rounding = UnitRoundoff(dtype) * std::fabs(exact[i]) + 0x1p-25;
    ASSERT_LE(std::fabs(got[i] - exact[i]), rounding + 1e-5 * largest)
        << "element " << i << ": " << got[i] << ", exactly " << exact[i];
  }
}

void Check(const Case& test, const Formats& formats, bool accumulate) {
  SCOPED_TRACE(test.name + " in " + std::string(Name(formats.compute)) + " into " +
               std::string(Name(formats.gradient)) + (accumulate ? ", continued" : ""));
  const OpRun run = RunCase(test, formats, false, accumulate);
  const OpRun fp32 = RunCase(test, formats, true, accumulate);
  if (testing::Test::HasFailure()) return;
  const std::vector<Doubles> exact = Exact(test, formats, accumulate);
  ASSERT_EQ(exact.size(), test.outputs.size());
  for (size_t output = 0; output < test.outputs.size(); ++output) {
    const int operand = static_cast<int>(test.inputs.size() + output);
    const DType dtype = TypeOf(test.outputs[output], formats);
    EXPECT_EQ(run.Floats(operand), Rounded(fp32.Floats(operand), dtype)) << "output " << output;
    ExpectNear(run.Values(operand), exact[output], dtype);
  }
}

class FormatsTest : public testing::TestWithParam<Case> {};

TEST_P(FormatsTest, IsTheRoundedResultOfFp32) {
  const Case& test = GetParam();
  bool sums = false;
  for (const Argument& output : test.outputs) sums |= output.kind == 'g';
  for (const DType compute : {DType::kBF16, DType::kF16}) {
    for (const DType gradient : {DType::kF32, compute}) {
      if (!sums && gradient == DType::kF32) continue;
      for (const bool accumulate : {false, true}) {
        if (accumulate && (!sums || test.op == Op::kAccumulate)) continue;
        Check(test, {compute, gradient}, accumulate);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, FormatsTest, testing::ValuesIn(Cases()), [](const auto& info) {
  std::string name = info.param.name;
  for (char& letter : name) {
    if (!std::isalnum(static_cast<unsigned char>(letter))) letter = '_';
  }
  return name;
});

// A sum that a 16-bit accumulator takes up starts from its value and is rounded once per launch:
// 1 + 2^-9 + ... of 8 terms in one launch is 1 + 2^-6 in bf16, and stays 1 in eight launches, each
// of which rounds 1 + 2^-9 back to 1.
TEST(Formats, RoundsAtTheStoreOfEachLaunch) {
  const float small = 0x1p-9f;
  Attributes attributes;
  attributes.equation = "sn->n";
  attributes.accumulate = true;
  OpRun once(Op::kReduceRows, attributes);
  once.Input({8, 1}, std::vector<float>(8, small), DType::kBF16).InOut({1}, {1.0f}, DType::kBF16);
  EXPECT_EQ(once.Run().Floats(1)[0], 1.0f + 8 * small);
  std::vector<float> sum{1.0f}, kept{1.0f};
  for (int launch = 0; launch < 8; ++launch) {
    OpRun narrow(Op::kReduceRows, attributes), wide(Op::kReduceRows, attributes);
    narrow.Input({1, 1}, {small}, DType::kBF16).InOut({1}, sum, DType::kBF16);
    wide.Input({1, 1}, {small}, DType::kBF16).InOut({1}, kept);
    sum = narrow.Run().Floats(1);
    kept = wide.Run().Floats(1);
  }
  EXPECT_EQ(sum[0], 1.0f);
  EXPECT_EQ(kept[0], 1.0f + 8 * small);
}

// Ties, subnormal values, overflow and NaN come out of a kernel's store as the format says.
TEST(Formats, StoresRoundAsTheFormatSays) {
  const auto scaled = [](DType dtype, const std::vector<float>& x, float factor) {
    Attributes attributes;
    attributes.constant = factor;
    OpRun run(Op::kScale, attributes);
    run.InOut({static_cast<int64_t>(x.size())}, x, dtype);
    return run.Run().Halves(0);
  };
  // bf16: (1 + 2^-7) * (1 + 2^-1) = 1.5 + 1.5 * 2^-7 lies halfway between 1.5 + 2^-7 and 1.5 +
  // 2^-6: the even one is 1.5 + 2^-6, 0x3fc2. (1 + 3 * 2^-7) * 1.5 = 1.5 + 4.5 * 2^-7: even is 1.5
  // + 4 * 2^-7, 0x3fc4. The largest finite doubled is infinity, the least subnormal halved is a tie
  // and goes to 0, three times it halved is 1.5 of it and goes to 2.
  EXPECT_EQ(scaled(DType::kBF16, {1.0f + 0x1p-7f, 1.0f + 3 * 0x1p-7f}, 1.5f),
            (std::vector<uint16_t>{0x3fc2, 0x3fc4}));
  EXPECT_EQ(scaled(DType::kBF16, {BF16ToFloat(0x7f7f), -BF16ToFloat(0x7f7f)}, 2.0f),
            (std::vector<uint16_t>{0x7f80, 0xff80}));
  EXPECT_EQ(scaled(DType::kBF16, {BF16ToFloat(1), BF16ToFloat(3)}, 0.5f),
            (std::vector<uint16_t>{0, 2}));
  // fp16: (1 + 2^-10) * 1.5 = 1.5 + 1.5 * 2^-10, a tie to 1.5 + 2 * 2^-10, 0x3e02; 65504 * 1.0625
  // overflows; 2^-24 is the least, halved it is a tie to 0, and 3 * 2^-24 halved goes to 2.
  EXPECT_EQ(scaled(DType::kF16, {1.0f + 0x1p-10f, 1.0f + 3 * 0x1p-10f}, 1.5f),
            (std::vector<uint16_t>{0x3e02, 0x3e04}));
  EXPECT_EQ(scaled(DType::kF16, {65504.0f, -65504.0f}, 1.0625f),
            (std::vector<uint16_t>{0x7c00, 0xfc00}));
  EXPECT_EQ(scaled(DType::kF16, {0x1p-24f, 3 * 0x1p-24f}, 0.5f), (std::vector<uint16_t>{0, 2}));
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    OpRun run(Op::kAdd);
    run.Input({2}, {NAN, INFINITY}, dtype).Input({2}, {1.0f, -INFINITY}, dtype).Output({2}, dtype);
    for (const float value : run.Run().Floats(2)) EXPECT_TRUE(std::isnan(value));
  }
}

}  // namespace
}  // namespace tideline
