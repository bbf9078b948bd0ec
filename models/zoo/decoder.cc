#include "models/zoo/decoder.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/zoo/graph_builder.h"

namespace tideline {
namespace {

constexpr float kInitStddev = 0.02f;

// Where a layer drops; part of the key of its random numbers.
enum DropoutSite : int32_t {
  kEmbeddingSite,
  kProbabilitiesSite,
  kAttentionOutputSite,
  kMlpOutputSite
};

class DecoderBuilder {
 public:
  DecoderBuilder(const DecoderConfig& config, const ModelShape& shape)
      : config_(config), shape_(shape), builder_(graph_, shape.dtype) {
    graph_.name = config.name;
    graph_.blocks = static_cast<int32_t>(config.layers) + 2;
    graph_.batch = shape.batch;
    graph_.sequence = shape.sequence;
    vocab_ =
        (config.vocab + shape.vocab_multiple - 1) / shape.vocab_multiple * shape.vocab_multiple;
  }

  StatusOr<Graph> Build() {
    const TensorId ids = builder_.Tokens("ids");
    const TensorId targets = builder_.Tokens("targets");
    TensorId x = Embed(ids);
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      builder_.SetLayer(static_cast<int32_t>(layer) + 1);
      x = Layer(absl::StrCat("layers.", layer, "."), x);
    }
    builder_.SetLayer(graph_.blocks - 1);
    graph_.loss = Head(x, targets);
    TL_RETURN_IF_ERROR(builder_.status());
    TL_RETURN_IF_ERROR(ValidateGraph(graph_));
    return std::move(graph_);
  }

 private:
  ParameterOptions Matrix(int32_t tensor_parallel_dim) const {
    return {.stddev = kInitStddev, .decay = true, .tensor_parallel_dim = tensor_parallel_dim};
  }
  ParameterOptions Rows() const {
    ParameterOptions options = Matrix(0);
    if (vocab_ > config_.vocab) options.valid_rows = config_.vocab;
    return options;
  }

  TensorId Embed(TensorId ids);
  TensorId Norm(const std::string& name, TensorId x);
  TensorId Linear(const std::string& name, TensorId x, int64_t in, int64_t out, bool bias,
                  bool cut_output);
  TensorId Add(const std::string& name, TensorId a, TensorId b) {
    return builder_.Apply(Op::kAdd, {}, {a, b}, {name})[0];
  }
  Dropout DropoutAt(DropoutSite site) const {
    if (config_.dropout == 0) return {};
    return {.rate = static_cast<float>(config_.dropout), .site = site, .first_sample = {}};
  }
  TensorId Drop(const std::string& name, TensorId x, DropoutSite site) {
    Attributes attributes;
    attributes.dropout = DropoutAt(site);
    if (attributes.dropout.rate == 0) return x;
    return builder_.Apply(Op::kDropout, attributes, {x}, {name + ".dropout"})[0];
  }
  TensorId Rotate(const std::string& name, TensorId x) {
    Attributes attributes;
    attributes.rotary = config_.rotary;
    return builder_.Apply(Op::kRotary, attributes, {x}, {name})[0];
  }
  void Project(const std::string& prefix, TensorId x, TensorId& q, TensorId& k, TensorId& v);
  TensorId Heads(const std::string& name, TensorId of, int64_t heads, int64_t offset) {
    return builder_.View(name, of, {shape_.batch, shape_.sequence, heads, config_.head_dim}, offset,
                         0);
  }
  TensorId FusedContext(const std::string& prefix, TensorId q, TensorId k, TensorId v);
  TensorId Context(const std::string& prefix, TensorId q, TensorId k, TensorId v);
  TensorId Attention(const std::string& prefix, TensorId x);
  TensorId Mlp(const std::string& prefix, TensorId x);
  TensorId Layer(const std::string& prefix, TensorId x);
  TensorId Head(TensorId x, TensorId targets);

