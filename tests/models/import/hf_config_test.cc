#include "models/import/hf_config.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "models/import/load_model.h"
#include "models/ir/graph.h"
#include "models/zoo/decoder.h"
#include "models/zoo/zoo.h"

namespace tideline {
namespace {

// As published on the hub, less what says nothing about the graph.
constexpr char kGpt2[] = R"({
  "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
  "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
  "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
  "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null,
  "summary_first_dropout": 0.1, "summary_proj_to_labels": true, "summary_type": "cls_index",
  "summary_use_proj": true,
  "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}},
  "vocab_size": 50257})";
constexpr char kOpt[] = R"({
  "_name_or_path": "opt", "activation_dropout": 0.0, "activation_function": "relu",
  "attention_dropout": 0.0, "do_layer_norm_before": true, "dropout": 0.1, "ffn_dim": 28672,
  "hidden_size": 7168, "init_std": 0.02, "layerdrop": 0.0, "max_position_embeddings": 2048,
  "model_type": "opt", "num_attention_heads": 56, "num_hidden_layers": 48, "pad_token_id": 1,
  "prefix": "</s>", "torch_dtype": "float16", "transformers_version": "4.21.0.dev0",
  "use_cache": true, "vocab_size": 50272, "word_embed_proj_dim": 7168})";
constexpr char kLlama31[] = R"({
  "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
  "bos_token_id": 128000, "eos_token_id": 128001, "hidden_act": "silu", "hidden_size": 4096,
  "initializer_range": 0.02, "intermediate_size": 14336, "max_position_embeddings": 131072,
  "mlp_bias": false, "model_type": "llama", "num_attention_heads": 32, "num_hidden_layers": 32,
  "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
  "rope_scaling": {"factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                   "original_max_position_embeddings": 8192, "rope_type": "llama3"},
  "rope_theta": 500000.0, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
  "transformers_version": "4.43.0.dev0", "use_cache": true, "vocab_size": 128256})";
constexpr char kSmallLlama[] = R"({"model_type": "llama", "hidden_size": 16,
  "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 11@})";

// kSmallLlama with more keys.
std::string Llama(const std::string& more) {
  std::string text = kSmallLlama;
  return text.replace(text.find('@'), 1, more.empty() ? "" : ", " + more);
}

DecoderConfig Import(const std::string& text, const std::string& file) {
  StatusOr<ImportedModel> model = ImportHfConfig(text, file);
  EXPECT_TRUE(model.ok()) << model.status();
  EXPECT_TRUE(model->warnings.empty()) << model->warnings[0];
  return model->config;
}

int64_t Parameters(const DecoderConfig& config) {
  return ParameterCount(BuildDecoder(config, {.batch = 1, .sequence = 4}).value());
}

// Replaces one piece of a text, which must be there.
std::string Edit(std::string text, const std::string& from, const std::string& to) {
  const size_t found = text.find(from);
  EXPECT_NE(found, std::string::npos) << from;
  return text.replace(found, from.size(), to);
}

void ExpectRefused(const std::string& text, const std::string& message) {
  const Status status = ImportHfConfig(text, "dir/model.json").status();
  EXPECT_EQ(ExitCode(status), 5) << message;
  const std::string got(status.message());
  EXPECT_NE(got.find("dir/model.json"), std::string::npos) << got;
  EXPECT_NE(got.find(message), std::string::npos) << got;
}

