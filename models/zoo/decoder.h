// Builds the forward graph of a decoder transformer with its loss, as the published models are:
// pre-norm blocks, learned or rotary positions, LayerNorm or RMSNorm, GELU, ReLU or SwiGLU,
// grouped-query attention, tied or untied head, final norm, cross entropy per token.
//
// Blocks (Node::layer): 0 the embedding, 1..L the transformer layers, L + 1 final norm, head and
// loss.
//
// Names: tensors are named after what they are ("layers.3.attention.scores"), a node after its
// first output. Parameters end in ".weight" or ".bias".
//
// Layout: activations [batch, sequence, ...]. Heads are a dimension of their own in attention:
// q, k, v are views [b, s, a, d] of the projections' outputs (with a fused projection [3, b, s, n],
// slices of it; with grouped queries, q is [b, s, g, r, d]: query head g * R + r reads key head g,
// as Hugging Face does). So cutting heads over ranks is visible in letters.
//
// Attention is three nodes (scores, softmax, context), or with ModelShape::fused_attention one.
// Both drop the same probabilities.
//
// Types: parameters and activations have `dtype`; norm statistics, log-sum-exp and losses are fp32.
//
// What 1-D tensor parallelism cuts (Tensor::tensor_parallel_dim, Megatron-LM): projections of q, k,
// v, up and gate on their outputs with their biases, attention output and down on their inputs,
// embedding and head on vocabulary rows; norms, positions and the other biases are whole.
#ifndef TIDELINE_MODELS_ZOO_DECODER_H_
#define TIDELINE_MODELS_ZOO_DECODER_H_

#include "base/status.h"
#include "models/ir/graph.h"
#include "models/zoo/decoder_config.h"
#include "models/zoo/model_shape.h"

namespace tideline {

// Checks a configuration by itself: positive and plausible sizes, kv_heads dividing heads, an even
// head size under rotary. Errors (exit 5) name the field, its value and what to write instead.
Status ValidateConfig(const DecoderConfig& config);

// Errors: those of ValidateConfig; a batch or sequence below 1; a sequence longer than the table of
// learned positions (exit 2).
StatusOr<Graph> BuildDecoder(const DecoderConfig& config, const ModelShape& shape);

}  // namespace tideline

#endif  // TIDELINE_MODELS_ZOO_DECODER_H_