  const DecoderConfig& config_;
  const ModelShape& shape_;
  int64_t vocab_ = 0;  // padded
  TensorId embedding_ = kNone;
  Graph graph_;
  GraphBuilder builder_;
};

TensorId DecoderBuilder::Embed(TensorId ids) {
  embedding_ = builder_.Parameter("embedding.weight", {vocab_, config_.hidden}, Rows());
  TensorId x = builder_.Apply(Op::kEmbedding, {}, {ids, embedding_}, {"embedding"})[0];
  if (config_.position == PositionKind::kRotary) return Drop("embedding", x, kEmbeddingSite);
  const TensorId table = builder_.Parameter(
      "position.weight", {config_.max_positions + config_.position_offset, config_.hidden},
      Matrix(kNone));
  Attributes attributes;
  attributes.position_offset.base = config_.position_offset;
  x = builder_.Apply(Op::kAddPosition, attributes, {x, table}, {"position"})[0];
  return Drop("embedding", x, kEmbeddingSite);
}

TensorId DecoderBuilder::Norm(const std::string& name, TensorId x) {
  Attributes attributes;
  attributes.epsilon = static_cast<float>(config_.norm_epsilon);
  const TensorId gamma = builder_.Parameter(name + ".weight", {config_.hidden}, {.value = 1.0f});
  if (config_.norm == NormKind::kRmsNorm) {
    return builder_.Apply(Op::kRmsNorm, attributes, {x, gamma}, {name, name + ".rstd"})[0];
  }
  const TensorId beta = builder_.Parameter(name + ".bias", {config_.hidden}, {});
  return builder_.Apply(Op::kLayerNorm, attributes, {x, gamma, beta},
                        {name, name + ".mean", name + ".rstd"})[0];
}

// Column-parallel (`cut_output`): weight and bias are cut on the output; row-parallel: the weight
// on its input, the bias whole.
TensorId DecoderBuilder::Linear(const std::string& name, TensorId x, int64_t in, int64_t out,
                                bool bias, bool cut_output) {
  std::vector<TensorId> inputs = {
      x, builder_.Parameter(name + ".weight", {in, out}, Matrix(cut_output ? 1 : 0))};
  if (bias) {
    inputs.push_back(
        builder_.Parameter(name + ".bias", {out}, {.tensor_parallel_dim = cut_output ? 0 : kNone}));
  }
  Attributes attributes;
  attributes.equation = bias ? "bsk,kn,n->bsn" : "bsk,kn->bsn";
  return builder_.Apply(Op::kEinsum, attributes, inputs, {name})[0];
}

// q, k and v with their heads as a dimension, before rotation.
void DecoderBuilder::Project(const std::string& prefix, TensorId x, TensorId& q, TensorId& k,
                             TensorId& v) {
  const int64_t width = config_.heads * config_.head_dim;
  const int64_t kv_width = config_.kv_heads * config_.head_dim;
  if (!config_.fused_qkv) {
    const bool bias = config_.attention_bias;
    q = Linear(prefix + "q", x, config_.hidden, width, bias, true);
    k = Linear(prefix + "k", x, config_.hidden, kv_width, bias, true);
    v = Linear(prefix + "v", x, config_.hidden, kv_width, bias, true);
    q = Heads(prefix + "q.heads", q, config_.heads, 0);
    k = Heads(prefix + "k.heads", k, config_.kv_heads, 0);
    v = Heads(prefix + "v.heads", v, config_.kv_heads, 0);
    return;
  }
  std::vector<TensorId> inputs = {
      x, builder_.Parameter(prefix + "qkv.weight", {3, config_.hidden, width}, Matrix(2))};
  Attributes attributes;
  attributes.equation = "bsk,qkn->qbsn";
  if (config_.attention_bias) {
    inputs.push_back(
        builder_.Parameter(prefix + "qkv.bias", {3, width}, {.tensor_parallel_dim = 1}));
    attributes.equation = "bsk,qkn,qn->qbsn";
  }
  const TensorId qkv = builder_.Apply(Op::kEinsum, attributes, inputs, {prefix + "qkv"})[0];
  const int64_t slice = shape_.batch * shape_.sequence * width;
  q = Heads(prefix + "q.heads", qkv, config_.heads, 0);
  k = Heads(prefix + "k.heads", qkv, config_.heads, slice);
  v = Heads(prefix + "v.heads", qkv, config_.heads, 2 * slice);
}

// q is [b, s, g, r, d].
TensorId DecoderBuilder::FusedContext(const std::string& prefix, TensorId q, TensorId k,
                                      TensorId v) {
  Attributes attributes;
  attributes.causal = true;
  attributes.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  attributes.dropout = DropoutAt(kProbabilitiesSite);
  return builder_.Apply(Op::kAttention, attributes, {q, k, v},
                        {prefix + "context", prefix + "context.lse"})[0];
}

// q is [b, s, a, d], or with grouped queries [b, s, g, r, d].
TensorId DecoderBuilder::Context(const std::string& prefix, TensorId q, TensorId k, TensorId v) {
  const bool grouped = config_.kv_heads != config_.heads;
  Attributes attributes;
  attributes.causal = true;
  attributes.equation = grouped ? "bsgrd,btgd->bgrst" : "bsad,btad->bast";
  attributes.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(config_.head_dim)));
  const TensorId scores = builder_.Apply(Op::kEinsum, attributes, {q, k}, {prefix + "scores"})[0];
  TensorId probabilities =
      builder_.Apply(Op::kCausalSoftmax, {}, {scores}, {prefix + "probabilities"})[0];
  probabilities = Drop(prefix + "probabilities", probabilities, kProbabilitiesSite);
  attributes.equation = grouped ? "bgrst,btgd->bsgrd" : "bast,btad->bsad";
  attributes.scale = 1.0f;
  return builder_.Apply(Op::kEinsum, attributes, {probabilities, v}, {prefix + "context"})[0];
}