TEST(HfConfigTest, PublishedFilesAreTheZoosModels) {
  DecoderConfig gpt2 = Import(kGpt2, "gpt2.json");
  EXPECT_EQ(gpt2, ResolveDecoder("gpt2").value());
  EXPECT_EQ(Parameters(gpt2), 124'439'808);
  DecoderConfig opt = Import(kOpt, "opt-30b.json");
  EXPECT_EQ(opt, ResolveDecoder("opt-30b").value());
  EXPECT_EQ(Parameters(opt), 29'974'540'288);
  DecoderConfig llama = Import(kLlama31, "llama3.1-8b.json");
  EXPECT_EQ(llama, ResolveDecoder("llama3.1-8b").value());
  EXPECT_EQ(Parameters(llama), 8'030'261'248);
}

TEST(HfConfigTest, NamesComeFromTheFileOrItsFolder) {
  EXPECT_EQ(Import(kGpt2, "a/b/my-gpt.json").name, "my-gpt");
  EXPECT_EQ(Import(kGpt2, "a/my-gpt/config.json").name, "my-gpt");
  EXPECT_EQ(Import(kGpt2, "config.json").name, "config");
  EXPECT_EQ(Import(kGpt2, "./config.json").name, "config");
}

TEST(HfConfigTest, DefaultsAreTheLibrarysWithTheirTraps) {
  EXPECT_TRUE(Import(kGpt2, "m.json").tied_embedding);
  EXPECT_FALSE(
      Import(Edit(kGpt2, "\"n_layer\"", "\"tie_word_embeddings\": false, \"n_layer\""), "m.json")
          .tied_embedding);
  EXPECT_EQ(Import(kGpt2, "m.json").ffn, 3072);
  EXPECT_EQ(Import(Edit(kGpt2, "\"n_layer\"", "\"n_inner\": 100, \"n_layer\""), "m.json").ffn, 100);
  EXPECT_TRUE(Import(kOpt, "m.json").tied_embedding);
  EXPECT_EQ(Import(kOpt, "m.json").position_offset, 2);
  EXPECT_FALSE(
      Import(Edit(kOpt, "\"prefix\"", "\"enable_bias\": false, \"prefix\""), "m.json").mlp_bias);
  const DecoderConfig llama = Import(Llama(""), "m.json");
  EXPECT_FALSE(llama.tied_embedding);
  EXPECT_EQ(llama.kv_heads, 4);
  EXPECT_EQ(llama.head_dim, 4);
  EXPECT_EQ(llama.norm_epsilon, 1e-6);
  EXPECT_EQ(llama.max_positions, 2048);
  EXPECT_EQ(llama.rotary.theta, 10000.0);
  EXPECT_EQ(Import(Llama(R"("head_dim": 6)"), "m.json").head_dim, 6);
  const DecoderConfig biased = Import(Llama(R"("attention_bias": true)"), "m.json");
  EXPECT_TRUE(biased.attention_bias && biased.output_bias && !biased.mlp_bias);
  EXPECT_EQ(Import(Llama(R"("rope_scaling": {"type": "default"})"), "m.json").rotary.factor, 1.0);
  EXPECT_EQ(
      Import(Llama(R"("rope_parameters": {"rope_type": "default", "rope_theta": 7.5})"), "m.json")
          .rotary.theta,
      7.5);
  EXPECT_EQ(Import(Llama(R"("sliding_window": null, "use_sliding_window": false)"), "m.json").vocab,
            11);
}

TEST(HfConfigTest, WhatCannotBeBuiltIsRefusedByName) {
  ExpectRefused(R"({"model_type": "mixtral"})", "model_type");
  ExpectRefused(R"({"model_type": "mixtral"})", "gpt2, opt, llama");
  ExpectRefused(R"({"model_type": "lama"})", "did you mean `llama`");
  ExpectRefused(R"({})", "model_type");
  ExpectRefused(Llama(R"("rope_scaling": {"type": "linear", "factor": 2.0})"), "rope_scaling");
  ExpectRefused(Llama(R"("rope_scaling": {"rope_type": "yarn"})"), "`yarn` is not implemented");
  ExpectRefused(Llama(R"("rope_scaling": {"factor": 2.0})"), "rope type (missing)");
  ExpectRefused(Llama(R"("sliding_window": 4096)"), "sliding_window");
  ExpectRefused(Llama(R"("use_sliding_window": true)"), "use_sliding_window");
  ExpectRefused(Llama(R"("partial_rotary_factor": 0.5)"), "partial_rotary_factor");
  ExpectRefused(Llama(R"("hidden_act": "gelu")"), "hidden_act");
  ExpectRefused(Llama(R"("quantization_config": {"quant_method": "fp8"})"), "quantization_config");
  ExpectRefused(Edit(kOpt, "\"do_layer_norm_before\": true", "\"do_layer_norm_before\": false"),
                "do_layer_norm_before");
  ExpectRefused(Edit(kOpt, "\"word_embed_proj_dim\": 7168", "\"word_embed_proj_dim\": 512"),
                "word_embed_proj_dim");
  ExpectRefused(Edit(kGpt2, "gelu_new", "gelu"), "activation_function");
  ExpectRefused(Edit(kGpt2, "\"n_ctx\": 1024", "\"scale_attn_weights\": false"),
                "scale_attn_weights");
}

TEST(HfConfigTest, HostileInputIsRefusedAtItsField) {
  for (const char* value :
       {"0", "-1", "1e30", "99999999999999999999", "1.5", "\"8\"", "[8]", "true", "{}", "null"}) {
    std::string text = Llama("");
    text = Edit(text, "\"hidden_size\": 16", std::string("\"hidden_size\": ") + value);
    ExpectRefused(text, "hidden_size");
  }
  ExpectRefused(Edit(Llama(""), "\"num_attention_heads\": 4", "\"num_attention_heads\": 3"),
                "16 is not divisible by the 3 heads");
  ExpectRefused(Llama(R"("num_key_value_heads": 3)"), "heads = 4 is not divisible by kv_heads = 3");
  ExpectRefused(Llama(R"("head_dim": 3)"), "odd");
  ExpectRefused(Llama(R"("rms_norm_eps": 0)"), "rms_norm_eps");
  ExpectRefused(Llama(R"("rope_theta": -5)"), "rope_theta");
  ExpectRefused(Llama(R"("rope_scaling": [1])"), "rope_scaling");
  ExpectRefused(Llama(R"("rope_scaling": {"type": "llama3", "factor": 1e300})"), "factor");
  ExpectRefused(Llama(R"("tie_word_embeddings": 1)"), "tie_word_embeddings");
  ExpectRefused(Llama(R"("hidden_size": 32)"), "hidden_size");  // twice
  ExpectRefused("", "");
  ExpectRefused("[1, 2]", "");
  ExpectRefused("{\"model_type\": \"llama\"", "");
  ExpectRefused(std::string(kLlama31).substr(0, 300), "");
  ExpectRefused(std::string(100000, '['), "");
  ExpectRefused(R"({"model_type": 7})", "model_type");
}

TEST(HfConfigTest, UnknownKeysGiveOneCountedWarning) {
  const StatusOr<ImportedModel> model =
      ImportHfConfig(Llama(R"("my_key": 1, "other_key": {"a": 2})"), "m.json");
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->warnings.size(), 1u);
  EXPECT_EQ(model->warnings[0], "m.json: 2 keys are not known and ignored: `my_key`, `other_key`");
}

TEST(LoadModelTest, PathsAreReadAndNamesResolved) {
  const std::string path = std::string(std::getenv("TEST_TMPDIR")) + "/llama-x.json";
  std::ofstream(path) << kLlama31;
  const LoadedModel model = LoadModel(path).value();
  ASSERT_NE(DecoderOf(model.config), nullptr);
  EXPECT_EQ(DecoderOf(model.config)->name, "llama-x");
  EXPECT_EQ(DecoderOf(model.config)->kv_heads, 8);
  EXPECT_EQ(TraitsOf(LoadModel("gpt2")->config).layers, 12);
  EXPECT_EQ(TraitsOf(LoadModel("gpt:layers=1,hidden=8,heads=2", 77)->config).longest_sequence, 77);
  EXPECT_EQ(ExitCode(LoadModel("not/there.json").status()), 5);
  EXPECT_EQ(ExitCode(LoadModel("gtp2").status()), 2);
}

}  // namespace
}  // namespace tideline
