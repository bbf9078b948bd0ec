#include "exec/ops/partial_touch.h"

namespace tideline {

std::string_view PartialTouchReason(Op op) {
  switch (op) {
    case Op::kEmbedding:
    case Op::kEmbeddingGrad:
      return "only the rows that the ids name are used";
    case Op::kCausalSoftmax:
    case Op::kCausalSoftmaxGrad:
      return "scores behind the query's position are masked, never read";
    case Op::kCrossEntropy:
    case Op::kRowMax:
    case Op::kCrossEntropyPartial:
    case Op::kCrossEntropyGrad:
      return "columns that pad the vocabulary are never read";
    case Op::kAttention:
    case Op::kAttentionGrad:
      return "keys behind every query or outside the range of keys are never read";
    case Op::kConvolution:
    case Op::kConvolutionGrad:
    case Op::kConvolutionWeightGrad:
      return "each product touches the rows of its tile, and what lies between them is not";
    case Op::kMaxPool:
    case Op::kAveragePool:
      return "windows that are further apart than wide pass over elements";
    case Op::kSlice:
      return "a rank takes its part of the input";
    case Op::kSquareSumParts:
      return "of copies on several ranks one counts";
    default:
      return "";
  }
}

}  // namespace tideline
