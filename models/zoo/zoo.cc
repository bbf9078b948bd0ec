#include "models/zoo/zoo.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/units.h"
#include "models/zoo/convnet_zoo.h"
#include "models/zoo/decoder.h"

namespace tideline {
namespace {

// One published size: layers, hidden, heads, key heads, width of the MLP, vocabulary, positions.
struct Size {
  const char* name;
  int64_t layers, hidden, heads, kv_heads, ffn, vocab, positions;
};

// Brown et al. print 24 heads of 128 for 1.3B at width 2048, and width 5140 for 13B with 40 heads
// of 128; neither gives the stated parameter counts. 16 heads and 5120 do, and are used here.
constexpr Size kGpt[] = {
    {"gpt2", 12, 768, 12, 12, 3072, 50257, 1024},
    {"gpt2-medium", 24, 1024, 16, 16, 4096, 50257, 1024},
    {"gpt2-large", 36, 1280, 20, 20, 5120, 50257, 1024},
    {"gpt2-xl", 48, 1600, 25, 25, 6400, 50257, 1024},
    {"gpt3-125m", 12, 768, 12, 12, 3072, 50257, 2048},
    {"gpt3-350m", 24, 1024, 16, 16, 4096, 50257, 2048},
    {"gpt3-760m", 24, 1536, 16, 16, 6144, 50257, 2048},
    {"gpt3-1.3b", 24, 2048, 16, 16, 8192, 50257, 2048},
    {"gpt3-2.7b", 32, 2560, 32, 32, 10240, 50257, 2048},
    {"gpt3-6.7b", 32, 4096, 32, 32, 16384, 50257, 2048},
    {"gpt3-13b", 40, 5120, 40, 40, 20480, 50257, 2048},
    {"gpt3-175b", 96, 12288, 96, 96, 49152, 50257, 2048},
};
constexpr Size kOpt[] = {
    {"opt-125m", 12, 768, 12, 12, 3072, 50272, 2048},
    {"opt-1.3b", 24, 2048, 32, 32, 8192, 50272, 2048},
    {"opt-2.7b", 32, 2560, 32, 32, 10240, 50272, 2048},
    {"opt-6.7b", 32, 4096, 32, 32, 16384, 50272, 2048},
    {"opt-13b", 40, 5120, 40, 40, 20480, 50272, 2048},
    {"opt-30b", 48, 7168, 56, 56, 28672, 50272, 2048},
    {"opt-66b", 64, 9216, 72, 72, 36864, 50272, 2048},
    {"opt-175b", 96, 12288, 96, 96, 49152, 50272, 2048},
};
constexpr Size kLlama[] = {
    {"llama-7b", 32, 4096, 32, 32, 11008, 32000, 2048},
    {"llama-13b", 40, 5120, 40, 40, 13824, 32000, 2048},
    {"llama-30b", 60, 6656, 52, 52, 17920, 32000, 2048},
    {"llama-65b", 80, 8192, 64, 64, 22016, 32000, 2048},
    {"llama2-7b", 32, 4096, 32, 32, 11008, 32000, 4096},
    {"llama2-13b", 40, 5120, 40, 40, 13824, 32000, 4096},
    {"llama2-70b", 80, 8192, 64, 8, 28672, 32000, 4096},
    {"llama3-8b", 32, 4096, 32, 8, 14336, 128256, 8192},
    {"llama3-70b", 80, 8192, 64, 8, 28672, 128256, 8192},
    {"llama3.1-8b", 32, 4096, 32, 8, 14336, 128256, 131072},
    {"llama3.1-70b", 80, 8192, 64, 8, 28672, 128256, 131072},
};

DecoderConfig FromSize(const Size& size) {
  DecoderConfig config;
  config.name = size.name;
  config.layers = size.layers;
  config.hidden = size.hidden;
  config.heads = size.heads;
  config.kv_heads = size.kv_heads;
  config.head_dim = size.hidden / size.heads;
  config.ffn = size.ffn;
  config.vocab = size.vocab;
  config.max_positions = size.positions;
  return config;
}

void MakeGpt(DecoderConfig& config) {
  config.norm = NormKind::kLayerNorm;
  config.activation = ActivationKind::kGelu;
  config.position = PositionKind::kLearned;
  config.fused_qkv = true;
  config.attention_bias = config.output_bias = config.mlp_bias = true;
  config.tied_embedding = true;
  config.norm_epsilon = 1e-5;
}

void MakeOpt(DecoderConfig& config) {
  MakeGpt(config);
  config.activation = ActivationKind::kRelu;
  config.position_offset = 2;
  config.fused_qkv = false;
}

void MakeLlama(DecoderConfig& config) {
  config.norm = NormKind::kRmsNorm;
  config.activation = ActivationKind::kSwiGlu;
  config.position = PositionKind::kRotary;
  config.norm_epsilon = 1e-5;
}

// What sets the generations of LLaMA apart besides sizes.
void AdjustLlama(DecoderConfig& config) {
  const std::string& name = config.name;
  if (name == "llama-7b" || name == "llama-13b") config.norm_epsilon = 1e-6;
  if (name.starts_with("llama3")) config.rotary.theta = 500000.0;
  if (name.starts_with("llama3.1")) {
    config.rotary.factor = 8.0;
    config.rotary.low_frequency_factor = 1.0;
    config.rotary.high_frequency_factor = 4.0;
    config.rotary.original_positions = 8192;
  }
}

// One key of "gpt:..." and what it sets.
struct SpecKey {
  const char* name;
  std::function<Status(const std::string&, DecoderConfig&)> read;
};

SpecKey IntegerKey(const char* name, int64_t most, int64_t DecoderConfig::*field) {
  return {name, [name, most, field](const std::string& value, DecoderConfig& config) {
            StatusOr<int64_t> number = ParseInteger(value, 1, most);
            if (!number.ok()) return Annotate(number.status(), name);
            config.*field = *number;
            return absl::OkStatus();
          }};
}

Status ReadActivation(const std::string& value, DecoderConfig& config) {
  static const std::vector<std::string> kNames = {"gelu", "relu", "swiglu"};
  const auto found = std::find(kNames.begin(), kNames.end(), value);
  if (found == kNames.end()) return UsageError(UnknownName("activation", value, kNames));
  config.activation = static_cast<ActivationKind>(found - kNames.begin());
  return absl::OkStatus();
}

Status ReadDropout(const std::string& value, DecoderConfig& config) {
  const StatusOr<double> rate = ParseReal(value, 0, 1);
  if (!rate.ok()) return Annotate(rate.status(), "dropout");
  config.dropout = *rate;
  return absl::OkStatus();
}

Status ReadNorm(const std::string& value, DecoderConfig& config) {
  static const std::vector<std::string> kNames = {"layer_norm", "rms_norm"};
  const auto found = std::find(kNames.begin(), kNames.end(), value);
  if (found == kNames.end()) return UsageError(UnknownName("norm", value, kNames));
  config.norm = static_cast<NormKind>(found - kNames.begin());
  return absl::OkStatus();
}

std::vector<SpecKey> SpecKeys() {
  return {IntegerKey("layers", kMostLayers, &DecoderConfig::layers),
          IntegerKey("hidden", kMostWidth, &DecoderConfig::hidden),
          IntegerKey("heads", kMostHeads, &DecoderConfig::heads),
          IntegerKey("vocab", kMostRows, &DecoderConfig::vocab),
          IntegerKey("ffn", kMostWidth, &DecoderConfig::ffn),
          IntegerKey("kv_heads", kMostHeads, &DecoderConfig::kv_heads),
          IntegerKey("head_dim", kMostHeads, &DecoderConfig::head_dim),
          IntegerKey("positions", kMostRows, &DecoderConfig::max_positions),
          {"activation", ReadActivation},
          {"norm", ReadNorm},
          {"dropout", ReadDropout}};
}

Status ReadSpec(std::string_view list, DecoderConfig& config) {
  const std::vector<SpecKey> keys = SpecKeys();
  std::vector<std::string> names;
  for (const SpecKey& key : keys) names.push_back(key.name);
  TL_ASSIGN_OR_RETURN(const std::vector<KeyValue> entries, ParseKeyValues(list));
  for (const KeyValue& entry : entries) {
    const auto found = std::find(names.begin(), names.end(), entry.key);
    if (found == names.end()) return UsageError(UnknownName("key", entry.key, names));
    TL_RETURN_IF_ERROR(keys[found - names.begin()].read(entry.value, config));
  }
  return absl::OkStatus();
}

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Fills what the text left open; the three sizes that make a model must be given.
Status CompleteSpec(bool llama, int64_t positions, DecoderConfig& config) {
  const std::pair<const char*, int64_t> needed[] = {
      {"layers", config.layers}, {"hidden", config.hidden}, {"heads", config.heads}};
  for (const auto& [name, value] : needed) {
    if (value == 0) {
      return UsageError(absl::StrCat("'", name,
                                     "' is missing; write at least layers=, hidden= "
                                     "and heads=, as in gpt:layers=24,hidden=1024,heads=16"));
    }
  }
  if (config.head_dim == 0) {
    if (config.hidden % config.heads != 0) {
      return UsageError(absl::StrCat("hidden = ", config.hidden, " is not divisible by heads = ",
                                     config.heads, "; choose sizes that divide or give head_dim="));
    }
    config.head_dim = config.hidden / config.heads;
  }
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.ffn == 0) {
    config.ffn = llama ? RoundUp(8 * config.hidden / 3, 256) : 4 * config.hidden;
  }
  if (config.vocab == 0) config.vocab = llama ? 32000 : 50257;
  if (config.max_positions == 0) {
    config.max_positions = positions > 0 ? positions : llama ? 2048 : 1024;
  }
  if (config.kv_heads != config.heads) config.fused_qkv = false;
  return absl::OkStatus();
}

std::vector<std::string> Families() {
  std::vector<std::string> families = {"gpt", "llama"};
  for (std::string& family : ConvNetFamilies()) families.push_back(std::move(family));
  return families;
}

StatusOr<DecoderConfig> ResolveSpec(std::string_view text, size_t colon, int64_t positions) {
  DecoderConfig config;
  config.name = std::string(text);
  const bool llama = text.substr(0, colon) == "llama";
  if (llama) {
    MakeLlama(config);
  } else {
    MakeGpt(config);
  }
  TL_RETURN_IF_ERROR(ReadSpec(text.substr(colon + 1), config));
  TL_RETURN_IF_ERROR(CompleteSpec(llama, positions, config));
  const Status valid = ValidateConfig(config);
  if (!valid.ok()) return UsageError(std::string(valid.message()));
  return config;
}

}  // namespace

