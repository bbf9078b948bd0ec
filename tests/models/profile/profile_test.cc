#include "models/profile/profile.h"

#include <gtest/gtest.h>

#include "models/ops/autodiff.h"
#include "models/zoo/graph_builder.h"
#include "models/zoo/zoo.h"

namespace tideline {
namespace {

Profile Of(const std::string& model, const ModelShape& shape) {
  StatusOr<Profile> profile = ProfileModel(ResolveDecoder(model).value(), shape);
  EXPECT_TRUE(profile.ok()) << profile.status();
  return *std::move(profile);
}

const NodeProfile& NodeNamed(const Graph& graph, const Profile& profile, const std::string& name) {
  for (const NodeProfile& node : profile.nodes) {
    if (graph.nodes[node.node].name == name) return node;
  }
  ADD_FAILURE() << "no node " << name;
  return profile.nodes[0];
}

// x[1,8,16] (a look-up in 20 rows) -> linear 16x32 -> relu -> linear 32x4 -> cross entropy, fp32.
Graph TwoLinears() {
  Graph graph;
  graph.name = "two linears";
  graph.blocks = 1;
  graph.sequence = 8;
  GraphBuilder builder(graph, DType::kF32);
  const TensorId ids = builder.Tokens("ids");
  const TensorId targets = builder.Tokens("targets");
  const TensorId table = builder.Parameter("table", {20, 16}, {});
  const TensorId first = builder.Parameter("first.weight", {16, 32}, {});
  const TensorId second = builder.Parameter("second.weight", {32, 4}, {});
  Attributes linear;
  linear.equation = "bsk,kn->bsn";
  const TensorId x = builder.Apply(Op::kEmbedding, {}, {ids, table}, {"x"})[0];
  TensorId y = builder.Apply(Op::kEinsum, linear, {x, first}, {"first"})[0];
  y = builder.Apply(Op::kRelu, {}, {y}, {"relu"})[0];
  y = builder.Apply(Op::kEinsum, linear, {y, second}, {"second"})[0];
  Attributes entropy;
  entropy.valid_columns = 4;
  graph.loss = builder.Apply(Op::kCrossEntropy, entropy, {y, targets}, {"loss", "lse"})[0];
  EXPECT_TRUE(builder.status().ok()) << builder.status();
  return Differentiate(graph, 1, DType::kF32).value();
}

// By hand: forward 8192 FLOP, backward 16384, saved 512 B, output 1024 B,
// dX 512 B, dW 2048 B. The ReLU output (1024 B) is saved once, the first linear's output is not.
TEST(ProfileTest, TheWorkedLinear) {
  const Graph graph = TwoLinears();
  const Profile profile = ProfileGraph(graph);
  const NodeProfile& linear = NodeNamed(graph, profile, "first");
  EXPECT_EQ(linear.flops_forward, 8192);
  EXPECT_EQ(linear.flops_backward, 16384);
  EXPECT_EQ(linear.fwd_in_bytes, 512);
  EXPECT_EQ(linear.fwd_out_bytes, 1024);
  EXPECT_EQ(linear.fwd_tmp_bytes, 0);
  EXPECT_EQ(linear.saved_bytes, 0);
  EXPECT_EQ(linear.bwd_out_bytes, 512);
  EXPECT_EQ(linear.parameter_gradient_bytes, 2048);
  EXPECT_EQ(linear.bytes_forward, 512 + 2048 + 1024);
  // dX reads dY and W, writes dX; dW reads dY and X, reads and writes dW.
  EXPECT_EQ(linear.bytes_backward, (1024 + 2048 + 512) + (1024 + 512 + 2 * 2048));
  const NodeProfile& relu = NodeNamed(graph, profile, "relu");
  EXPECT_EQ(relu.saved_bytes, 1024);
  EXPECT_EQ(relu.fwd_in_bytes, 0);
  EXPECT_EQ(NodeNamed(graph, profile, "x").saved_bytes, 512 + 32);  // with the ids
  EXPECT_EQ(profile.parameters, 20 * 16 + 16 * 32 + 32 * 4);
}

// Saved: ids and targets 32 B each, x 512, relu 1024, logits 128, lse 32, loss 32.
// Transients: the first linear's output (1024 B) is dropped after the ReLU. Backward of `first`
// adds dX (512 B) and releases dY (1024) and x (512) at its end only: peak 512.
// Level in list order: 64 tokens; x 576; first 1600; relu 2624, first dropped 1600; logits 1728;
// loss and lse 1792; dlogits 1920, then logits, lse and targets go: 1728; drelu 2752, dlogits goes
// 2624; dfirst 3648 (the peak), drelu and relu go 1600; dx 2112.
TEST(ProfileTest, TransientsAndPeakByHand) {
  const Graph graph = TwoLinears();
  const Profile profile = ProfileGraph(graph);
  EXPECT_EQ(profile.saved_activation_bytes, 64 + 512 + 1024 + 128 + 32 + 32);
  EXPECT_EQ(NodeNamed(graph, profile, "first").fwd_transient_bytes, 1024);
  EXPECT_EQ(NodeNamed(graph, profile, "relu").fwd_transient_bytes, 1024);
  EXPECT_EQ(NodeNamed(graph, profile, "second").fwd_transient_bytes, 0);
  EXPECT_EQ(NodeNamed(graph, profile, "first").bwd_transient_bytes, 512);
  EXPECT_EQ(NodeNamed(graph, profile, "relu").bwd_transient_bytes, 1024);
  EXPECT_EQ(NodeNamed(graph, profile, "loss").bwd_transient_bytes, 128);
  EXPECT_EQ(profile.peak_activation_bytes, 3648);
}

// DEFINITIONS 10: 24BLsh^2 + 2BLs^2h + 2BshV forward, twice that backward.
TEST(ProfileTest, FlopsOfAGptAreTheFormula) {
  struct Model {
    const char* name;
    double layers, hidden;
  };
  const double vocab = 50257, batch = 3, sequence = 512;
  for (const Model& model : {Model{"gpt2", 12, 768}, Model{"gpt3-175b", 96, 12288}}) {
    const Profile profile = Of(model.name, {.batch = 3, .sequence = 512});
    const double expected = 24 * batch * model.layers * sequence * model.hidden * model.hidden +
                            2 * batch * model.layers * sequence * sequence * model.hidden +
                            2 * batch * sequence * model.hidden * vocab;
    EXPECT_EQ(profile.flops_forward, expected) << model.name;
    EXPECT_EQ(profile.flops_backward, 2 * expected) << model.name;
    // Executed: the masked half as well.
    EXPECT_EQ(profile.executed_flops_forward,
              expected + 2 * batch * model.layers * sequence * sequence * model.hidden);
  }
}

// LLaMA 2 70B, per token and layer: q and output 2 x 2 x 8192^2, k and v 2 x 2 x 8192 x 1024, MLP
// 3 x 2 x 8192 x 28672; attention 2 s x 8192 (causal half of 4); head 2 x 8192 x 32000.
TEST(ProfileTest, FlopsOfGroupedQueries) {
  const double tokens = 1024, sequence = 1024;
  const double layer =
      2 * 2 * 8192.0 * 8192 + 2 * 2 * 8192.0 * 1024 + 3 * 2 * 8192.0 * 28672 + 2 * sequence * 8192;
  EXPECT_EQ(Of("llama2-70b", {.batch = 1, .sequence = 1024}).flops_forward,
            tokens * (80 * layer + 2 * 8192.0 * 32000));
}

// By hand, s = h = 1024, b = 1, a = 16, without dropout:
// 32sbh + 2as^2b + 16sb = 33554432 + 33554432 + 16384 = 67125248 B per layer at 16 bit.
TEST(ProfileTest, SavedBytesOfTheWorkedLayer) {
  const ModelShape shape{.batch = 1, .sequence = 1024, .dtype = DType::kBF16};
  const int64_t two = Of("gpt:layers=2,hidden=1024,heads=16", shape).saved_activation_bytes;
  const int64_t one = Of("gpt:layers=1,hidden=1024,heads=16", shape).saved_activation_bytes;
  EXPECT_EQ(two - one, 67'125'248);
  // The rest of a model with V = 50257: final norm in and out 4sbh and its statistics 8sb, logits
  // 2sbV, lse and loss 8sb, tokens 8sb; the first layer's input is the layer's own.
  const int64_t sb = 1024;
  EXPECT_EQ(one - 67'125'248, 4 * sb * 1024 + 8 * sb + 2 * sb * 50257 + 8 * sb + 8 * sb);
}

// The same layer with fused attention: 32sbh + 4as b + 16sb, 16 heads of 1024 log-sum-exps in the
// place of 32 MiB of probabilities. Executed: of 16 blocks of 64 keys, queries 64 i to 1023 meet
// block i, so 64^2 (16 + 15 + ... + 1) = 557056 pairs instead of 2^20, each 2 x 64 FLOPs per head
// in two products forward and seven backward. The model's FLOPs are those of unfused attention.
TEST(ProfileTest, FusedAttentionSavesNoProbabilities) {
  ModelShape shape{.batch = 1, .sequence = 1024, .dtype = DType::kBF16};
  const auto layer = [&](const char* text, auto figure) {
    return figure(Of(std::string("gpt:layers=2,") + text, shape)) -
           figure(Of(std::string("gpt:layers=1,") + text, shape));
  };
  const auto saved = [](const Profile& profile) { return profile.saved_activation_bytes; };
  const auto model = [](const Profile& profile) {
    return profile.flops_forward + profile.flops_backward;
  };
  const auto executed = [](const Profile& profile) {
    return profile.executed_flops_forward + profile.executed_flops_backward;
  };
  const char* sizes = "hidden=1024,heads=16";
  const double flops = layer(sizes, model);
  const double unfused = layer(sizes, executed);
  shape.fused_attention = true;
  EXPECT_EQ(layer(sizes, saved), 33'554'432 + 4 * 16 * 1024 + 16'384);
  EXPECT_EQ(layer("hidden=1024,heads=16,dropout=0.1", saved), 33'554'432 + 4 * 16 * 1024 + 16'384);
  EXPECT_EQ(layer(sizes, model), flops);
  const double pairs = 16 * 2 * 64;  // FLOPs of one pair of positions over all heads
  EXPECT_EQ(unfused - layer(sizes, executed), pairs * (6 * 1024.0 * 1024.0 - 9 * 557056.0));
}

TEST(ProfileTest, NormStatisticsAreTemporaries) {
  const DecoderConfig config = ResolveDecoder("gpt:layers=1,hidden=16,heads=2").value();
  const Graph forward =
      BuildModel(config, {.batch = 2, .sequence = 3, .dtype = DType::kBF16}).value();
  const Graph graph = Differentiate(forward, 1, DType::kF32).value();
  const Profile profile = ProfileGraph(graph);
  const NodeProfile& norm = NodeNamed(graph, profile, "layers.0.mlp.norm");
  EXPECT_EQ(norm.fwd_tmp_bytes, 2 * 6 * 4);
  EXPECT_EQ(norm.fwd_out_bytes, 2 * 6 * 16);
  EXPECT_EQ(norm.fwd_in_bytes, 2 * 6 * 16);
  EXPECT_EQ(norm.saved_bytes, 2 * 6 * 4 + 2 * 6 * 16);
  // The norm's share and the sum with the residual's are one gradient of its input.
  EXPECT_EQ(norm.bwd_out_bytes, 2 * 6 * 16);
  EXPECT_EQ(norm.parameter_gradient_bytes, 2 * 16 * 4);
}

TEST(ProfileTest, GroupsAddUpToTheTotals) {
  for (const char* model : {"gpt2", "opt-125m", "llama3-8b"}) {
    const Profile profile = Of(model, {.batch = 2, .sequence = 64, .dtype = DType::kBF16});
    for (const std::vector<ProfileGroup>* groups : {&profile.by_op, &profile.by_module}) {
      ProfileGroup sum;
      for (const ProfileGroup& group : *groups) {
        sum.nodes += group.nodes;
        sum.parameters += group.parameters;
        sum.flops_forward += group.flops_forward;
        sum.flops_backward += group.flops_backward;
        sum.saved_bytes += group.saved_bytes;
      }
      EXPECT_EQ(sum.nodes, static_cast<int64_t>(profile.nodes.size()));
      EXPECT_EQ(sum.flops_forward, profile.flops_forward);
      EXPECT_EQ(sum.flops_backward, profile.flops_backward);
      EXPECT_EQ(sum.saved_bytes, profile.saved_activation_bytes);
      EXPECT_EQ(sum.parameters, groups == &profile.by_module ? profile.parameters : 0);
    }
    EXPECT_GT(profile.peak_activation_bytes, profile.saved_activation_bytes);
  }
  EXPECT_EQ(ModuleOf("layers.12.attention.qkv.weight"), "attention");
  EXPECT_EQ(ModuleOf("final_norm"), "final_norm");
  EXPECT_EQ(ModuleOf("head.loss"), "head");
}

TEST(ProfileTest, PaddedVocabularyCountsInMemoryOnly) {
  const ModelShape shape{.batch = 2, .sequence = 8};
  ModelShape padded = shape;
  padded.vocab_multiple = 128;
  const Profile plain = Of("gpt2", shape);
  const Profile wide = Of("gpt2", padded);
  EXPECT_EQ(wide.parameters, plain.parameters);
  EXPECT_NEAR(wide.flops_forward / plain.flops_forward, 1.0, 1e-12);
  EXPECT_NEAR(wide.flops_backward / plain.flops_backward, 1.0, 1e-12);
  EXPECT_GT(wide.executed_flops_forward, plain.executed_flops_forward);
  // Logits, fp32: 16 tokens x 47 more columns (50304 - 50257).
  EXPECT_EQ(wide.saved_activation_bytes - plain.saved_activation_bytes, 16 * 47 * 4);
}

TEST(ProfileTest, EverythingButParametersIsLinearInTheBatch) {
  const Profile one = Of("llama-7b", {.batch = 1, .sequence = 33});
  const Profile seven = Of("llama-7b", {.batch = 7, .sequence = 33});
  EXPECT_EQ(seven.saved_activation_bytes, 7 * one.saved_activation_bytes);
  EXPECT_EQ(seven.peak_activation_bytes, 7 * one.peak_activation_bytes);
  EXPECT_EQ(seven.flops_forward, 7 * one.flops_forward);
  EXPECT_EQ(seven.parameters, one.parameters);
}

}  // namespace
}  // namespace tideline
