#include "models/import/hf_weights.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"

namespace tideline {
namespace {

// How the transformers library names a family's tensors.
struct Family {
  const char* prefix;                   // of all but the head
  std::array<const char*, 3> prefixes;  // that files have been seen with; null: no more
  const char* embedding;
  const char* position;  // null: none
  const char* layer;     // "h." + number + "."
  const char* attention_norm;
  std::array<const char*, 3> projections;  // q, k, v; the first alone when fused
  const char* output;
  const char* mlp_norm;
  const char* gate;
  const char* up;
  const char* down;
  const char* final_norm;
  bool transposed;                           // linear layers as [out, in]
  std::array<const char*, 2> layer_buffers;  // constants that old files have in each layer
};

constexpr Family kGpt2 = {
    .prefix = "transformer.",
    .prefixes = {"transformer.", "", nullptr},
    .embedding = "wte",
    .position = "wpe",
    .layer = "h.",
    .attention_norm = "ln_1",
    .projections = {"attn.c_attn", nullptr, nullptr},
    .output = "attn.c_proj",
    .mlp_norm = "ln_2",
    .gate = nullptr,
    .up = "mlp.c_fc",
    .down = "mlp.c_proj",
    .final_norm = "ln_f",
    .transposed = false,
    .layer_buffers = {"attn.bias", "attn.masked_bias"},
};

constexpr Family kOpt = {
    .prefix = "model.decoder.",
    .prefixes = {"model.decoder.", "decoder.", ""},
    .embedding = "embed_tokens",
    .position = "embed_positions",
    .layer = "layers.",
    .attention_norm = "self_attn_layer_norm",
    .projections = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
    .output = "self_attn.out_proj",
    .mlp_norm = "final_layer_norm",
    .gate = nullptr,
    .up = "fc1",
    .down = "fc2",
    .final_norm = "final_layer_norm",
    .transposed = true,
    .layer_buffers = {nullptr, nullptr},
};

constexpr Family kLlama = {
    .prefix = "model.",
    .prefixes = {"model.", "", nullptr},
    .embedding = "embed_tokens",
    .position = nullptr,
    .layer = "layers.",
    .attention_norm = "input_layernorm",
    .projections = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
    .output = "self_attn.o_proj",
    .mlp_norm = "post_attention_layernorm",
    .gate = "mlp.gate_proj",
    .up = "mlp.up_proj",
    .down = "mlp.down_proj",
    .final_norm = "norm",
    .transposed = true,
    .layer_buffers = {"self_attn.rotary_emb.inv_freq", nullptr},
};

constexpr const char* kHead = "lm_head.weight";

const Family& FamilyOf(const DecoderConfig& config) {
  if (config.fused_qkv) return kGpt2;
  return config.position == PositionKind::kRotary ? kLlama : kOpt;
}

std::vector<int64_t> RowMajor(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * shape[d];
  return strides;
}

class MapBuilder {
 public:
  MapBuilder(const DecoderConfig& config, std::string prefix)
      : config_(config), family_(FamilyOf(config)), prefix_(std::move(prefix)) {}

  WeightMap Build() {
    Plain("embedding.weight", absl::StrCat(family_.embedding, ".weight"),
          {config_.vocab, config_.hidden});
    if (config_.position == PositionKind::kLearned) {
      Plain("position.weight", absl::StrCat(family_.position, ".weight"),
            {config_.max_positions + config_.position_offset, config_.hidden});
    }
    for (int64_t layer = 0; layer < config_.layers; ++layer) Layer(layer);
    Norm("final_norm", family_.final_norm);
    if (!config_.tied_embedding) {
      Add("head.weight", {config_.vocab, config_.hidden},
          {{.tensor = kHead,
            .tensor_shape = {config_.vocab, config_.hidden},
            .extent = config_.vocab,
            .strides = {config_.hidden, 1}}});
    }
    return std::move(map_);
  }

 private:
  void Add(std::string parameter, std::vector<int64_t> shape, std::vector<WeightPart> parts) {
    map_.parameters.push_back({std::move(parameter), std::move(shape), std::move(parts)});
  }

  // A tensor of the parameter's own shape.
  void Plain(const std::string& parameter, const std::string& tensor,
             const std::vector<int64_t>& shape) {
    Add(parameter, shape,
        {{.tensor = prefix_ + tensor,
          .tensor_shape = shape,
          .extent = shape[0],
          .strides = RowMajor(shape)}});
  }

