// DecoderConfig: a decoder transformer as its authors publish it; everything needed to rebuild its
// graph.
#ifndef TIDELINE_MODELS_ZOO_DECODER_CONFIG_H_
#define TIDELINE_MODELS_ZOO_DECODER_CONFIG_H_

#include <cstdint>
#include <string>

#include "models/ir/attributes.h"

namespace tideline {

enum class NormKind : uint8_t { kLayerNorm, kRmsNorm };
enum class ActivationKind : uint8_t { kGelu, kRelu, kSwiGlu };
enum class PositionKind : uint8_t { kLearned, kRotary };

// Limits of sizes, the same wherever a model comes from (a name with sizes, a config.json, a plan):
// far above every model there is, low enough that no product of two overflows.
inline constexpr int64_t kMostLayers = 16384;
inline constexpr int64_t kMostWidth = int64_t{1} << 24;  // hidden, ffn, heads * head_dim
inline constexpr int64_t kMostHeads = 65536;             // also of head_dim
inline constexpr int64_t kMostRows = int64_t{1} << 28;   // vocabulary, positions

struct DecoderConfig {
  std::string name;  // "gpt2", "opt-30b", the stem of a config file
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;  // = heads without grouped-query attention
  int64_t head_dim = 0;
  int64_t ffn = 0;  // width of one up-projection
  int64_t vocab = 0;
  int64_t max_positions = 0;
  NormKind norm = NormKind::kLayerNorm;
  ActivationKind activation = ActivationKind::kGelu;
  PositionKind position = PositionKind::kLearned;
  int64_t position_offset = 0;  // OPT: the table has two extra rows in front
  bool fused_qkv = false;       // one [3, h, h] projection (GPT-2) instead of three
  bool attention_bias = false;  // of q, k, v
  bool output_bias = false;     // of the attention output projection
  bool mlp_bias = false;
  bool tied_embedding = false;
  double norm_epsilon = 1e-5;
  // Share of elements dropped in training: of the embedding, of attention's probabilities, and of
  // the outputs of attention and MLP. From 0 on, below 1.
  double dropout = 0.0;
  RotaryScaling rotary;
  bool operator==(const DecoderConfig&) const = default;
};

}  // namespace tideline

#endif  // TIDELINE_MODELS_ZOO_DECODER_CONFIG_H_
