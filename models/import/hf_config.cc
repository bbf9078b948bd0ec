#include "models/import/hf_config.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/text.h"
#include "models/zoo/decoder.h"

namespace tideline {
namespace {

// Keys that say nothing about the graph: tokens, generation, dropout (0 here), file keeping.
constexpr std::string_view kHarmlessKeys =
    "_attn_implementation _attn_implementation_autoset _name_or_path activation_dropout "
    "architectures attention_dropout attention_probs_dropout_prob attn_pdrop bos_token_id "
    "do_sample dropout dtype embd_pdrop eos_token_id finetuning_task gradient_checkpointing "
    "id2label init_std initializer_range label2id layerdrop max_length n_ctx num_labels "
    "output_past pad_token_id prefix pretraining_tp problem_type reorder_and_upcast_attn "
    "resid_pdrop sep_token_id summary_activation summary_first_dropout summary_proj_to_labels "
    "summary_type summary_use_proj task_specific_params temperature tokenizer_class top_p "
    "torch_dtype transformers_version unk_index use_cache";

// An object being read; remembers which keys were understood.
class ConfigReader {
 public:
  explicit ConfigReader(JsonObject object) : object_(std::move(object)) {}

  // The value under the first of `names` that is there and not null.
  std::optional<JsonValue> Find(std::initializer_list<const char*> names) {
    std::optional<JsonValue> found;
    for (const char* name : names) {
      known_.insert(name);
      if (found.has_value()) continue;
      const std::optional<JsonValue> value = object_.Find(name);
      if (value.has_value() && !value->IsNull()) found = value;
    }
    return found;
  }

  // A size that must be there.
  Status Size(std::initializer_list<const char*> names, int64_t most, int64_t& out) {
    const std::optional<JsonValue> value = Find(names);
    if (!value.has_value()) {
      return object_.value().Error(
          absl::StrCat("key '", *names.begin(), "' is missing; a whole number is needed"));
    }
    TL_ASSIGN_OR_RETURN(out, value->AsInteger(1, most));
    return absl::OkStatus();
  }
  // The same, leaving the default when the key is missing or null.
  Status OptionalSize(std::initializer_list<const char*> names, int64_t most, int64_t& out) {
    const std::optional<JsonValue> value = Find(names);
    if (!value.has_value()) return absl::OkStatus();
    TL_ASSIGN_OR_RETURN(out, value->AsInteger(1, most));
    return absl::OkStatus();
  }
  Status OptionalBool(const char* name, bool& out) {
    const std::optional<JsonValue> value = Find({name});
    if (!value.has_value()) return absl::OkStatus();
    TL_ASSIGN_OR_RETURN(out, value->AsBool());
    return absl::OkStatus();
  }
  Status OptionalReal(const char* name, double least, double most, double& out) {
    const std::optional<JsonValue> value = Find({name});
    if (!value.has_value()) return absl::OkStatus();
    TL_ASSIGN_OR_RETURN(out, value->AsReal(least, most));
    return absl::OkStatus();
  }
  // A flag that must have `needed` (also its default) for the model to be built here.
  Status NeedBool(const char* name, bool needed, const std::string& why) {
    bool value = needed;
    TL_RETURN_IF_ERROR(OptionalBool(name, value));
    if (value == needed) return absl::OkStatus();
    return Find({name})->Error(
        absl::StrCat(why, "; only ", needed ? "true" : "false", " is supported"));
  }
  // A key that must be missing, null or false.
  Status NeedAbsent(const char* name, const std::string& why) {
    const std::optional<JsonValue> value = Find({name});
    if (!value.has_value()) return absl::OkStatus();
    if (value->kind() == JsonKind::kBool && !value->AsBool().value()) return absl::OkStatus();
    return value->Error(absl::StrCat(why, "; leave it out or write null"));
  }