  void Norm(const std::string& parameter, const std::string& tensor) {
    Plain(parameter + ".weight", tensor + ".weight", {config_.hidden});
    if (config_.norm == NormKind::kLayerNorm) {
      Plain(parameter + ".bias", tensor + ".bias", {config_.hidden});
    }
  }

  void Linear(const std::string& parameter, const std::string& tensor, int64_t in, int64_t out,
              bool bias) {
    if (family_.transposed) {
      Add(parameter + ".weight", {in, out},
          {{.tensor = absl::StrCat(prefix_, tensor, ".weight"),
            .tensor_shape = {out, in},
            .extent = in,
            .strides = {1, in}}});
    } else {
      Plain(parameter + ".weight", tensor + ".weight", {in, out});
    }
    if (bias) Plain(parameter + ".bias", tensor + ".bias", {out});
  }

  // q, k and v of GPT-2: [hidden, 3 width] there, [3, hidden, width] here.
  void FusedProjection(const std::string& parameter, const std::string& tensor) {
    const int64_t hidden = config_.hidden, width = config_.heads * config_.head_dim;
    Add(parameter + ".weight", {3, hidden, width},
        {{.tensor = absl::StrCat(prefix_, tensor, ".weight"),
          .tensor_shape = {hidden, 3 * width},
          .extent = 3,
          .strides = {width, 3 * width, 1}}});
    if (!config_.attention_bias) return;
    Add(parameter + ".bias", {3, width},
        {{.tensor = absl::StrCat(prefix_, tensor, ".bias"),
          .tensor_shape = {3 * width},
          .extent = 3,
          .strides = {width, 1}}});
  }

  void Layer(int64_t layer) {
    const std::string ours = absl::StrCat("layers.", layer, ".");
    const std::string theirs = absl::StrCat(family_.layer, layer, ".");
    const int64_t hidden = config_.hidden;
    const int64_t width = config_.heads * config_.head_dim;
    const int64_t kv_width = config_.kv_heads * config_.head_dim;
    Norm(ours + "attention.norm", theirs + family_.attention_norm);
    if (config_.fused_qkv) {
      FusedProjection(ours + "attention.qkv", theirs + family_.projections[0]);
    } else {
      const bool bias = config_.attention_bias;
      Linear(ours + "attention.q", theirs + family_.projections[0], hidden, width, bias);
      Linear(ours + "attention.k", theirs + family_.projections[1], hidden, kv_width, bias);
      Linear(ours + "attention.v", theirs + family_.projections[2], hidden, kv_width, bias);
    }
    Linear(ours + "attention.output", theirs + family_.output, width, hidden, config_.output_bias);
    Norm(ours + "mlp.norm", theirs + family_.mlp_norm);
    if (config_.activation == ActivationKind::kSwiGlu) {
      Linear(ours + "mlp.gate", theirs + family_.gate, hidden, config_.ffn, config_.mlp_bias);
    }
    Linear(ours + "mlp.up", theirs + family_.up, hidden, config_.ffn, config_.mlp_bias);
    Linear(ours + "mlp.down", theirs + family_.down, config_.ffn, hidden, config_.mlp_bias);
  }