TensorId DecoderBuilder::Attention(const std::string& prefix, TensorId x) {
  TensorId q = kNone, k = kNone, v = kNone;
  Project(prefix, x, q, k, v);
  if (config_.position == PositionKind::kRotary) {
    q = Rotate(prefix + "q.rotated", q);
    k = Rotate(prefix + "k.rotated", k);
  }
  if (shape_.fused_attention || config_.kv_heads != config_.heads) {
    q = builder_.View(prefix + "q.groups", q,
                      {shape_.batch, shape_.sequence, config_.kv_heads,
                       config_.heads / config_.kv_heads, config_.head_dim},
                      0, 0);
  }
  const TensorId context =
      shape_.fused_attention ? FusedContext(prefix, q, k, v) : Context(prefix, q, k, v);
  const int64_t width = config_.heads * config_.head_dim;
  const TensorId merged = builder_.View(prefix + "context.merged", context,
                                        {shape_.batch, shape_.sequence, width}, 0, 0);
  const TensorId output =
      Linear(prefix + "output", merged, width, config_.hidden, config_.output_bias, false);
  return Drop(prefix + "output", output, kAttentionOutputSite);
}

TensorId DecoderBuilder::Mlp(const std::string& prefix, TensorId x) {
  const bool bias = config_.mlp_bias;
  TensorId inner = kNone;
  if (config_.activation == ActivationKind::kSwiGlu) {
    const TensorId gate = Linear(prefix + "gate", x, config_.hidden, config_.ffn, bias, true);
    const TensorId up = Linear(prefix + "up", x, config_.hidden, config_.ffn, bias, true);
    inner = builder_.Apply(Op::kSwiGlu, {}, {gate, up}, {prefix + "activation"})[0];
  } else {
    const TensorId up = Linear(prefix + "up", x, config_.hidden, config_.ffn, bias, true);
    const Op op = config_.activation == ActivationKind::kGelu ? Op::kGelu : Op::kRelu;
    inner = builder_.Apply(op, {}, {up}, {prefix + "activation"})[0];
  }
  const TensorId down = Linear(prefix + "down", inner, config_.ffn, config_.hidden, bias, false);
  return Drop(prefix + "down", down, kMlpOutputSite);
}

TensorId DecoderBuilder::Layer(const std::string& prefix, TensorId x) {
  const TensorId attention_in = Norm(prefix + "attention.norm", x);
  const TensorId attention_out = Attention(prefix + "attention.", attention_in);
  x = Add(prefix + "attention.residual", x, attention_out);
  const TensorId mlp_in = Norm(prefix + "mlp.norm", x);
  const TensorId mlp_out = Mlp(prefix + "mlp.", mlp_in);
  return Add(prefix + "mlp.residual", x, mlp_out);
}

TensorId DecoderBuilder::Head(TensorId x, TensorId targets) {
  x = Norm("final_norm", x);
  const TensorId weight = config_.tied_embedding
                              ? embedding_
                              : builder_.Parameter("head.weight", {vocab_, config_.hidden}, Rows());
  Attributes attributes;
  attributes.equation = "bsh,vh->bsv";
  const TensorId logits = builder_.Apply(Op::kEinsum, attributes, {x, weight}, {"head.logits"})[0];
  Attributes entropy;
  entropy.valid_columns = config_.vocab;
  return builder_.Apply(Op::kCrossEntropy, entropy, {logits, targets},
                        {"head.loss", "head.lse"})[0];
}

Status BadField(const DecoderConfig& config, const std::string& field, int64_t value,
                const std::string& why) {
  return InputError(absl::StrCat("model '", config.name, "': ", field, " = ", value, " ", why));
}

