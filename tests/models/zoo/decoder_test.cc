#include "models/zoo/decoder.h"

#include <gtest/gtest.h>

#include <map>

#include "models/ops/op_table.h"
#include "models/zoo/zoo.h"

namespace tideline {
namespace {

Graph Build(const std::string& model, const ModelShape& shape) {
  StatusOr<Graph> graph = BuildDecoder(ResolveDecoder(model).value(), shape);
  EXPECT_TRUE(graph.ok()) << graph.status();
  return *std::move(graph);
}

std::map<std::string, Tensor> ByName(const Graph& graph) {
  std::map<std::string, Tensor> tensors;
  for (const Tensor& tensor : graph.tensors) tensors[tensor.name] = tensor;
  return tensors;
}

double ModelFlops(const Graph& graph) {
  double flops = 0;
  for (const Node& node : graph.nodes) {
    std::vector<OperandSpec> operands;
    for (TensorId input : node.inputs) {
      operands.push_back({graph.tensors[input].shape, graph.tensors[input].dtype});
    }
    for (TensorId output : node.outputs) {
      operands.push_back(
          {graph.tensors[output].shape, graph.tensors[output].dtype, Access::kWrite});
    }
    flops += WorkOf(node.op, node.attributes, operands).model_flops;
  }
  return flops;
}

using Shape = std::vector<int64_t>;

constexpr char kGpt[] = "gpt:layers=3,hidden=12,heads=4,vocab=10,positions=16";
constexpr char kLlama[] = "llama:layers=2,hidden=12,heads=6,kv_heads=3,head_dim=4,vocab=10,ffn=20";

// DEFINITIONS 10: flops_forward + 2BLs^2h = 24BLsh^2(1 + s/6h) + 2BshV, so with causal attention
// at half, flops_forward = 24BLsh^2 + 2BLs^2h + 2BshV.
TEST(DecoderTest, ModelFlopsAreTheFormulas) {
  const double batch = 2, layers = 3, sequence = 7, hidden = 12, vocab = 10;
  EXPECT_EQ(ModelFlops(Build(kGpt, {.batch = 2, .sequence = 7})),
            24 * batch * layers * sequence * hidden * hidden +
                2 * batch * layers * sequence * sequence * hidden +
                2 * batch * sequence * hidden * vocab);
}

TEST(DecoderTest, GptHasTheShapesOfItsParts) {
  const auto tensors =
      ByName(Build(kGpt, {.batch = 2, .sequence = 7, .dtype = DType::kBF16, .vocab_multiple = 4}));
  EXPECT_EQ(tensors.at("embedding.weight").shape, (Shape{12, 12}));
  EXPECT_EQ(tensors.at("embedding.weight").valid_rows, 10);
  EXPECT_EQ(tensors.at("position.weight").shape, (Shape{16, 12}));
  EXPECT_EQ(tensors.at("layers.1.attention.qkv.weight").shape, (Shape{3, 12, 12}));
  EXPECT_EQ(tensors.at("layers.1.attention.qkv.bias").shape, (Shape{3, 12}));
  EXPECT_EQ(tensors.at("layers.1.attention.qkv").shape, (Shape{3, 2, 7, 12}));
  EXPECT_EQ(tensors.at("layers.1.attention.qkv").batch_dim, 1);
  const Tensor& key = tensors.at("layers.1.attention.k.heads");
  EXPECT_EQ(key.shape, (Shape{2, 7, 4, 3}));
  EXPECT_EQ(key.alias_offset, 2 * 7 * 12);
  EXPECT_EQ(tensors.at("layers.1.attention.scores").shape, (Shape{2, 4, 7, 7}));
  EXPECT_EQ(tensors.at("layers.1.mlp.up").shape, (Shape{2, 7, 48}));
  EXPECT_EQ(tensors.at("head.logits").shape, (Shape{2, 7, 12}));
  EXPECT_EQ(tensors.at("head.logits").dtype, DType::kBF16);
  EXPECT_EQ(tensors.at("head.loss").shape, (Shape{2, 7}));
  EXPECT_EQ(tensors.at("head.loss").dtype, DType::kF32);
  EXPECT_EQ(tensors.at("final_norm.mean").dtype, DType::kF32);
  EXPECT_FALSE(tensors.contains("head.weight"));
}

TEST(DecoderTest, LlamaHasTheShapesOfItsParts) {
  const Graph graph = Build(kLlama, {.batch = 2, .sequence = 7});
  const auto tensors = ByName(graph);
  EXPECT_EQ(tensors.at("layers.0.attention.q.weight").shape, (Shape{12, 24}));
  EXPECT_EQ(tensors.at("layers.0.attention.k.weight").shape, (Shape{12, 12}));
  EXPECT_EQ(tensors.at("layers.0.attention.q.groups").shape, (Shape{2, 7, 3, 2, 4}));
  EXPECT_EQ(tensors.at("layers.0.attention.scores").shape, (Shape{2, 3, 2, 7, 7}));
  EXPECT_EQ(tensors.at("layers.0.attention.context.merged").shape, (Shape{2, 7, 24}));
  EXPECT_EQ(tensors.at("head.weight").shape, (Shape{10, 12}));
  EXPECT_FALSE(tensors.contains("layers.0.mlp.up.bias"));
  EXPECT_FALSE(tensors.contains("position.weight"));
  EXPECT_EQ(graph.blocks, 4);
}

TEST(DecoderTest, BlocksAreContiguousAndTensorParallelDimensionsAreMegatrons) {
  for (const char* model : {kGpt, kLlama}) {
    const Graph graph = Build(model, {.batch = 1, .sequence = 4});
    for (size_t node = 1; node < graph.nodes.size(); ++node) {
      EXPECT_GE(graph.nodes[node].layer, graph.nodes[node - 1].layer);
      EXPECT_LE(graph.nodes[node].layer, graph.nodes[node - 1].layer + 1);
    }
    EXPECT_EQ(graph.nodes.front().layer, 0);
    EXPECT_EQ(graph.nodes.back().layer, graph.blocks - 1);
  }
  const auto gpt = ByName(Build(kGpt, {.batch = 1, .sequence = 4}));
  const std::pair<const char*, int32_t> cuts[] = {{"embedding.weight", 0},
                                                  {"position.weight", kNone},
                                                  {"layers.0.attention.qkv.weight", 2},
                                                  {"layers.0.attention.qkv.bias", 1},
                                                  {"layers.0.attention.output.weight", 0},
                                                  {"layers.0.attention.output.bias", kNone},
                                                  {"layers.0.mlp.up.weight", 1},
                                                  {"layers.0.mlp.up.bias", 0},
                                                  {"layers.0.mlp.down.weight", 0},
                                                  {"layers.0.mlp.down.bias", kNone},
                                                  {"layers.0.mlp.norm.weight", kNone}};
  for (const auto& [name, dimension] : cuts) {
    EXPECT_EQ(gpt.at(name).tensor_parallel_dim, dimension) << name;
  }
}

TEST(DecoderTest, ParametersSayHowTheyBeginAndDecay) {
  for (const auto& [name, tensor] : ByName(Build(kGpt, {.batch = 1, .sequence = 4}))) {
    if (tensor.role != TensorRole::kParameter) continue;
    const bool bias = name.ends_with(".bias");
    const bool norm = name.find("norm") != std::string::npos;
    EXPECT_EQ(tensor.decay, !bias && !norm) << name;
    EXPECT_EQ(tensor.init_stddev, bias || norm ? 0.0f : 0.02f) << name;
    EXPECT_EQ(tensor.init_value, norm && !bias ? 1.0f : 0.0f) << name;
    EXPECT_NE(tensor.layer, kNone) << name;
  }
}

TEST(DecoderTest, BatchIsOnlyAScaleAndTheHashIsStable) {
  for (const char* model : {kGpt, kLlama, "gpt2"}) {
    const Graph one = Build(model, {.batch = 1, .sequence = 8});
    const Graph five = Build(model, {.batch = 5, .sequence = 8});
    EXPECT_EQ(GraphHash(one), GraphHash(five)) << model;
    const Graph scaled = WithBatch(one, 5);
    for (size_t id = 0; id < five.tensors.size(); ++id) {
      EXPECT_EQ(scaled.tensors[id].shape, five.tensors[id].shape) << five.tensors[id].name;
      EXPECT_EQ(scaled.tensors[id].alias_offset, five.tensors[id].alias_offset);
    }
    EXPECT_NE(GraphHash(one), GraphHash(Build(model, {.batch = 1, .sequence = 9})));
    EXPECT_NE(GraphHash(one),
              GraphHash(Build(model, {.batch = 1, .sequence = 8, .dtype = DType::kBF16})));
  }
}

TEST(DecoderTest, SequenceBeyondLearnedPositionsIsRefusedWithBothNumbers) {
  const Status status =
      BuildDecoder(ResolveDecoder("gpt2").value(), {.batch = 1, .sequence = 1025}).status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_NE(std::string(status.message()).find("1025"), std::string::npos);
  EXPECT_NE(std::string(status.message()).find("1024"), std::string::npos);
  EXPECT_TRUE(
      BuildDecoder(ResolveDecoder("llama-7b").value(), {.batch = 1, .sequence = 4096}).ok());
}

TEST(DecoderTest, ImplausibleShapesAndConfigurationsAreRefused) {
  const DecoderConfig gpt = ResolveDecoder(kGpt).value();
  for (const ModelShape& shape :
       {ModelShape{.batch = 0, .sequence = 4}, ModelShape{.batch = 1, .sequence = 0},
        ModelShape{.batch = int64_t{1} << 62, .sequence = 8},
        ModelShape{.batch = 1, .sequence = 4, .vocab_multiple = 0}}) {
    EXPECT_EQ(ExitCode(BuildDecoder(gpt, shape).status()), 2);
  }
  DecoderConfig huge = ResolveDecoder(kLlama).value();
  huge.vocab = int64_t{1} << 28;
  huge.hidden = int64_t{1} << 24;
  EXPECT_EQ(ExitCode(BuildDecoder(huge, {.batch = 1, .sequence = int64_t{1} << 32}).status()), 5);
  for (int64_t DecoderConfig::*field :
       {&DecoderConfig::layers, &DecoderConfig::hidden, &DecoderConfig::heads,
        &DecoderConfig::kv_heads, &DecoderConfig::head_dim, &DecoderConfig::ffn,
        &DecoderConfig::vocab, &DecoderConfig::max_positions}) {
    for (int64_t value : {int64_t{0}, int64_t{-1}, int64_t{1} << 40}) {
      DecoderConfig config = gpt;
      config.*field = value;
      EXPECT_EQ(ExitCode(ValidateConfig(config)), 5);
    }
  }
  DecoderConfig config = gpt;
  config.norm_epsilon = 0;
  EXPECT_EQ(ExitCode(ValidateConfig(config)), 5);
  config = ResolveDecoder(kLlama).value();
  config.rotary.theta = -1;
  EXPECT_EQ(ExitCode(ValidateConfig(config)), 5);
}

}  // namespace
}  // namespace tideline
