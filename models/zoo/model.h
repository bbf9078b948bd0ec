// ModelConfig: the resolved configuration of any model of the zoo, and the only things that others
// ask of a model: its forward graph, and its traits.
//
// A new family of models is one more alternative of the variant, with a configuration, a builder
// and its traits; whoever plans, simulates or executes knows no family. Code that does (weights of
// decoders) asks for it by DecoderOf().
//
//   TL_ASSIGN_OR_RETURN(const ModelConfig model, ResolveModel("gpt2"));
//   TL_ASSIGN_OR_RETURN(const Graph graph, BuildModel(model, {.batch = 1, .sequence = 1024}));
#ifndef TIDELINE_MODELS_ZOO_MODEL_H_
#define TIDELINE_MODELS_ZOO_MODEL_H_

#include <array>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/status.h"
#include "models/ir/graph.h"
#include "models/zoo/convnet_config.h"
#include "models/zoo/decoder_config.h"
#include "models/zoo/model_shape.h"

namespace tideline {

using ModelConfig = std::variant<DecoderConfig, ConvNetConfig>;

// What one sample is, and so which data it comes from.
enum class SampleKind : uint8_t {
  kTokens,  // a sequence of ids, and the next token of each as its label
  kImages,  // an image and its label
};

// A number of the model that 1-D tensor parallelism cuts, so that tp must divide it.
struct TensorCut {
  std::string what;  // in the plural, for messages: "heads"
  int64_t size = 0;
};

// What planner, simulator and executor know of a model besides its graph.
struct ModelTraits {
  std::string name;
  // Blocks between the first (embedding) and the last (head and loss): what pipeline stages are
  // made of.
  int64_t layers = 0;
  // All layers cost the same: stages take equal numbers of them, and one stands for all.
  bool equal_layers = true;
  SampleKind samples = SampleKind::kTokens;
  std::array<int64_t, 3> image{};  // kImages: channels, height, width
  // Elements of one sample that have a loss each: tokens; 1 where a sample has one label.
  int64_t longest_sequence = 0;
  // Columns of the logits, without padding: the vocabulary, or the classes.
  int64_t classes = 0;
  // What tp must divide; and why it cannot be cut over tp at all, empty when it can.
  std::vector<TensorCut> tensor_cuts;
  std::string uncut;

  int64_t blocks() const { return layers + 2; }
};

ModelTraits TraitsOf(const ModelConfig& model);

// Checks a configuration by itself; see the ValidateConfig of its family. Errors: exit 5.
Status ValidateModel(const ModelConfig& model);

// The forward graph of one micro-batch with its loss. Errors: those of the family's builder.
StatusOr<Graph> BuildModel(const ModelConfig& model, const ModelShape& shape);

// The smallest model that has every kind of block `model` has: with a single layer when all are
// equal, else itself.
ModelConfig Shortened(const ModelConfig& model);

// The configuration of a decoder; null for other families.
const DecoderConfig* DecoderOf(const ModelConfig& model);

}  // namespace tideline

#endif  // TIDELINE_MODELS_ZOO_MODEL_H_
