// Mutated Hugging Face configurations and model texts.
#include <gtest/gtest.h>

#include "models/import/hf_config.h"
#include "models/zoo/decoder.h"
#include "models/zoo/zoo.h"
#include "tests/fuzz/mutate.h"

namespace tideline {
namespace {

// Whatever is accepted is a valid configuration; small ones must also build or say why not.
Status CheckAccepted(const DecoderConfig& config) {
  if (!ValidateConfig(config).ok()) return InternalError("accepted but not valid");
  if (config.layers > 64) return absl::OkStatus();
  const StatusOr<Graph> graph = BuildDecoder(config, {.batch = 1, .sequence = 1});
  if (!graph.ok()) {
    return InternalError("accepted but not buildable: " + std::string(graph.status().message()));
  }
  return absl::OkStatus();
}

TEST(ModelFuzzTest, HfConfig) {
  const FuzzResult result = FuzzParser(
      {R"({"model_type": "gpt2", "n_embd": 8, "n_layer": 2, "n_head": 2, "n_positions": 16,
           "vocab_size": 11, "n_inner": null, "activation_function": "gelu_new",
           "tie_word_embeddings": false, "layer_norm_epsilon": 1e-05})",
       R"({"model_type": "opt", "hidden_size": 8, "num_hidden_layers": 2, "ffn_dim": 32,
           "num_attention_heads": 2, "vocab_size": 11, "max_position_embeddings": 16,
           "do_layer_norm_before": true, "word_embed_proj_dim": 8, "enable_bias": true})",
       R"({"model_type": "llama", "hidden_size": 16, "intermediate_size": 20, "head_dim": 4,
           "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
           "vocab_size": 11, "rms_norm_eps": 1e-06, "rope_theta": 500000.0, "sliding_window": null,
           "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
           "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}})"},
      [](std::string_view text) -> Status {
        TL_ASSIGN_OR_RETURN(const ImportedModel model, ImportHfConfig(text, "fuzz.json"));
        return CheckAccepted(model.config);
      },
      {.budget_s = 5,
       .tokens = {"null", "true", "-1", "1e308", "[[[[", "{\"", "9223372036854775808", "\"yarn\"",
                  "\"rope_parameters\":", "\"head_dim\":", "\"sliding_window\": 4096"},
       .exit_codes = {5}});
  EXPECT_GT(result.accepted, 100);
  EXPECT_GT(result.rejected, 1000);
}

TEST(ModelFuzzTest, ModelText) {
  const FuzzResult result = FuzzParser(
      {"gpt2", "llama3.1-70b", "gpt:layers=2,hidden=12,heads=4,vocab=50,ffn=7,kv_heads=2",
       "llama:layers=2,hidden=16,heads=4,head_dim=2,positions=64,activation=relu,norm=layer_norm"},
      [](std::string_view text) -> Status {
        TL_ASSIGN_OR_RETURN(const DecoderConfig config, ResolveModel(text));
        return CheckAccepted(config);
      },
      {.budget_s = 3,
       .tokens = {",", "=", "layers=", "hidden=", "heads=", "gpt:", "llama:", "opt-", "{", "}"},
       .exit_codes = {2}});
  EXPECT_GT(result.accepted, 20);
  EXPECT_GT(result.rejected, 1000);
}

}  // namespace
}  // namespace tideline