  const DecoderConfig& config_;
  const Family& family_;
  const std::string prefix_;
  WeightMap map_;
};

bool IsFloating(StoredType type) {
  return type == StoredType::kF64 || type == StoredType::kF32 || type == StoredType::kF16 ||
         type == StoredType::kBF16;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// The prefix under which the embedding is there.
StatusOr<std::string> FindPrefix(const DecoderConfig& config, const TensorFiles& files) {
  const Family& family = FamilyOf(config);
  std::vector<std::string> tried;
  for (const char* prefix : family.prefixes) {
    if (prefix == nullptr) continue;
    tried.push_back(absl::StrCat(prefix, family.embedding, ".weight"));
    if (files.Find(tried.back()) != nullptr) return std::string(prefix);
  }
  std::string names;
  for (const auto& [name, tensor] : files.tensors()) {
    if (names.size() > 120) break;
    absl::StrAppend(&names, names.empty() ? "" : ", ", Quoted(name));
  }
  return InputError(absl::StrCat(files.path(), ": no tensor ", JoinNames(tried), " for model '",
                                 config.name, "'; it holds ", files.tensors().size(),
                                 " tensors: ", names.empty() ? "none" : names,
                                 "; name the weights that belong to this model"));
}

Status CheckPart(const WeightPart& part, const DecoderConfig& config, const TensorFiles& files) {
  const StoredTensor* tensor = files.Find(part.tensor);
  if (tensor == nullptr) {
    std::vector<std::string> names;
    for (const auto& entry : files.tensors()) names.push_back(entry.first);
    const std::optional<std::string> nearest = NearestName(part.tensor, names);
    return InputError(absl::StrCat(
        files.path(), ": tensor ", Quoted(part.tensor), " is missing, which model '", config.name,
        "' needs", nearest ? absl::StrCat("; the nearest name there is ", Quoted(*nearest)) : ""));
  }
  const std::string where =
      absl::StrCat(files.FileName(*tensor), ": tensor ", Quoted(part.tensor), ": ");
  if (tensor->shape != part.tensor_shape) {
    return InputError(absl::StrCat(where, "its shape is ", ShapeText(tensor->shape), ", model '",
                                   config.name, "' has ", ShapeText(part.tensor_shape),
                                   "; name the model's own config.json or its own weights"));
  }
  if (!IsFloating(tensor->type)) {
    return InputError(absl::StrCat(where, "its type ", Name(tensor->type),
                                   " is no weight's; F64, F32, F16 and BF16 can be loaded "
                                   "(quantised weights cannot)"));
  }
  return absl::OkStatus();
}

// A stored copy of a tied head must be the embedding, bit for bit.
Status CheckTiedHead(const StoredTensor& head, const StoredTensor& embedding,
                     const TensorFiles& files) {
  bool same = head.type == embedding.type && head.shape == embedding.shape;
  constexpr int64_t kPieceBytes = int64_t{1} << 20;
  std::vector<char> left, right;
  for (int64_t offset = 0; same && offset < head.bytes; offset += kPieceBytes) {
    left.resize(static_cast<size_t>(std::min(kPieceBytes, head.bytes - offset)));
    right.resize(left.size());
    TL_RETURN_IF_ERROR(files.Read(head, offset, left));
    TL_RETURN_IF_ERROR(files.Read(embedding, offset, right));
    same = left == right;
  }
  if (same) return absl::OkStatus();
  return InputError(absl::StrCat(
      files.FileName(head), ": tensor ", Quoted(head.name), " differs from ",
      Quoted(embedding.name),
      ", but this model's head is tied to its embedding; set \"tie_word_embeddings\": false in "
      "its config.json if they are two matrices"));
}

bool IsKnownBuffer(const std::string& name, const Family& family, const std::string& prefix) {
  if (!name.starts_with(absl::StrCat(prefix, family.layer))) return false;
  for (const char* buffer : family.layer_buffers) {
    if (buffer != nullptr && name.ends_with(absl::StrCat(".", buffer))) return true;
  }
  return false;
}

}  // namespace

WeightMap HuggingFaceWeights(const DecoderConfig& config) {
  return MapBuilder(config, FamilyOf(config).prefix).Build();
}

StatusOr<WeightMap> MatchWeights(const DecoderConfig& config, const TensorFiles& files) {
  TL_ASSIGN_OR_RETURN(const std::string prefix, FindPrefix(config, files));
  const Family& family = FamilyOf(config);
  WeightMap map = MapBuilder(config, prefix).Build();
  std::set<std::string, std::less<>> used;
  for (const ParameterWeights& parameter : map.parameters) {
    for (const WeightPart& part : parameter.parts) {
      TL_RETURN_IF_ERROR(CheckPart(part, config, files));
      used.insert(part.tensor);
    }
  }
  for (const auto& [name, tensor] : files.tensors()) {
    if (used.contains(name) || IsKnownBuffer(name, family, prefix)) continue;
    if (name == kHead && config.tied_embedding) {
      const StoredTensor& embedding =
          *files.Find(absl::StrCat(prefix, family.embedding, ".weight"));
      TL_RETURN_IF_ERROR(CheckTiedHead(tensor, embedding, files));
      continue;
    }
    return InputError(absl::StrCat(files.FileName(tensor), ": tensor ", Quoted(name),
                                   " has no place in model '", config.name,
                                   "'; name the model's own config.json or its own weights"));
  }
  return map;
}

}  // namespace tideline
