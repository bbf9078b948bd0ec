#include "models/zoo/model.h"

#include <utility>

#include "models/zoo/convnet.h"
#include "models/zoo/decoder.h"

namespace tideline {
namespace {

ModelTraits Traits(const DecoderConfig& config) {
  ModelTraits traits;
  traits.name = config.name;
  traits.layers = config.layers;
  traits.longest_sequence = config.max_positions;
  traits.classes = config.vocab;
  traits.tensor_cuts = {{"heads", config.heads},
                        {"heads of keys and values", config.kv_heads},
                        {"columns of the MLP", config.ffn}};
  return traits;
}

ModelTraits Traits(const ConvNetConfig& config) {
  ModelTraits traits;
  traits.name = config.name;
  traits.layers = LayersOf(config);
  traits.equal_layers = false;
  traits.samples = SampleKind::kImages;
  traits.image = {config.channels, config.image, config.image};
  traits.longest_sequence = 1;
  traits.classes = config.classes;
  traits.uncut =
      "convolutions are not cut: 1-D tensor parallelism cuts the projections of transformers";
  return traits;
}

StatusOr<Graph> Build(const ConvNetConfig& config, const ModelShape& shape) {
  return BuildConvNet(config, shape);
}

ConvNetConfig Short(ConvNetConfig config) { return config; }

StatusOr<Graph> Build(const DecoderConfig& config, const ModelShape& shape) {
  return BuildDecoder(config, shape);
}

DecoderConfig Short(DecoderConfig config) {
  config.layers = 1;
  return config;
}

}  // namespace

ModelTraits TraitsOf(const ModelConfig& model) {
  return std::visit([](const auto& config) { return Traits(config); }, model);
}

Status ValidateModel(const ModelConfig& model) {
  return std::visit([](const auto& config) { return ValidateConfig(config); }, model);
}

StatusOr<Graph> BuildModel(const ModelConfig& model, const ModelShape& shape) {
  return std::visit([&](const auto& config) { return Build(config, shape); }, model);
}

ModelConfig Shortened(const ModelConfig& model) {
  return std::visit([](const auto& config) { return ModelConfig(Short(config)); }, model);
}

const DecoderConfig* DecoderOf(const ModelConfig& model) {
  return std::get_if<DecoderConfig>(&model);
}

}  // namespace tideline