std::vector<std::string> ZooNames() {
  std::vector<std::string> names;
  for (const Size& size : kGpt) names.push_back(size.name);
  for (const Size& size : kOpt) names.push_back(size.name);
  for (const Size& size : kLlama) names.push_back(size.name);
  for (std::string& name : ConvNetNames()) names.push_back(std::move(name));
  return names;
}

StatusOr<DecoderConfig> ResolveDecoder(std::string_view text, int64_t positions) {
  const size_t colon = text.find(':');
  if (colon != std::string_view::npos) {
    const std::string_view family = text.substr(0, colon);
    if (family == "gpt" || family == "llama") {
      StatusOr<DecoderConfig> config = ResolveSpec(text, colon, positions);
      if (!config.ok()) {
        return Annotate(config.status(), absl::StrCat("model ", Quoted(text, 200)));
      }
      return config;
    }
    return UsageError(UnknownName("model family", family, Families()));
  }
  for (const Size& size : kGpt) {
    if (size.name != text) continue;
    DecoderConfig config = FromSize(size);
    MakeGpt(config);
    return config;
  }
  for (const Size& size : kOpt) {
    if (size.name != text) continue;
    DecoderConfig config = FromSize(size);
    MakeOpt(config);
    return config;
  }
  for (const Size& size : kLlama) {
    if (size.name != text) continue;
    DecoderConfig config = FromSize(size);
    MakeLlama(config);
    AdjustLlama(config);
    return config;
  }
  if (text == "opt-350m") {
    return UsageError(
        "model opt-350m cannot be built: it alone of its family normalises after each block "
        "(do_layer_norm_before=false) and projects its embedding (word_embed_proj_dim=512 at "
        "width 1024); use opt-125m or opt-1.3b");
  }
  return UsageError(UnknownName("model", text, ZooNames()));
}

StatusOr<ModelConfig> ResolveModel(std::string_view text, int64_t positions) {
  TL_ASSIGN_OR_RETURN(std::optional<ConvNetConfig> convnet, ResolveConvNet(text));
  if (convnet) return ModelConfig(*std::move(convnet));
  TL_ASSIGN_OR_RETURN(DecoderConfig config, ResolveDecoder(text, positions));
  return ModelConfig(std::move(config));
}

}  // namespace tideline
