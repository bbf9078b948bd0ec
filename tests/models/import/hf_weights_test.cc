#include "models/import/hf_weights.h"

#include <algorithm>
#include <map>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "models/zoo/decoder.h"
#include "tests/models/import/random_weights.h"
#include "tests/reference/test_models.h"

namespace tideline {
namespace {

using ::testing::HasSubstr;

ParameterWeights Of(const WeightMap& map, const std::string& parameter) {
  for (const ParameterWeights& weights : map.parameters) {
    if (weights.parameter == parameter) return weights;
  }
  ADD_FAILURE() << "no " << parameter;
  return {};
}

std::set<std::string> TensorsOf(const WeightMap& map) {
  std::set<std::string> names;
  for (const ParameterWeights& weights : map.parameters) {
    for (const WeightPart& part : weights.parts) names.insert(part.tensor);
  }
  return names;
}

// The names that transformers' GPT2LMHeadModel saves (state_dict of a one-layer model).
TEST(HfWeightsTest, Gpt2Names) {
  DecoderConfig config = reference::TinyGpt(1, 16, 4);
  EXPECT_EQ(
      TensorsOf(HuggingFaceWeights(config)),
      (std::set<std::string>{
          "transformer.wte.weight", "transformer.wpe.weight", "transformer.h.0.ln_1.weight",
          "transformer.h.0.ln_1.bias", "transformer.h.0.attn.c_attn.weight",
          "transformer.h.0.attn.c_attn.bias", "transformer.h.0.attn.c_proj.weight",
          "transformer.h.0.attn.c_proj.bias", "transformer.h.0.ln_2.weight",
          "transformer.h.0.ln_2.bias", "transformer.h.0.mlp.c_fc.weight",
          "transformer.h.0.mlp.c_fc.bias", "transformer.h.0.mlp.c_proj.weight",
          "transformer.h.0.mlp.c_proj.bias", "transformer.ln_f.weight", "transformer.ln_f.bias"}));
}

TEST(HfWeightsTest, OptNames) {
  EXPECT_EQ(TensorsOf(HuggingFaceWeights(reference::TinyOpt(1, 16, 4))),
            (std::set<std::string>{"model.decoder.embed_tokens.weight",
                                   "model.decoder.embed_positions.weight",
                                   "model.decoder.final_layer_norm.weight",
                                   "model.decoder.final_layer_norm.bias",
                                   "model.decoder.layers.0.self_attn_layer_norm.weight",
                                   "model.decoder.layers.0.self_attn_layer_norm.bias",
                                   "model.decoder.layers.0.self_attn.q_proj.weight",
                                   "model.decoder.layers.0.self_attn.q_proj.bias",
                                   "model.decoder.layers.0.self_attn.k_proj.weight",
                                   "model.decoder.layers.0.self_attn.k_proj.bias",
                                   "model.decoder.layers.0.self_attn.v_proj.weight",
                                   "model.decoder.layers.0.self_attn.v_proj.bias",
                                   "model.decoder.layers.0.self_attn.out_proj.weight",
                                   "model.decoder.layers.0.self_attn.out_proj.bias",
                                   "model.decoder.layers.0.final_layer_norm.weight",
                                   "model.decoder.layers.0.final_layer_norm.bias",
                                   "model.decoder.layers.0.fc1.weight",
                                   "model.decoder.layers.0.fc1.bias",
                                   "model.decoder.layers.0.fc2.weight",
                                   "model.decoder.layers.0.fc2.bias"}));
}

TEST(HfWeightsTest, LlamaNamesAndShapes) {
  const DecoderConfig config = reference::TinyLlama(1, 16, 4, 2);
  const WeightMap map = HuggingFaceWeights(config);
  EXPECT_EQ(TensorsOf(map),
            (std::set<std::string>{
                "model.embed_tokens.weight", "model.layers.0.input_layernorm.weight",
                "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight",
                "model.layers.0.self_attn.v_proj.weight", "model.layers.0.self_attn.o_proj.weight",
                "model.layers.0.post_attention_layernorm.weight",
                "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight",
                "model.layers.0.mlp.down_proj.weight", "model.norm.weight", "lm_head.weight"}));
  // Two key heads of four elements: [8, 16] there, [16, 8] here.
  const ParameterWeights key = Of(map, "layers.0.attention.k.weight");
  EXPECT_EQ(key.shape, (std::vector<int64_t>{16, 8}));
  EXPECT_EQ(key.parts[0].tensor_shape, (std::vector<int64_t>{8, 16}));
  EXPECT_EQ(key.parts[0].strides, (std::vector<int64_t>{1, 16}));
}

// Every parameter of the graph, once, with its shape; and each element of each tensor once.
TEST(HfWeightsTest, CoversGraphAndTensorsExactly) {
  for (const DecoderConfig& config : {reference::TinyGpt(3, 16, 4), reference::TinyOpt(2, 24, 3),
                                      reference::TinyLlama(2, 16, 4)}) {
    const auto graph = BuildDecoder(config, {.sequence = 8});
    ASSERT_TRUE(graph.ok()) << graph.status();
    const WeightMap map = HuggingFaceWeights(config);
    std::map<std::string, std::vector<int64_t>> shapes;
    std::map<std::string, std::vector<int>> touched;
    for (const ParameterWeights& weights : map.parameters) {
      EXPECT_TRUE(shapes.emplace(weights.parameter, weights.shape).second) << weights.parameter;
      for (const WeightPart& part : weights.parts) {
        std::vector<int>& counts = touched[part.tensor];
        counts.resize(static_cast<size_t>(Elements(part.tensor_shape)));
        std::vector<int64_t> shape = weights.shape;
        shape[0] = part.extent;
        for (int64_t element = 0; element < Elements(shape); ++element) {
          int64_t rest = element, index = part.offset;
          for (size_t d = shape.size(); d-- > 0; rest /= shape[d]) {
            index += rest % shape[d] * part.strides[d];
          }
          ASSERT_LT(index, static_cast<int64_t>(counts.size())) << part.tensor;
          ++counts[static_cast<size_t>(index)];
        }
      }
    }
    for (const auto& [tensor, counts] : touched) {
      EXPECT_EQ(std::count(counts.begin(), counts.end(), 1), std::ssize(counts)) << tensor;
    }
    size_t parameters = 0;
    for (const Tensor& tensor : graph->tensors) {
      if (tensor.role != TensorRole::kParameter) continue;
      ++parameters;
      std::vector<int64_t> shape = tensor.shape;
      if (tensor.valid_rows > 0) shape[0] = tensor.valid_rows;
      EXPECT_EQ(shapes[tensor.name], shape) << tensor.name;
    }
    EXPECT_EQ(parameters, map.parameters.size());
  }
}

// [h, 3h]: columns 0..h are q, then k, then v (transformers' Conv1D c_attn).
TEST(HfWeightsTest, FusedProjectionsLieSideBySide) {
  const ParameterWeights weights =
      Of(HuggingFaceWeights(reference::TinyGpt(1, 16, 4)), "layers.0.attention.qkv.weight");
  EXPECT_EQ(weights.shape, (std::vector<int64_t>{3, 16, 16}));
  const std::vector<int64_t>& strides = weights.parts[0].strides;
  // Element (v, row 5, column 7) is row 5, column 2 * 16 + 7 of [16, 48].
  EXPECT_EQ(2 * strides[0] + 5 * strides[1] + 7 * strides[2], 5 * 48 + 2 * 16 + 7);
}

class MatchTest : public ::testing::Test {
 protected:
  // The message with which weights of `map` are refused for `config`.
  std::string Refusal(const DecoderConfig& config, const WeightMap& map) {
    const std::string path = ::testing::TempDir() + "/match.safetensors";
    EXPECT_TRUE(WriteRandomWeights(map, 1, path).ok());
    const auto files = TensorFiles::Open(path);
    EXPECT_TRUE(files.ok()) << files.status();
    const auto matched = MatchWeights(config, *files);
    if (matched.ok()) return "";
    EXPECT_EQ(ExitCode(matched.status()), 5);
    EXPECT_THAT(std::string(matched.status().message()), HasSubstr("match.safetensors"));
    return std::string(matched.status().message());
  }
  static WeightPart& Part(WeightMap& map, size_t parameter) {
    return map.parameters[parameter].parts[0];
  }
  static void AddTensor(WeightMap& map, const std::string& name, std::vector<int64_t> shape) {
    map.parameters.push_back({.parameter = name, .shape = shape, .parts = {}});
    map.parameters.back().parts.push_back({.tensor = name, .tensor_shape = shape});
  }
};

TEST_F(MatchTest, TakesTheNamesOfOlderFiles) {
  const DecoderConfig gpt = reference::TinyGpt(2, 16, 4);
  WeightMap map = HuggingFaceWeights(gpt);
  EXPECT_EQ(Refusal(gpt, map), "");
  for (ParameterWeights& parameter : map.parameters) {
    std::string& name = parameter.parts[0].tensor;
    name = name.substr(std::string("transformer.").size());
  }
  AddTensor(map, "h.0.attn.bias", {1, 1, 8, 8});
  AddTensor(map, "h.1.attn.masked_bias", {});
  EXPECT_EQ(Refusal(gpt, map), "");
  AddTensor(map, "h.1.attn.other", {2});
  EXPECT_THAT(Refusal(gpt, map), HasSubstr("`h.1.attn.other` has no place"));

  const DecoderConfig llama = reference::TinyLlama(1, 16, 4);
  map = HuggingFaceWeights(llama);
  AddTensor(map, "model.layers.0.self_attn.rotary_emb.inv_freq", {2});
  EXPECT_EQ(Refusal(llama, map), "");
}

TEST_F(MatchTest, NamesWhatDoesNotFit) {
  const DecoderConfig config = reference::TinyGpt(2, 16, 4);
  WeightMap map = HuggingFaceWeights(config);
  Part(map, 3).tensor = "transformer.h.0.ln_1.bios";
  EXPECT_THAT(Refusal(config, map),
              testing::AllOf(HasSubstr("`transformer.h.0.ln_1.bias`"), HasSubstr("nearest")));
  map = HuggingFaceWeights(config);
  Part(map, 4).tensor_shape = {48, 16};
  EXPECT_THAT(Refusal(config, map),
              testing::AllOf(HasSubstr("[48, 16]"), HasSubstr("[16, 48]"), HasSubstr("c_attn")));
  EXPECT_THAT(Refusal(reference::TinyLlama(2, 16, 4), HuggingFaceWeights(config)),
              HasSubstr("model.embed_tokens.weight"));
  EXPECT_THAT(Refusal(reference::TinyGpt(1, 16, 4), HuggingFaceWeights(config)),
              HasSubstr("transformer.h.1"));
  EXPECT_THAT(Refusal(reference::TinyGpt(3, 16, 4), HuggingFaceWeights(config)),
              HasSubstr("transformer.h.2"));
  EXPECT_THAT(Refusal(config, WeightMap()), HasSubstr("no tensor"));
}

// A random head is not the embedding.
TEST_F(MatchTest, AStoredTiedHeadMustBeTheEmbedding) {
  const DecoderConfig config = reference::TinyGpt(1, 16, 4);
  WeightMap map = HuggingFaceWeights(config);
  AddTensor(map, "lm_head.weight", {config.vocab, config.hidden});
  EXPECT_THAT(Refusal(config, map), HasSubstr("tie_word_embeddings"));
}

}  // namespace
}  // namespace tideline