Status CheckRotary(const DecoderConfig& config) {
  const RotaryScaling& rotary = config.rotary;
  const bool rotary_ok =
      std::isfinite(rotary.theta) && rotary.theta > 0 && std::isfinite(rotary.factor) &&
      rotary.factor >= 1 && std::isfinite(rotary.low_frequency_factor) &&
      rotary.low_frequency_factor > 0 && std::isfinite(rotary.high_frequency_factor) &&
      (rotary.factor == 1.0 || rotary.high_frequency_factor > rotary.low_frequency_factor) &&
      rotary.original_positions >= 1;
  if (!rotary_ok) {
    return InputError(absl::StrCat("model '", config.name,
                                   "': the rotary settings are out of range; theta > 0, factor "
                                   ">= 1, 0 < low_freq_factor < high_freq_factor"));
  }
  return absl::OkStatus();
}

}  // namespace

Status ValidateConfig(const DecoderConfig& config) {
  struct Field {
    const char* name;
    int64_t value;
    int64_t least;
    int64_t most;
  };
  const Field fields[] = {
      {"layers", config.layers, 1, kMostLayers},
      {"hidden", config.hidden, 1, kMostWidth},
      {"heads", config.heads, 1, kMostHeads},
      {"kv_heads", config.kv_heads, 1, kMostHeads},
      {"head_dim", config.head_dim, 1, kMostHeads},
      {"ffn", config.ffn, 1, kMostWidth},
      {"vocab", config.vocab, 1, kMostRows},
      {"max_positions", config.max_positions, 1, kMostRows},
      {"position_offset", config.position_offset, 0, 1024},
  };
  for (const Field& field : fields) {
    if (field.value >= field.least && field.value <= field.most) continue;
    return BadField(config, field.name, field.value,
                    absl::StrCat("is out of range; write a whole number from ", field.least, " to ",
                                 field.most));
  }
  if (config.heads % config.kv_heads != 0) {
    return BadField(config, "heads", config.heads,
                    absl::StrCat("is not divisible by kv_heads = ", config.kv_heads,
                                 "; every key head serves equally many query heads"));
  }
  if (config.heads * config.head_dim > kMostWidth) {
    return BadField(config, "head_dim", config.head_dim,
                    absl::StrCat("times heads = ", config.heads, " is above ", kMostWidth));
  }
  if (config.fused_qkv && config.heads != config.kv_heads) {
    return BadField(config, "kv_heads", config.kv_heads,
                    absl::StrCat("differs from heads = ", config.heads,
                                 "; a fused projection has q, k and v of equal width"));
  }
  if (config.position == PositionKind::kRotary && config.head_dim % 2 != 0) {
    return BadField(config, "head_dim", config.head_dim,
                    "is odd; rotary positions turn pairs, so it must be even");
  }
  TL_RETURN_IF_ERROR(CheckRotary(config));
  if (!(config.dropout >= 0 && config.dropout < 1)) {
    return InputError(absl::StrCat("model '", config.name, "': dropout = ", config.dropout,
                                   " must be at least 0 and below 1; 0 drops nothing"));
  }
  if (!(config.norm_epsilon > 0 && config.norm_epsilon < 1)) {
    return InputError(absl::StrCat("model '", config.name, "': norm_epsilon = ",
                                   config.norm_epsilon, " must lie between 0 and 1"));
  }
  return absl::OkStatus();
}

StatusOr<Graph> BuildDecoder(const DecoderConfig& config, const ModelShape& shape) {
  TL_RETURN_IF_ERROR(ValidateConfig(config));
  if (shape.batch < 1 || shape.sequence < 1 || shape.sequence > kMostTokens / shape.batch) {
    return UsageError(absl::StrCat("batch ", shape.batch, " and sequence ", shape.sequence,
                                   " must be at least 1, their product at most ", kMostTokens));
  }
  if (shape.vocab_multiple < 1 || shape.vocab_multiple > kMostRows) {
    return UsageError(absl::StrCat("the vocabulary multiple ", shape.vocab_multiple,
                                   " must lie between 1 and ", kMostRows));
  }
  if (config.position == PositionKind::kLearned && shape.sequence > config.max_positions) {
    return UsageError(absl::StrCat("sequence ", shape.sequence, " is longer than the ",
                                   config.max_positions, " learned positions of model '",
                                   config.name, "'; use --seq ", config.max_positions, " or less"));
  }
  return DecoderBuilder(config, shape).Build();
}

}  // namespace tideline
