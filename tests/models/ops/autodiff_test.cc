#include "models/ops/autodiff.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>

#include "models/zoo/convnet.h"
#include "models/zoo/decoder.h"
#include "models/zoo/graph_builder.h"
#include "tests/models/ops/fp64_interpreter.h"

namespace tideline {
namespace {

constexpr float kLossScale = 0.25f;

DecoderConfig TinyGpt() {
  DecoderConfig config;
  config.name = "tiny-gpt";
  config.layers = 2;
  config.hidden = 6;
  config.heads = config.kv_heads = 2;
  config.head_dim = 3;
  config.ffn = 10;
  config.vocab = 7;
  config.max_positions = 5;
  config.fused_qkv = config.attention_bias = config.output_bias = config.mlp_bias = true;
  config.tied_embedding = true;
  return config;
}

DecoderConfig TinyOpt() {
  DecoderConfig config = TinyGpt();
  config.name = "tiny-opt";
  config.fused_qkv = false;
  config.activation = ActivationKind::kRelu;
  config.position_offset = 2;
  return config;
}

DecoderConfig TinyLlama() {
  DecoderConfig config;
  config.name = "tiny-llama";
  config.layers = 2;
  config.hidden = 6;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 4;
  config.ffn = 5;
  config.vocab = 7;
  config.max_positions = 64;
  config.norm = NormKind::kRmsNorm;
  config.activation = ActivationKind::kSwiGlu;
  config.position = PositionKind::kRotary;
  config.rotary = {.theta = 100.0,
                   .factor = 8.0,
                   .low_frequency_factor = 1.0,
                   .high_frequency_factor = 4.0,
                   .original_positions = 40};
  return config;
}

TensorId Find(const Graph& graph, const std::string& name) {
  for (size_t id = 0; id < graph.tensors.size(); ++id) {
    if (graph.tensors[id].name == name) return static_cast<TensorId>(id);
  }
  ADD_FAILURE() << "no tensor " << name;
  return 0;
}

const Node& FindNode(const Graph& graph, const std::string& name) {
  for (const Node& node : graph.nodes) {
    if (node.name == name) return node;
  }
  ADD_FAILURE() << "no node " << name;
  return graph.nodes[0];
}

// Random parameters; random tokens below the true vocabulary.
void FillInputs(const Graph& graph, int64_t vocab, Fp64Interpreter& interpreter) {
  std::mt19937_64 generator(7);
  std::uniform_real_distribution<double> real(-0.8, 0.8);
  for (size_t id = 0; id < graph.tensors.size(); ++id) {
    const Tensor& tensor = graph.tensors[id];
    const TensorId tensor_id = static_cast<TensorId>(id);
    double* values = interpreter.Values(tensor_id);
    for (int64_t i = 0; i < interpreter.Count(tensor_id); ++i) {
      if (tensor.role == TensorRole::kInput) {
        values[i] = tensor.dtype == DType::kI32 ? static_cast<double>(generator() % vocab)
                                                : real(generator);
      }
      if (tensor.role == TensorRole::kParameter) values[i] = real(generator);
    }
  }
}

double Loss(const Graph& graph, size_t forward_nodes, Fp64Interpreter& interpreter) {
  interpreter.Run(0, forward_nodes);
  double sum = 0;
  for (double token : interpreter.Copy(graph.loss)) sum += token;
  return kLossScale * sum;
}

// Compares the gradient (uses added up) of every parameter, at some two dozen elements spread over
// it, with central differences.
void ExpectGradientsMatchDifferences(const Graph& forward, int64_t vocab) {
  const StatusOr<Graph> training = Differentiate(forward, kLossScale, DType::kF32);
  ASSERT_TRUE(training.ok()) << training.status();
  ASSERT_TRUE(ValidateGraph(*training).ok()) << ValidateGraph(*training);
  Fp64Interpreter interpreter(*training);
  FillInputs(*training, vocab, interpreter);
  const size_t forward_nodes = forward.nodes.size();
  interpreter.Run(0, training->nodes.size());
  std::map<TensorId, std::vector<double>> gradients;
  for (size_t id = 0; id < training->tensors.size(); ++id) {
    const Tensor& tensor = training->tensors[id];
    if (tensor.role != TensorRole::kParameterGradient) continue;
    std::vector<double>& total = gradients[tensor.gradient_of];
    const std::vector<double> part = interpreter.Copy(static_cast<TensorId>(id));
    total.resize(part.size());
    for (size_t i = 0; i < part.size(); ++i) total[i] += part[i];
  }
  constexpr double kStep = 1e-5;
  int checked = 0;
  for (size_t id = 0; id < training->tensors.size(); ++id) {
    if (training->tensors[id].role != TensorRole::kParameter) continue;
    const TensorId parameter = static_cast<TensorId>(id);
    ASSERT_TRUE(gradients.contains(parameter)) << training->tensors[id].name;
    double* values = interpreter.Values(parameter);
    const int64_t stride = (interpreter.Count(parameter) + 23) / 24;
    for (int64_t i = 0; i < interpreter.Count(parameter); i += stride) {
      const double saved = values[i];
      values[i] = saved + kStep;
      const double above = Loss(*training, forward_nodes, interpreter);
      values[i] = saved - kStep;
      const double below = Loss(*training, forward_nodes, interpreter);
      values[i] = saved;
      EXPECT_NEAR(gradients[parameter][i], (above - below) / (2 * kStep), 2e-8)
          << training->tensors[id].name << "[" << i << "]";
      ++checked;
    }
  }
  EXPECT_GT(checked, 0);
}

Graph Build(const DecoderConfig& config, int64_t batch, int64_t sequence,
            int64_t vocab_multiple = 1, DType dtype = DType::kF32) {
  StatusOr<Graph> graph = BuildDecoder(
      config,
      {.batch = batch, .sequence = sequence, .dtype = dtype, .vocab_multiple = vocab_multiple});
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

TEST(AutodiffTest, GptGradientsMatchFiniteDifferences) {
  ExpectGradientsMatchDifferences(Build(TinyGpt(), 2, 5), 7);
}

TEST(AutodiffTest, OptGradientsMatchFiniteDifferences) {
  ExpectGradientsMatchDifferences(Build(TinyOpt(), 1, 4), 7);
}

TEST(AutodiffTest, LlamaGradientsMatchFiniteDifferences) {
  ExpectGradientsMatchDifferences(Build(TinyLlama(), 2, 5), 7);
}

TEST(AutodiffTest, PaddedVocabularyGradientsMatchFiniteDifferences) {
  ExpectGradientsMatchDifferences(Build(TinyGpt(), 1, 3, 4), 7);
}

TEST(AutodiffTest, OneTokenOneHeadGradientsMatchFiniteDifferences) {
  DecoderConfig config = TinyLlama();
  config.heads = config.kv_heads = 1;
  ExpectGradientsMatchDifferences(Build(config, 1, 1), 7);
}

Graph BuildFused(const DecoderConfig& config, int64_t batch, int64_t sequence,
                 DType dtype = DType::kF32) {
  StatusOr<Graph> graph = BuildDecoder(
      config, {.batch = batch, .sequence = sequence, .dtype = dtype, .fused_attention = true});
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

TEST(AutodiffTest, FusedAttentionGradientsMatchFiniteDifferences) {
  ExpectGradientsMatchDifferences(BuildFused(TinyGpt(), 2, 5), 7);
  ExpectGradientsMatchDifferences(BuildFused(TinyOpt(), 1, 4), 7);
  ExpectGradientsMatchDifferences(BuildFused(TinyLlama(), 2, 5), 7);
}

TEST(AutodiffTest, DropoutGradientsMatchFiniteDifferences) {
  for (DecoderConfig config : {TinyGpt(), TinyLlama()}) {
    config.dropout = 0.25;
    ExpectGradientsMatchDifferences(Build(config, 2, 5), 7);
    ExpectGradientsMatchDifferences(BuildFused(config, 2, 5), 7);
  }
}

// Fused and unfused attention are one function, with and without dropout, and dropout changes it.
TEST(AutodiffTest, FusedAttentionIsTheUnfusedFunction) {
  std::set<double> losses;
  for (const DecoderConfig& model : {TinyGpt(), TinyOpt(), TinyLlama()}) {
    for (const double dropout : {0.0, 0.3}) {
      DecoderConfig config = model;
      config.dropout = dropout;
      double loss[2];
      for (const bool fused : {false, true}) {
        const Graph graph = fused ? BuildFused(config, 2, 5) : Build(config, 2, 5);
        Fp64Interpreter interpreter(graph);
        FillInputs(graph, 7, interpreter);
        loss[fused] = Loss(graph, graph.nodes.size(), interpreter);
      }
      EXPECT_NEAR(loss[0], loss[1], 1e-12) << config.name << " dropout " << dropout;
      losses.insert(loss[0]);
    }
  }
  EXPECT_EQ(losses.size(), 6u);
}

// Both blocks, both stems, strides, shortcuts, a transition, padded classes.
TEST(AutodiffTest, ConvNetGradientsMatchFiniteDifferences) {
  ConvNetConfig config;
  config.name = "tiny-resnet";
  config.stages = {1, 1};
  config.width = 3;
  config.image = 9;
  config.classes = 5;
  const auto build = [&](int64_t vocab_multiple) {
    StatusOr<Graph> graph =
        BuildConvNet(config, {.batch = 2, .sequence = 1, .vocab_multiple = vocab_multiple});
    EXPECT_TRUE(graph.ok()) << graph.status();
    return *std::move(graph);
  };
  ExpectGradientsMatchDifferences(build(1), 5);
  config.block = ResidualBlock::kBottleneck;
  config.stem = ImageStem::kSmall;
  config.image = 4;
  ExpectGradientsMatchDifferences(build(4), 5);
  config.kind = ConvNetKind::kDenseNet;
  config.stages = {2, 1};
  config.growth = 2;
  ExpectGradientsMatchDifferences(build(1), 5);
  config.stem = ImageStem::kStandard;
  config.image = 16;
  ExpectGradientsMatchDifferences(build(1), 5);
}

// Patches under a product, joined with themselves, through a norm: what no network of the zoo has.
TEST(AutodiffTest, GradientsGoThroughPatchesAndJoins) {
  Graph graph;
  graph.name = "patches";
  graph.blocks = 1;
  graph.batch = 2;
  graph.sequence = 4;
  GraphBuilder builder(graph, DType::kF32);
  const TensorId images = builder.Images("images", {2, 4, 6});
  const TensorId labels = builder.Tokens("labels");
  const TensorId weight = builder.Parameter("weight", {3, 2, 1, 1}, {});
  const TensorId x = builder.Apply(Op::kConvolution, {}, {images, weight}, {"x"})[0];
  Attributes attributes;
  attributes.window = {.height = 2, .width = 3};
  const TensorId cut = builder.Apply(Op::kPatches, attributes, {x}, {"cut"})[0];
  attributes = {};
  attributes.dimension = 2;
  const TensorId joined = builder.Apply(Op::kConcat, attributes, {cut, cut}, {"joined"})[0];
  EXPECT_EQ(graph.tensors[joined].shape, (std::vector<int64_t>{2, 4, 36}));
  const TensorId head = builder.Parameter("head", {5, 36}, {});
  attributes = {};
  attributes.equation = "bsh,vh->bsv";
  const TensorId logits = builder.Apply(Op::kEinsum, attributes, {joined, head}, {"logits"})[0];
  attributes = {};
  attributes.valid_columns = 5;
  graph.loss = builder.Apply(Op::kCrossEntropy, attributes, {logits, labels}, {"loss", "lse"})[0];
  ASSERT_TRUE(builder.status().ok()) << builder.status();
  ExpectGradientsMatchDifferences(graph, 5);
}

// The image needs no gradient, so the first convolution makes none, in any type.
TEST(AutodiffTest, NothingIsMadeForInputs) {
  ConvNetConfig config;
  config.name = "tiny-resnet";
  config.stages = {1};
  config.image = 8;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const StatusOr<Graph> forward =
        BuildConvNet(config, {.batch = 1, .sequence = 1, .dtype = dtype});
    ASSERT_TRUE(forward.ok()) << forward.status();
    const StatusOr<Graph> training = Differentiate(*forward, kLossScale, DType::kF32);
    ASSERT_TRUE(training.ok()) << training.status();
    int of_weights = 0, of_images = 0;
    for (const Node& node : training->nodes) {
      of_weights += node.op == Op::kConvolutionWeightGrad;
      of_images += node.op == Op::kConvolutionGrad;
    }
    EXPECT_EQ(of_weights, 3);
    EXPECT_EQ(of_images, 2);
  }
}

// A graph for ops and aliases that no decoder has: tokens, a table, `wire`, cross entropy.
class CustomGraph {
 public:
  CustomGraph() : builder(graph, DType::kF32) {
    graph.name = "custom";
    graph.blocks = 1;
    graph.batch = 2;
    graph.sequence = 3;
    ids = builder.Tokens("ids");
    targets = builder.Tokens("targets");
    table = builder.Parameter("table", {4, 4}, {});
    x = builder.Apply(Op::kEmbedding, {}, {ids, table}, {"x"})[0];
  }
  // Ends in a cross entropy over `logits` [2, 3, 4].
  Graph Finish(TensorId logits) {
    Attributes attributes;
    attributes.valid_columns = 4;
    graph.loss =
        builder.Apply(Op::kCrossEntropy, attributes, {logits, targets}, {"loss", "lse"})[0];
    EXPECT_TRUE(builder.status().ok()) << builder.status();
    EXPECT_TRUE(ValidateGraph(graph).ok()) << ValidateGraph(graph);
    return graph;
  }

  Graph graph;
  GraphBuilder builder;
  TensorId ids, targets, table, x;
};

TEST(AutodiffTest, AddBiasAndCastGradients) {
  CustomGraph custom;
  const TensorId bias = custom.builder.Parameter("bias", {4}, {});
  TensorId y = custom.builder.Apply(Op::kAddBias, {}, {custom.x, bias}, {"y"})[0];
  y = custom.builder.Apply(Op::kCast, {}, {y}, {"cast"})[0];
  ExpectGradientsMatchDifferences(custom.Finish(y), 4);
}

TEST(AutodiffTest, ManyUsesOfOneActivationAreAddedInOrderOfUse) {
  CustomGraph custom;
  const TensorId a = custom.builder.Apply(Op::kGelu, {}, {custom.x}, {"a"})[0];
  const TensorId b = custom.builder.Apply(Op::kRelu, {}, {custom.x}, {"b"})[0];
  const TensorId c = custom.builder.Apply(Op::kSwiGlu, {}, {custom.x, a}, {"c"})[0];
  const TensorId d = custom.builder.Apply(Op::kAdd, {}, {b, custom.x}, {"d"})[0];
  const TensorId y = custom.builder.Apply(Op::kAdd, {}, {c, d}, {"y"})[0];
  const Graph forward = custom.Finish(y);
  ExpectGradientsMatchDifferences(forward, 4);
  // Uses of x: gelu 0, relu 1, swiglu 2, add 3 (the passed-on gradient of y).
  const Graph training = Differentiate(forward, kLossScale, DType::kF32).value();
  const Node& first = FindNode(training, "grad:x:sum.1");
  EXPECT_EQ(training.tensors[first.inputs[0]].name, "x.grad.0");
  EXPECT_EQ(training.tensors[first.inputs[1]].name, "x.grad.1");
  const Node& second = FindNode(training, "grad:x:sum.2");
  EXPECT_EQ(second.inputs[0], first.outputs[0]);
  EXPECT_EQ(training.tensors[second.inputs[1]].name, "x.grad.2");
  const Node& third = FindNode(training, "grad:x:sum");
  EXPECT_EQ(training.tensors[third.inputs[1]].name, "y.grad");
  EXPECT_EQ(training.tensors[third.outputs[0]].name, "x.grad");
}

// Two halves of one tensor: one half's gradient is passed on by kAdd and must be copied into its
// place, the other is written in place.
TEST(AutodiffTest, GradientsOfSlicesBecomeSlices) {
  CustomGraph custom;
  const TensorId weight = custom.builder.Parameter("weight", {2, 4, 4}, {});
  Attributes attributes;
  attributes.equation = "bsk,qkn->qbsn";
  const TensorId both =
      custom.builder.Apply(Op::kEinsum, attributes, {custom.x, weight}, {"both"})[0];
  const TensorId low = custom.builder.View("low", both, {2, 3, 4}, 0, 0);
  const TensorId high = custom.builder.View("high", both, {2, 3, 4}, 24, 0);
  const TensorId gelu = custom.builder.Apply(Op::kGelu, {}, {low}, {"gelu"})[0];
  const Graph forward = custom.Finish(custom.builder.Apply(Op::kAdd, {}, {gelu, high}, {"y"})[0]);
  ExpectGradientsMatchDifferences(forward, 4);
  const Graph training = Differentiate(forward, kLossScale, DType::kF32).value();
  const TensorId whole = Find(training, "both.grad");
  EXPECT_EQ(training.tensors[Find(training, "low.grad")].alias_of, whole);
  EXPECT_EQ(training.tensors[Find(training, "high.grad.slice")].alias_of, whole);
  EXPECT_EQ(training.tensors[Find(training, "high.grad.slice")].alias_offset, 24);
}

TEST(AutodiffTest, ViewsOfOneTensorUnderTwoShapes) {
  CustomGraph custom;
  const TensorId flat = custom.builder.View("flat", custom.x, {6, 4}, 0, kNone);
  const TensorId gelu = custom.builder.Apply(Op::kGelu, {}, {flat}, {"gelu"})[0];
  const TensorId back = custom.builder.View("back", gelu, {2, 3, 4}, 0, 0);
  ExpectGradientsMatchDifferences(
      custom.Finish(custom.builder.Apply(Op::kAdd, {}, {back, custom.x}, {"y"})[0]), 4);
}

TEST(AutodiffTest, RefusalsSayWhy) {
  CustomGraph no_loss;
  const Status missing = Differentiate(no_loss.graph, 1, DType::kF32).status();
  EXPECT_EQ(ExitCode(missing), 5);
  EXPECT_NE(std::string(missing.message()).find("no loss"), std::string::npos);

  no_loss.graph.loss = no_loss.x;
  const Status wrong = Differentiate(no_loss.graph, 1, DType::kF32).status();
  EXPECT_NE(std::string(wrong.message()).find("not made by a cross entropy"), std::string::npos);

  CustomGraph no_rule;
  const TensorId sum = no_rule.builder.Apply(Op::kAllReduce, {}, {no_rule.x}, {"everywhere"})[0];
  const Status rule = Differentiate(no_rule.Finish(sum), 1, DType::kF32).status();
  EXPECT_EQ(ExitCode(rule), 5);
  EXPECT_NE(std::string(rule.message()).find("all_reduce has no gradient"), std::string::npos);

  CustomGraph half;
  const TensorId weight = half.builder.Parameter("weight", {2, 4, 4}, {});
  Attributes attributes;
  attributes.equation = "bsk,qkn->qbsn";
  const TensorId both = half.builder.Apply(Op::kEinsum, attributes, {half.x, weight}, {"both"})[0];
  const Status partial =
      Differentiate(half.Finish(half.builder.View("low", both, {2, 3, 4}, 0, 0)), 1, DType::kF32)
          .status();
  EXPECT_NE(std::string(partial.message()).find("do not tile"), std::string::npos);
}

TEST(AutodiffTest, EachUseOfATiedTableHasItsOwnGradient) {
  const Graph training = Differentiate(Build(TinyGpt(), 1, 3), 1, DType::kF32).value();
  const Tensor& embedding = training.tensors[Find(training, "embedding.weight.grad.0")];
  const Tensor& head = training.tensors[Find(training, "embedding.weight.grad.1")];
  EXPECT_EQ(embedding.layer, 0);
  EXPECT_EQ(head.layer, 3);
  EXPECT_EQ(embedding.gradient_of, head.gradient_of);
  EXPECT_EQ(training.nodes[embedding.producer].op, Op::kEmbeddingGrad);
  EXPECT_EQ(training.nodes[head.producer].op, Op::kEinsum);
  // An untied model has one use of each.
  const Graph llama = Differentiate(Build(TinyLlama(), 1, 3), 1, DType::kF32).value();
  EXPECT_EQ(llama.tensors[Find(llama, "embedding.weight.grad")].layer, 0);
}

TEST(AutodiffTest, BackwardNodesFollowTheConventions) {
  const Graph forward = Build(TinyGpt(), 2, 5, 1, DType::kBF16);
  const Graph training = Differentiate(forward, 0.5f, DType::kF32).value();
  for (size_t id = forward.nodes.size(); id < training.nodes.size(); ++id) {
    const Node& node = training.nodes[id];
    EXPECT_EQ(node.phase, Phase::kBackward);
    EXPECT_EQ(node.layer, training.nodes[node.forward_node].layer) << node.name;
    bool makes_parameter_gradient = false;
    for (TensorId output : node.outputs) {
      const Tensor& tensor = training.tensors[output];
      if (tensor.role == TensorRole::kParameterGradient) {
        makes_parameter_gradient = true;
        EXPECT_EQ(tensor.dtype, DType::kF32);
      } else {
        EXPECT_EQ(tensor.dtype, DType::kBF16);
        EXPECT_EQ(tensor.shape, training.tensors[tensor.gradient_of].shape);
      }
    }
    EXPECT_EQ(node.attributes.accumulate, makes_parameter_gradient) << node.name;
  }
  // Blocks come in descending order, so a stage is a contiguous range backward too.
  for (size_t id = forward.nodes.size() + 1; id < training.nodes.size(); ++id) {
    EXPECT_LE(training.nodes[id].layer, training.nodes[id - 1].layer) << training.nodes[id].name;
  }
  // Weight gradients sum over tokens in order; key gradients are causal like their scores.
  EXPECT_EQ(FindNode(training, "grad:layers.0.mlp.up:b").attributes.equation, "bsn,bsk->kn");
  EXPECT_EQ(FindNode(training, "grad:layers.0.attention.qkv:a").attributes.equation,
            "qbsn,qkn->bsk");
  EXPECT_EQ(FindNode(training, "grad:layers.0.attention.qkv:bias").attributes.equation, "qbsn->qn");
  EXPECT_TRUE(FindNode(training, "grad:layers.1.attention.scores:b").attributes.causal);
  EXPECT_FLOAT_EQ(FindNode(training, "grad:head.loss:logits").attributes.loss_scale, 0.5f);
  // The residual stream's gradient is summed where the layer begins.
  EXPECT_EQ(FindNode(training, "grad:layers.0.mlp.residual:sum").layer, 2);
}

int64_t SavedBytes(const Graph& forward) {
  const Graph training = Differentiate(forward, 1, DType::kF32).value();
  int64_t bytes = 0;
  for (TensorId storage : SavedStorages(training)) bytes += Bytes(training.tensors[storage]);
  return bytes;
}

// DEFINITIONS 10: one more GPT layer at 16 bit and unfused attention keeps 32sbh + 2as^2b + 16sb
// bytes: layer input, two norm outputs, q, k, v, context, MLP input residual (8 x 2sbh = 16sbh),
// GELU input and output (16sbh), probabilities 2as^2b, two norms' statistics 2 x 8sb.
TEST(AutodiffTest, SavedBytesOfAGptLayer) {
  struct Size {
    int64_t batch, sequence, heads, head_dim;
  };
  for (const Size& size : {Size{1, 1, 1, 1}, Size{2, 5, 2, 3}, Size{3, 17, 4, 8}}) {
    DecoderConfig config = TinyGpt();
    config.heads = config.kv_heads = size.heads;
    config.head_dim = size.head_dim;
    config.hidden = size.heads * size.head_dim;
    config.ffn = 4 * config.hidden;
    config.max_positions = 64;
    const auto bytes = [&](int64_t layers) {
      config.layers = layers;
      return SavedBytes(Build(config, size.batch, size.sequence, 1, DType::kBF16));
    };
    const int64_t sb = size.sequence * size.batch;
    const int64_t expected =
        32 * sb * config.hidden + 2 * size.heads * size.sequence * sb + 16 * sb;
    EXPECT_EQ(bytes(2) - bytes(1), expected);
    EXPECT_EQ(bytes(5) - bytes(4), expected);
  }
}

// Fused: no probabilities, but a log-sum-exp of 4 bytes per query and head. Dropout keeps no masks;
// unfused, the dropped probabilities are kept beside the probabilities.
TEST(AutodiffTest, SavedBytesOfALayerWithFusedAttentionAndDropout) {
  const int64_t batch = 3, sequence = 17, heads = 4;
  DecoderConfig config = TinyGpt();
  config.heads = config.kv_heads = heads;
  config.head_dim = 8;
  config.hidden = 32;
  config.ffn = 128;
  config.max_positions = 64;
  const int64_t sb = sequence * batch;
  for (const double dropout : {0.0, 0.1}) {
    config.dropout = dropout;
    const auto bytes = [&](int64_t layers, bool fused) {
      config.layers = layers;
      return SavedBytes(fused ? BuildFused(config, batch, sequence, DType::kBF16)
                              : Build(config, batch, sequence, 1, DType::kBF16));
    };
    const int64_t unfused = dropout > 0 ? 4 : 2;
    EXPECT_EQ(bytes(2, true) - bytes(1, true), 32 * sb * 32 + 4 * heads * sb + 16 * sb);
    EXPECT_EQ(bytes(2, false) - bytes(1, false),
              32 * sb * 32 + unfused * heads * sequence * sb + 16 * sb);
  }
}

TEST(AutodiffTest, SavedStoragesAreCountedOnceAndLeaveOutWhatIsNotRead) {
  const Graph forward = Build(TinyOpt(), 1, 4);
  const Graph training = Differentiate(forward, 1, DType::kF32).value();
  const std::vector<TensorId> saved = SavedStorages(training);
  std::set<std::string> names;
  for (TensorId storage : saved) {
    EXPECT_TRUE(names.insert(training.tensors[storage].name).second);
    EXPECT_EQ(training.tensors[storage].alias_of, kNone);
    EXPECT_NE(training.tensors[storage].role, TensorRole::kParameter);
  }
  EXPECT_TRUE(std::is_sorted(saved.begin(), saved.end()));
  // ReLU keeps its output, which the next product keeps too; its input is not kept, nor are scores.
  EXPECT_TRUE(names.contains("layers.0.mlp.activation"));
  EXPECT_FALSE(names.contains("layers.0.mlp.up"));
  EXPECT_FALSE(names.contains("layers.0.attention.scores"));
  EXPECT_FALSE(names.contains("layers.0.attention.output"));
  EXPECT_TRUE(names.contains("ids"));
  EXPECT_TRUE(names.contains("head.logits"));
  EXPECT_FALSE(names.contains("head.loss"));
}

}  // namespace
}  // namespace tideline
