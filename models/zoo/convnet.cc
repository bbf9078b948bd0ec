#include "models/zoo/convnet.h"

#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/zoo/decoder_config.h"
#include "models/zoo/graph_builder.h"

namespace tideline {
namespace {

constexpr float kClassifierStddev = 0.01f;
constexpr int64_t kBottleneckFactor = 4;  // of ResNet's outputs and of DenseNet's inner channels

class ConvNetBuilder {
 public:
  ConvNetBuilder(const ConvNetConfig& config, const ModelShape& shape)
      : config_(config), shape_(shape), builder_(graph_, shape.dtype) {
    graph_.name = config.name;
    graph_.blocks = static_cast<int32_t>(LayersOf(config)) + 2;
    graph_.batch = shape.batch;
    graph_.sequence = 1;
  }

  StatusOr<Graph> Build() {
    TensorId images = builder_.Images("images", {config_.channels, config_.image, config_.image});
    const TensorId labels = builder_.Tokens("labels");
    TensorId x = Stem(images);
    x = config_.kind == ConvNetKind::kResNet ? ResidualStages(x) : DenseStages(x);
    builder_.SetLayer(graph_.blocks - 1);
    if (config_.kind == ConvNetKind::kDenseNet) x = NormRelu("head.norm", x);
    graph_.loss = Head(x, labels);
    TL_RETURN_IF_ERROR(builder_.status());
    TL_RETURN_IF_ERROR(ValidateGraph(graph_));
    return std::move(graph_);
  }

 private:
  int64_t ChannelsOf(TensorId x) const { return builder_.tensor(x).shape[1]; }

  TensorId Convolution(const std::string& name, TensorId x, int64_t outputs, int32_t size,
                       int32_t stride, int32_t padding) {
    Attributes attributes;
    attributes.window = {.stride = stride, .padding = padding};
    const double fan_out = static_cast<double>(outputs) * size * size;
    const TensorId weight =
        builder_.Parameter(name + ".weight", {outputs, ChannelsOf(x), size, size},
                           {.stddev = static_cast<float>(std::sqrt(2.0 / fan_out)), .decay = true});
    return builder_.Apply(Op::kConvolution, attributes, {x, weight}, {name})[0];
  }

  TensorId Norm(const std::string& name, TensorId x) {
    const int64_t channels = ChannelsOf(x);
    const TensorId gamma = builder_.Parameter(name + ".weight", {channels}, {.value = 1.0f});
    const TensorId beta = builder_.Parameter(name + ".bias", {channels}, {});
    const TensorId mean = builder_.State(name + ".running_mean", {channels}, 0.0f);
    const TensorId variance = builder_.State(name + ".running_variance", {channels}, 1.0f);
    const TensorId moments = builder_.Apply(Op::kBatchMoments, {}, {x}, {name + ".moments"})[0];
    Attributes track;
    track.constant = static_cast<float>(config_.norm_momentum);
    builder_.Update(Op::kBatchNormTrack, track, {moments}, {mean, variance}, name + ".track");
    Attributes attributes;
    attributes.epsilon = static_cast<float>(config_.norm_epsilon);
    return builder_.Apply(Op::kBatchNorm, attributes, {x, moments, gamma, beta},
                          {name, name + ".mean", name + ".rstd"})[0];
  }

  TensorId Relu(const std::string& name, TensorId x) {
    return builder_.Apply(Op::kRelu, {}, {x}, {name})[0];
  }

  TensorId NormRelu(const std::string& name, TensorId x) {
    return Relu(name + ".relu", Norm(name, x));
  }

  TensorId Average(const std::string& name, TensorId x, int64_t size) {
    Attributes attributes;
    attributes.window = {.height = static_cast<int32_t>(size),
                         .width = static_cast<int32_t>(size),
                         .stride = static_cast<int32_t>(size)};
    return builder_.Apply(Op::kAveragePool, attributes, {x}, {name})[0];
  }

  TensorId Stem(TensorId x) {
    if (shape_.dtype != DType::kF32) x = builder_.Cast("stem.images", x);
    const bool small = config_.stem == ImageStem::kSmall;
    x = small ? Convolution("stem.convolution", x, config_.width, 3, 1, 1)
              : Convolution("stem.convolution", x, config_.width, 7, 2, 3);
    // A dense layer begins with a norm of its own, so that a small stem needs none there.
    if (small && config_.kind == ConvNetKind::kDenseNet) return x;
    x = NormRelu("stem.norm", x);
    if (small) return x;
    Attributes attributes;
    attributes.window = {.height = 3, .width = 3, .stride = 2, .padding = 1};
    return builder_.Apply(Op::kMaxPool, attributes, {x}, {"stem.pool", "stem.pool.index"})[0];
  }

