#include "models/ops/gradient_rules.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "models/ops/equation.h"
#include "models/ops/op_table.h"

namespace tideline {
namespace {

TensorId Input(const GradientEmitter& emitter, int input) { return emitter.node().inputs[input]; }
TensorId Output(const GradientEmitter& emitter, int output) {
  return emitter.node().outputs[output];
}

// C = scale * sum(A B) + bias: dA = scale * sum(dC B), dB = scale * sum(dC A), dbias = rows of dC.
// Both sums contract in the order in which dC's letters stand, dC being their first operand.
Status EinsumRule(GradientEmitter& emitter) {
  const Attributes& forward = emitter.node().attributes;
  TL_ASSIGN_OR_RETURN(const Equation equation, ParseEquation(forward.equation));
  const TensorId a = Input(emitter, 0);
  const TensorId b = Input(emitter, 1);
  const bool has_bias = emitter.node().inputs.size() > 2;
  const TensorId dc = emitter.output_gradient();
  Attributes attributes;
  attributes.scale = forward.scale;
  attributes.causal = forward.causal;
  attributes.equation = absl::StrCat(equation.c, ",", equation.b, "->", equation.a);
  TL_RETURN_IF_ERROR(emitter.Emit(Op::kEinsum, attributes, {dc, b}, {0}, "a"));
  attributes.equation = absl::StrCat(equation.c, ",", equation.a, "->", equation.b);
  TL_RETURN_IF_ERROR(emitter.Emit(Op::kEinsum, attributes, {dc, a}, {1}, "b"));
  if (!has_bias) return absl::OkStatus();
  Attributes rows;
  rows.equation = absl::StrCat(equation.c, "->", equation.bias);
  return emitter.Emit(Op::kReduceRows, rows, {dc}, {2}, "bias");
}

Status EmbeddingRule(GradientEmitter& emitter) {
  Attributes attributes;
  attributes.row_offset = emitter.node().attributes.row_offset;
  return emitter.Emit(Op::kEmbeddingGrad, attributes,
                      {Input(emitter, 0), emitter.output_gradient()}, {1}, "table");
}

Status AddPositionRule(GradientEmitter& emitter) {
  emitter.Pass(0, emitter.output_gradient());
  Attributes attributes;
  attributes.position_offset = emitter.node().attributes.position_offset;
  return emitter.Emit(Op::kAddPositionGrad, attributes, {emitter.output_gradient()}, {1}, "table");
}

Status LayerNormRule(GradientEmitter& emitter) {
  const TensorId dy = emitter.output_gradient();
  const TensorId x = Input(emitter, 0);
  const TensorId gamma = Input(emitter, 1);
  const TensorId mean = Output(emitter, 1);
  const TensorId rstd = Output(emitter, 2);
  TL_RETURN_IF_ERROR(emitter.Emit(Op::kLayerNormGrad, {}, {dy, x, gamma, mean, rstd}, {0}, "x"));
  return emitter.Emit(Op::kLayerNormParameterGrad, {}, {dy, x, mean, rstd}, {1, 2}, "parameters");
}

Status RmsNormRule(GradientEmitter& emitter) {
  const TensorId dy = emitter.output_gradient();
  const TensorId x = Input(emitter, 0);
  const TensorId gamma = Input(emitter, 1);
  const TensorId rstd = Output(emitter, 1);
  TL_RETURN_IF_ERROR(emitter.Emit(Op::kRmsNormGrad, {}, {dy, x, gamma, rstd}, {0}, "x"));
  return emitter.Emit(Op::kRmsNormParameterGrad, {}, {dy, x, rstd}, {1}, "parameters");
}

Status AddRule(GradientEmitter& emitter) {
  emitter.Pass(0, emitter.output_gradient());
  emitter.Pass(1, emitter.output_gradient());
  return absl::OkStatus();
}

Status AddBiasRule(GradientEmitter& emitter) {
  emitter.Pass(0, emitter.output_gradient());
  const int rank = static_cast<int>(emitter.tensor(Input(emitter, 0)).shape.size());
  TL_ASSIGN_OR_RETURN(const IndexDescription letters, Describe(Op::kAddBias, {}, {rank, 1}));
  Attributes attributes;
  attributes.equation = absl::StrCat(letters.inputs[0], "->", letters.inputs[1]);
  return emitter.Emit(Op::kReduceRows, attributes, {emitter.output_gradient()}, {1}, "bias");
}

Status GeluRule(GradientEmitter& emitter) {
  return emitter.Emit(Op::kGeluGrad, {}, {emitter.output_gradient(), Input(emitter, 0)}, {0}, "x");
}

// Reads the output, which the next node keeps anyway.
Status ReluRule(GradientEmitter& emitter) {
  return emitter.Emit(Op::kReluGrad, {}, {emitter.output_gradient(), Output(emitter, 0)}, {0}, "x");
}

Status SwiGluRule(GradientEmitter& emitter) {
  return emitter.Emit(Op::kSwiGluGrad, {},
                      {emitter.output_gradient(), Input(emitter, 0), Input(emitter, 1)}, {0, 1},
                      "x");
}

// A rotation's transpose is the rotation back.
Status RotaryRule(GradientEmitter& emitter) {
  Attributes attributes = emitter.node().attributes;
  attributes.inverse = !attributes.inverse;
  return emitter.Emit(Op::kRotary, attributes, {emitter.output_gradient()}, {0}, "x");
}

Status CausalSoftmaxRule(GradientEmitter& emitter) {
  return emitter.Emit(Op::kCausalSoftmaxGrad, {}, {emitter.output_gradient(), Output(emitter, 0)},
                      {0}, "scores");
}

Status AttentionRule(GradientEmitter& emitter) {
  return emitter.Emit(Op::kAttentionGrad, emitter.node().attributes,
                      {emitter.output_gradient(), Input(emitter, 0), Input(emitter, 1),
                       Input(emitter, 2), Output(emitter, 0), Output(emitter, 1)},
                      {0, 1, 2}, "qkv");
}

// What was dropped gets no gradient, the rest was scaled.
Status DropoutRule(GradientEmitter& emitter) {
  return emitter.Emit(Op::kDropout, emitter.node().attributes, {emitter.output_gradient()}, {0},
                      "x");
}

// The seed of the backward pass: d(loss) is loss_scale for every token.
Status CrossEntropyRule(GradientEmitter& emitter) {
  Attributes attributes;
  attributes.loss_scale = emitter.loss_scale();
  attributes.valid_columns = emitter.node().attributes.valid_columns;
  attributes.row_offset = emitter.node().attributes.row_offset;
  return emitter.Emit(Op::kCrossEntropyGrad, attributes,
                      {Input(emitter, 0), Input(emitter, 1), Output(emitter, 1)}, {0}, "logits");
}

Status ConvolutionRule(GradientEmitter& emitter) {
  const TensorId dy = emitter.output_gradient();
  Attributes attributes;
  attributes.window = emitter.node().attributes.window;
  TL_RETURN_IF_ERROR(
      emitter.Emit(Op::kConvolutionGrad, attributes, {dy, Input(emitter, 1)}, {0}, "x"));
  return emitter.Emit(Op::kConvolutionWeightGrad, attributes, {dy, Input(emitter, 0)}, {1},
                      "weight");
}

// The gradient with respect to x goes through the moments as well; they get none of their own.
Status BatchNormRule(GradientEmitter& emitter) {
  const TensorId dy = emitter.output_gradient();
  const TensorId x = Input(emitter, 0);
  const TensorId gamma = Input(emitter, 2);
  const TensorId mean = Output(emitter, 1);
  const TensorId rstd = Output(emitter, 2);
  TL_ASSIGN_OR_RETURN(const TensorId sums,
                      emitter.Intermediate(Op::kBatchNormSums, {}, {dy, x, mean, rstd}, "sums"));
  TL_RETURN_IF_ERROR(emitter.Emit(Op::kBatchNormParameterGrad, {}, {sums}, {2, 3}, "parameters"));
  return emitter.Emit(Op::kBatchNormGrad, {}, {dy, x, gamma, mean, rstd, sums}, {0}, "x");
}

// The gradient of an op that moves windows or patches over x, from dy and what else it reads.
Status WindowRule(GradientEmitter& emitter, Op gradient, std::vector<TensorId> inputs) {
  Attributes attributes;
  attributes.window = emitter.node().attributes.window;
  return emitter.Emit(gradient, attributes, std::move(inputs), {0}, "x");
}

Status MaxPoolRule(GradientEmitter& emitter) {
  return WindowRule(emitter, Op::kMaxPoolGrad, {emitter.output_gradient(), Output(emitter, 1)});
}

Status AveragePoolRule(GradientEmitter& emitter) {
  return WindowRule(emitter, Op::kAveragePoolGrad, {emitter.output_gradient()});
}

Status PatchesRule(GradientEmitter& emitter) {
  return WindowRule(emitter, Op::kPatchesGrad, {emitter.output_gradient()});
}

Status ConcatRule(GradientEmitter& emitter) {
  Attributes attributes;
  attributes.dimension = emitter.node().attributes.dimension;
  return emitter.Emit(Op::kSplit, attributes, {emitter.output_gradient()}, {0, 1}, "parts");
}

Status CastRule(GradientEmitter& emitter) {
  return emitter.Emit(Op::kCast, {}, {emitter.output_gradient()}, {0}, "x");
}

}  // namespace

GradientRule GradientRuleOf(Op op) {
  switch (op) {
    case Op::kEinsum:
      return EinsumRule;
    case Op::kEmbedding:
      return EmbeddingRule;
    case Op::kAddPosition:
      return AddPositionRule;
    case Op::kLayerNorm:
      return LayerNormRule;
    case Op::kRmsNorm:
      return RmsNormRule;
    case Op::kAdd:
      return AddRule;
    case Op::kAddBias:
      return AddBiasRule;
    case Op::kGelu:
      return GeluRule;
    case Op::kRelu:
      return ReluRule;
    case Op::kSwiGlu:
      return SwiGluRule;
    case Op::kRotary:
      return RotaryRule;
    case Op::kCausalSoftmax:
      return CausalSoftmaxRule;
    case Op::kAttention:
      return AttentionRule;
    case Op::kDropout:
      return DropoutRule;
    case Op::kCrossEntropy:
      return CrossEntropyRule;
    case Op::kConvolution:
      return ConvolutionRule;
    case Op::kBatchNorm:
      return BatchNormRule;
    case Op::kMaxPool:
      return MaxPoolRule;
    case Op::kAveragePool:
      return AveragePoolRule;
    case Op::kPatches:
      return PatchesRule;
    case Op::kConcat:
      return ConcatRule;
    case Op::kCast:
      return CastRule;
    default:
      return nullptr;
  }
}

}  // namespace tideline