  // One sentence about the keys that were not understood; none when all were.
  std::optional<std::string> UnknownKeys(const std::string& file) {
    for (std::string_view rest = kHarmlessKeys; !rest.empty();) {
      const size_t end = std::min(rest.find(' '), rest.size());
      known_.emplace(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    std::vector<std::string> unknown;
    for (const auto& [name, value] : object_.Members()) {
      if (!known_.contains(name)) unknown.push_back(Quoted(name, 40));
    }
    if (unknown.empty()) return std::nullopt;
    const size_t count = unknown.size();
    if (count > 8) {
      unknown.resize(8);
      unknown.push_back("...");
    }
    return absl::StrCat(file, ": ", count, count == 1 ? " key is" : " keys are",
                        " not known and ignored: ", JoinNames(unknown));
  }

  const JsonValue& value() const { return object_.value(); }

 private:
  JsonObject object_;
  std::set<std::string, std::less<>> known_;
};

// The activation of a two-matrix MLP. The library's "gelu" is the exact form, ours the tanh form.
Status ReadActivation(ConfigReader& reader, ActivationKind& activation) {
  const std::optional<JsonValue> value = reader.Find({"activation_function", "hidden_act"});
  if (!value.has_value()) return absl::OkStatus();
  TL_ASSIGN_OR_RETURN(const std::string name, value->AsString());
  if (name == "gelu_new" || name == "gelu_fast" || name == "gelu_pytorch_tanh") {
    activation = ActivationKind::kGelu;
  } else if (name == "relu") {
    activation = ActivationKind::kRelu;
  } else {
    return value->Error(absl::StrCat("activation ", Quoted(name),
                                     " is not implemented; valid: gelu_new, gelu_fast, "
                                     "gelu_pytorch_tanh, relu"));
  }
  return absl::OkStatus();
}

Status CompleteHeads(ConfigReader& reader, DecoderConfig& config) {
  if (config.kv_heads == 0) config.kv_heads = config.heads;
  if (config.head_dim > 0) return absl::OkStatus();
  if (config.hidden % config.heads != 0) {
    return reader.value().Error(absl::StrCat("the width ", config.hidden,
                                             " is not divisible by the ", config.heads,
                                             " heads; choose sizes that divide"));
  }
  config.head_dim = config.hidden / config.heads;
  return absl::OkStatus();
}

Status ReadGpt2(ConfigReader& reader, DecoderConfig& config) {
  TL_RETURN_IF_ERROR(reader.Size({"n_embd", "hidden_size"}, kMostWidth, config.hidden));
  TL_RETURN_IF_ERROR(reader.Size({"n_layer", "num_hidden_layers"}, kMostLayers, config.layers));
  TL_RETURN_IF_ERROR(reader.Size({"n_head", "num_attention_heads"}, kMostHeads, config.heads));
  TL_RETURN_IF_ERROR(
      reader.Size({"n_positions", "max_position_embeddings"}, kMostRows, config.max_positions));
  TL_RETURN_IF_ERROR(reader.Size({"vocab_size"}, kMostRows, config.vocab));
  config.ffn = std::min(4 * config.hidden, kMostWidth);
  TL_RETURN_IF_ERROR(reader.OptionalSize({"n_inner"}, kMostWidth, config.ffn));
  config.activation = ActivationKind::kGelu;
  TL_RETURN_IF_ERROR(ReadActivation(reader, config.activation));
  TL_RETURN_IF_ERROR(reader.OptionalReal("layer_norm_epsilon", 1e-12, 0.5, config.norm_epsilon));
  config.tied_embedding = true;
  TL_RETURN_IF_ERROR(reader.OptionalBool("tie_word_embeddings", config.tied_embedding));
  TL_RETURN_IF_ERROR(
      reader.NeedBool("scale_attn_weights", true, "unscaled attention is not implemented"));
  TL_RETURN_IF_ERROR(reader.NeedBool("scale_attn_by_inverse_layer_idx", false,
                                     "scaling attention by layer is not implemented"));
  TL_RETURN_IF_ERROR(
      reader.NeedBool("add_cross_attention", false, "cross attention is not implemented"));
  config.fused_qkv = true;
  config.attention_bias = config.output_bias = config.mlp_bias = true;
  return CompleteHeads(reader, config);
}

Status ReadOpt(ConfigReader& reader, DecoderConfig& config) {
  TL_RETURN_IF_ERROR(reader.Size({"hidden_size"}, kMostWidth, config.hidden));
  TL_RETURN_IF_ERROR(reader.Size({"num_hidden_layers"}, kMostLayers, config.layers));
  TL_RETURN_IF_ERROR(reader.Size({"num_attention_heads"}, kMostHeads, config.heads));
  TL_RETURN_IF_ERROR(reader.Size({"ffn_dim"}, kMostWidth, config.ffn));
  TL_RETURN_IF_ERROR(reader.Size({"vocab_size"}, kMostRows, config.vocab));
  TL_RETURN_IF_ERROR(reader.Size({"max_position_embeddings"}, kMostRows, config.max_positions));
  config.activation = ActivationKind::kRelu;
  TL_RETURN_IF_ERROR(ReadActivation(reader, config.activation));
  config.position_offset = 2;
  config.tied_embedding = true;
  TL_RETURN_IF_ERROR(reader.OptionalBool("tie_word_embeddings", config.tied_embedding));
  TL_RETURN_IF_ERROR(reader.NeedBool("do_layer_norm_before", true,
                                     "blocks that normalise afterwards are not implemented"));
  TL_RETURN_IF_ERROR(reader.NeedBool("layer_norm_elementwise_affine", true,
                                     "norms without parameters are not implemented"));
  TL_RETURN_IF_ERROR(reader.NeedBool("_remove_final_layer_norm", false,
                                     "a model without its final norm is not implemented"));
  int64_t projected = config.hidden;
  TL_RETURN_IF_ERROR(reader.OptionalSize({"word_embed_proj_dim"}, kMostWidth, projected));
  if (projected != config.hidden) {
    return reader.Find({"word_embed_proj_dim"})
        ->Error(absl::StrCat("an embedding of another width than hidden_size = ", config.hidden,
                             " is not implemented"));
  }
  bool bias = true;
  TL_RETURN_IF_ERROR(reader.OptionalBool("enable_bias", bias));
  config.attention_bias = config.output_bias = config.mlp_bias = bias;
  return CompleteHeads(reader, config);
}

// `scaling` is rope_scaling, or rope_parameters of newer files, which holds rope_theta too.
Status ReadRopeScaling(const JsonValue& scaling, RotaryScaling& rotary) {
  TL_ASSIGN_OR_RETURN(JsonObject object, scaling.AsObject());
  std::string type;
  TL_RETURN_IF_ERROR(object.ReadOptional("type", &type));
  TL_RETURN_IF_ERROR(object.ReadOptional("rope_type", &type));
  TL_RETURN_IF_ERROR(object.ReadOptional("rope_theta", &rotary.theta, 1e-6, 1e15));
  if (type == "default") return absl::OkStatus();
  if (type != "llama3") {
    return scaling.Error(absl::StrCat("rope type ", type.empty() ? "(missing)" : Quoted(type),
                                      " is not implemented; valid: default, llama3"));
  }
  TL_RETURN_IF_ERROR(object.Read("factor", &rotary.factor, 1.0, 1e6));
  TL_RETURN_IF_ERROR(object.Read("low_freq_factor", &rotary.low_frequency_factor, 1e-6, 1e6));
  TL_RETURN_IF_ERROR(object.Read("high_freq_factor", &rotary.high_frequency_factor, 1e-6, 1e6));
  if (rotary.high_frequency_factor <= rotary.low_frequency_factor) {
    return scaling.Error("high_freq_factor must be above low_freq_factor");
  }
  return object.Read("original_max_position_embeddings", &rotary.original_positions, 1, kMostRows);
}

// Features of LLaMA's relatives that would change the result if they were ignored.
Status RefuseLlamaFeatures(ConfigReader& reader) {
  TL_RETURN_IF_ERROR(
      reader.NeedAbsent("sliding_window", "sliding-window attention is not implemented"));
  TL_RETURN_IF_ERROR(
      reader.NeedAbsent("use_sliding_window", "sliding-window attention is not implemented"));
  double partial = 1.0;
  TL_RETURN_IF_ERROR(reader.OptionalReal("partial_rotary_factor", 0.0, 1.0, partial));
  if (partial != 1.0) {
    return reader.Find({"partial_rotary_factor"})
        ->Error("rotating only part of a head is not implemented; only 1.0 is supported");
  }
  const std::optional<JsonValue> act = reader.Find({"hidden_act"});
  if (!act.has_value()) return absl::OkStatus();
  TL_ASSIGN_OR_RETURN(const std::string name, act->AsString());
  if (name == "silu" || name == "swish") return absl::OkStatus();
  return act->Error(
      absl::StrCat("gated activation ", Quoted(name), " is not implemented; valid: silu"));
}

Status ReadLlama(ConfigReader& reader, DecoderConfig& config) {
  TL_RETURN_IF_ERROR(reader.Size({"hidden_size"}, kMostWidth, config.hidden));
  TL_RETURN_IF_ERROR(reader.Size({"intermediate_size"}, kMostWidth, config.ffn));
  TL_RETURN_IF_ERROR(reader.Size({"num_hidden_layers"}, kMostLayers, config.layers));
  TL_RETURN_IF_ERROR(reader.Size({"num_attention_heads"}, kMostHeads, config.heads));
  TL_RETURN_IF_ERROR(reader.OptionalSize({"num_key_value_heads"}, kMostHeads, config.kv_heads));
  TL_RETURN_IF_ERROR(reader.OptionalSize({"head_dim"}, kMostHeads, config.head_dim));
  TL_RETURN_IF_ERROR(reader.Size({"vocab_size"}, kMostRows, config.vocab));
  config.max_positions = 2048;
  TL_RETURN_IF_ERROR(
      reader.OptionalSize({"max_position_embeddings"}, kMostRows, config.max_positions));
  config.norm = NormKind::kRmsNorm;
  config.norm_epsilon = 1e-6;
  TL_RETURN_IF_ERROR(reader.OptionalReal("rms_norm_eps", 1e-12, 0.5, config.norm_epsilon));
  config.activation = ActivationKind::kSwiGlu;
  config.position = PositionKind::kRotary;
  TL_RETURN_IF_ERROR(reader.OptionalReal("rope_theta", 1e-6, 1e15, config.rotary.theta));
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const std::optional<JsonValue> scaling = reader.Find({key});
    if (scaling.has_value()) TL_RETURN_IF_ERROR(ReadRopeScaling(*scaling, config.rotary));
  }
  TL_RETURN_IF_ERROR(reader.OptionalBool("tie_word_embeddings", config.tied_embedding));
  TL_RETURN_IF_ERROR(reader.OptionalBool("attention_bias", config.attention_bias));
  config.output_bias = config.attention_bias;
  TL_RETURN_IF_ERROR(reader.OptionalBool("mlp_bias", config.mlp_bias));
  TL_RETURN_IF_ERROR(RefuseLlamaFeatures(reader));
  return CompleteHeads(reader, config);
}

using FamilyReader = Status (*)(ConfigReader& reader, DecoderConfig& config);

StatusOr<FamilyReader> ReadFamily(ConfigReader& reader) {
  static const std::vector<std::string> kFamilies = {"gpt2", "opt", "llama"};
  const std::optional<JsonValue> value = reader.Find({"model_type"});
  if (!value.has_value()) {
    return reader.value().Error(
        absl::StrCat("key 'model_type' is missing; valid: ", JoinNames(kFamilies)));
  }
  TL_ASSIGN_OR_RETURN(const std::string type, value->AsString());
  if (type == "gpt2") return ReadGpt2;
  if (type == "opt") return ReadOpt;
  if (type == "llama") return ReadLlama;
  return value->Error(UnknownName("model type", type, kFamilies));
}

// "models/llama-3.1-8b.json" and "llama-3.1-8b/config.json" are both llama-3.1-8b.
std::string ModelName(const std::string& file) {
  const auto last_part = [](const std::string& path) {
    const size_t slash = path.rfind('/');
    return slash == std::string::npos ? path : path.substr(slash + 1);
  };
  std::string stem = last_part(file);
  if (stem.ends_with(".json")) stem.resize(stem.size() - 5);
  const size_t slash = file.rfind('/');
  if (stem == "config" && slash != std::string::npos && slash > 0) {
    const std::string folder = last_part(file.substr(0, slash));
    if (!folder.empty() && folder != "." && folder != "..") return folder;
  }
  return stem;
}

}  // namespace

StatusOr<ImportedModel> ImportHfConfig(std::string_view text, const std::string& file) {
  TL_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text, file));
  TL_ASSIGN_OR_RETURN(JsonObject object, document.root().AsObject());
  ConfigReader reader(std::move(object));
  ImportedModel model;
  model.config.name = ModelName(file);
  TL_ASSIGN_OR_RETURN(const FamilyReader read, ReadFamily(reader));
  TL_RETURN_IF_ERROR(
      reader.NeedAbsent("quantization_config", "quantised weights are not implemented"));
  TL_RETURN_IF_ERROR(
      reader.NeedBool("is_encoder_decoder", false, "encoder-decoder models are not implemented"));
  TL_RETURN_IF_ERROR(read(reader, model.config));
  TL_RETURN_IF_ERROR(Annotate(ValidateConfig(model.config), file));
  const std::optional<std::string> warning = reader.UnknownKeys(file);
  if (warning.has_value()) model.warnings.push_back(*warning);
  return model;
}

}  // namespace tideline