  TensorId ResidualStages(TensorId x) {
    int32_t layer = 0;
    for (size_t stage = 0; stage < config_.stages.size(); ++stage) {
      const int64_t width = config_.width << stage;
      for (int64_t i = 0; i < config_.stages[stage]; ++i) {
        builder_.SetLayer(++layer);
        const int32_t stride = stage > 0 && i == 0 ? 2 : 1;
        x = Residual(absl::StrCat("layers.", layer - 1, "."), x, width, stride);
      }
    }
    return x;
  }

  TensorId Residual(const std::string& prefix, TensorId x, int64_t width, int32_t stride) {
    const bool bottleneck = config_.block == ResidualBlock::kBottleneck;
    const int64_t outputs = bottleneck ? width * kBottleneckFactor : width;
    TensorId y = x;
    if (bottleneck) {
      y = NormRelu(prefix + "norm1", Convolution(prefix + "convolution1", y, width, 1, 1, 0));
      y = NormRelu(prefix + "norm2", Convolution(prefix + "convolution2", y, width, 3, stride, 1));
      y = Norm(prefix + "norm3", Convolution(prefix + "convolution3", y, outputs, 1, 1, 0));
    } else {
      y = NormRelu(prefix + "norm1", Convolution(prefix + "convolution1", y, width, 3, stride, 1));
      y = Norm(prefix + "norm2", Convolution(prefix + "convolution2", y, outputs, 3, 1, 1));
    }
    if (stride != 1 || ChannelsOf(x) != outputs) {
      x = Norm(prefix + "shortcut.norm",
               Convolution(prefix + "shortcut.convolution", x, outputs, 1, stride, 0));
    }
    const TensorId sum = builder_.Apply(Op::kAdd, {}, {x, y}, {prefix + "residual"})[0];
    return Relu(prefix + "relu", sum);
  }

  TensorId DenseStages(TensorId x) {
    int32_t layer = 0;
    for (size_t stage = 0; stage < config_.stages.size(); ++stage) {
      for (int64_t i = 0; i < config_.stages[stage]; ++i) {
        builder_.SetLayer(++layer);
        x = Dense(absl::StrCat("layers.", layer - 1, "."), x);
      }
      if (stage + 1 == config_.stages.size()) break;
      const std::string prefix = absl::StrCat("layers.", layer - 1, ".transition.");
      const int64_t outputs = ChannelsOf(x) / 2;
      x = Convolution(prefix + "convolution", NormRelu(prefix + "norm", x), outputs, 1, 1, 0);
      x = Average(prefix + "pool", x, 2);
    }
    return x;
  }

  TensorId Dense(const std::string& prefix, TensorId x) {
    const int64_t inner = kBottleneckFactor * config_.growth;
    TensorId y = NormRelu(prefix + "norm1", x);
    y = NormRelu(prefix + "norm2", Convolution(prefix + "convolution1", y, inner, 1, 1, 0));
    y = Convolution(prefix + "convolution2", y, config_.growth, 3, 1, 1);
    Attributes attributes;
    attributes.dimension = 1;
    return builder_.Apply(Op::kConcat, attributes, {x, y}, {prefix + "concat"})[0];
  }

  TensorId Head(TensorId x, TensorId labels) {
    const int64_t features = ChannelsOf(x);
    const TensorId pooled = Average("head.pool", x, builder_.tensor(x).shape[2]);
    if (!builder_.status().ok()) return kNone;
    const TensorId flat = builder_.View("head.features", pooled, {shape_.batch, 1, features}, 0, 0);
    const int64_t multiple = shape_.vocab_multiple;
    const int64_t padded = (config_.classes + multiple - 1) / multiple * multiple;
    ParameterOptions rows{.stddev = kClassifierStddev, .decay = true};
    ParameterOptions biases;
    if (padded > config_.classes) rows.valid_rows = biases.valid_rows = config_.classes;
    const TensorId weight = builder_.Parameter("head.weight", {padded, features}, rows);
    const TensorId bias = builder_.Parameter("head.bias", {padded}, biases);
    Attributes attributes;
    attributes.equation = "bsh,vh,v->bsv";
    const TensorId logits =
        builder_.Apply(Op::kEinsum, attributes, {flat, weight, bias}, {"head.logits"})[0];
    Attributes entropy;
    entropy.valid_columns = config_.classes;
    return builder_.Apply(Op::kCrossEntropy, entropy, {logits, labels},
                          {"head.loss", "head.lse"})[0];
  }

