// Tiny decoder configurations that between them have every feature of the models Tideline trains.
#ifndef TIDELINE_TESTS_REFERENCE_TEST_MODELS_H_
#define TIDELINE_TESTS_REFERENCE_TEST_MODELS_H_

#include "models/zoo/decoder_config.h"

namespace tideline::reference {

// Fused projections, tanh GELU, learned positions, tied head.
inline DecoderConfig TinyGpt(int64_t layers = 2, int64_t hidden = 16, int64_t heads = 4) {
  DecoderConfig config;
  config.name = "tiny-gpt";
  config.layers = layers;
  config.hidden = hidden;
  config.heads = config.kv_heads = heads;
  config.head_dim = hidden / heads;
  config.ffn = 4 * hidden;
  config.vocab = 257;
  config.max_positions = 64;
  config.fused_qkv = true;
  config.attention_bias = config.output_bias = config.mlp_bias = true;
  config.tied_embedding = true;
  return config;
}

// Separate projections, ReLU, two extra position rows, tied head.
inline DecoderConfig TinyOpt(int64_t layers = 2, int64_t hidden = 16, int64_t heads = 4) {
  DecoderConfig config = TinyGpt(layers, hidden, heads);
  config.name = "tiny-opt";
  config.activation = ActivationKind::kRelu;
  config.fused_qkv = false;
  config.position_offset = 2;
  return config;
}

// RMS norm, rotary positions rescaled as in LLaMA 3, SwiGLU, grouped keys, no biases, own head.
inline DecoderConfig TinyLlama(int64_t layers = 2, int64_t hidden = 16, int64_t heads = 4,
                               int64_t kv_heads = 2) {
  DecoderConfig config = TinyGpt(layers, hidden, heads);
  config.name = "tiny-llama";
  config.kv_heads = kv_heads;
  config.ffn = 3 * hidden;
  config.norm = NormKind::kRmsNorm;
  config.activation = ActivationKind::kSwiGlu;
  config.position = PositionKind::kRotary;
  config.fused_qkv = false;
  config.attention_bias = config.output_bias = config.mlp_bias = false;
  config.tied_embedding = false;
  config.norm_epsilon = 1e-6;
  config.rotary.theta = 10000.0;
  config.rotary.factor = 8.0;
  config.rotary.low_frequency_factor = 1.0;
  config.rotary.high_frequency_factor = 4.0;
  config.rotary.original_positions = 32;
  return config;
}

}  // namespace tideline::reference

#endif  // TIDELINE_TESTS_REFERENCE_TEST_MODELS_H_