  const ConvNetConfig& config_;
  const ModelShape& shape_;
  Graph graph_;
  GraphBuilder builder_;
};

Status BadField(const ConvNetConfig& config, const std::string& field, int64_t value,
                const std::string& why) {
  return InputError(absl::StrCat("model '", config.name, "': ", field, " = ", value, " ", why));
}

// The image's side where the last stage sees it.
int64_t LastSide(const ConvNetConfig& config) {
  int64_t side = config.image;
  // Convolutions and the maximum round up, the averages of transitions down.
  if (config.stem == ImageStem::kStandard) side = ((side + 1) / 2 + 1) / 2;
  for (size_t stage = 1; stage < config.stages.size(); ++stage) {
    side = config.kind == ConvNetKind::kResNet ? (side + 1) / 2 : side / 2;
  }
  return side;
}

}  // namespace

int64_t LayersOf(const ConvNetConfig& config) {
  int64_t layers = 0;
  for (const int64_t blocks : config.stages) layers += blocks;
  return layers;
}

Status ValidateConfig(const ConvNetConfig& config) {
  struct Field {
    const char* name;
    int64_t value;
    int64_t most;
  };
  std::vector<Field> fields = {
      {"stages", static_cast<int64_t>(config.stages.size()), kMostConvNetStages},
      {"width", config.width, kMostChannels},
      {"growth", config.growth, kMostChannels},
      {"image", config.image, kMostImageSide},
      {"channels", config.channels, kMostChannels},
      {"classes", config.classes, kMostRows},
  };
  for (const int64_t blocks : config.stages) {
    fields.push_back({"blocks of a stage", blocks, kMostBlocksOfStage});
  }
  for (const Field& field : fields) {
    if (field.value >= 1 && field.value <= field.most) continue;
    return BadField(config, field.name, field.value,
                    absl::StrCat("is out of range; write a whole number from 1 to ", field.most));
  }
  const int64_t last_width = config.width << (config.stages.size() - 1);
  if (config.kind == ConvNetKind::kResNet && last_width > kMostChannels) {
    return BadField(config, "width", config.width,
                    absl::StrCat("doubles with each of the ", config.stages.size(),
                                 " stages to more than ", kMostChannels, " channels"));
  }
  if (LastSide(config) < 1) {
    return BadField(config, "image", config.image,
                    absl::StrCat("is too small to be halved before each of ", config.stages.size(),
                                 " stages; write a larger one or fewer stages"));
  }
  if (!(config.norm_epsilon > 0 && config.norm_epsilon < 1)) {
    return InputError(absl::StrCat("model '", config.name, "': norm_epsilon = ",
                                   config.norm_epsilon, " must lie between 0 and 1"));
  }
  if (!(config.norm_momentum >= 0 && config.norm_momentum <= 1)) {
    return InputError(absl::StrCat("model '", config.name, "': norm_momentum = ",
                                   config.norm_momentum, " must be from 0 to 1"));
  }
  return absl::OkStatus();
}

StatusOr<Graph> BuildConvNet(const ConvNetConfig& config, const ModelShape& shape) {
  TL_RETURN_IF_ERROR(ValidateConfig(config));
  if (shape.batch < 1 || shape.batch > kMostTokens || shape.sequence != 1) {
    return UsageError(absl::StrCat("batch ", shape.batch, " and sequence ", shape.sequence,
                                   " do not suit model '", config.name,
                                   "': a batch is at least 1 image, and an image has one label "
                                   "(sequence 1)"));
  }
  if (shape.vocab_multiple < 1 || shape.vocab_multiple > kMostRows) {
    return UsageError(absl::StrCat("the multiple of classes ", shape.vocab_multiple,
                                   " must lie between 1 and ", kMostRows));
  }
  return ConvNetBuilder(config, shape).Build();
}

}  // namespace tideline
