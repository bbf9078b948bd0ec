#include "exec/ops/registry.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/square_sum.h"
#include "exec/ops/flash_attention.h"
#include "exec/ops/formats.h"
#include "exec/ops/launchers.h"
#include "exec/ops/rotary.h"
#include "models/ops/op_table.h"

namespace tideline {
namespace {

using Launcher = Status (*)(const OpCall& call);

struct Entry {
  Op op;
  Launcher launch;
  int outputs;  // the operands after the inputs; master weights and workspaces are one more
};

constexpr Entry kEntries[] = {
    {Op::kEinsum, ops::LaunchEinsum, 1},
    {Op::kEmbedding, ops::LaunchEmbedding, 1},
    {Op::kAddPosition, ops::LaunchAddPosition, 1},
    {Op::kLayerNorm, ops::LaunchLayerNorm, 3},
    {Op::kRmsNorm, ops::LaunchRmsNorm, 2},
    {Op::kAdd, ops::LaunchAdd, 1},
    {Op::kAddBias, ops::LaunchAddBias, 1},
    {Op::kGelu, ops::LaunchGelu, 1},
    {Op::kRelu, ops::LaunchRelu, 1},
    {Op::kSwiGlu, ops::LaunchSwiGlu, 1},
    {Op::kRotary, ops::LaunchRotary, 1},
    {Op::kCausalSoftmax, ops::LaunchCausalSoftmax, 1},
    {Op::kCrossEntropy, ops::LaunchCrossEntropy, 2},
    {Op::kRowMax, ops::LaunchRowMax, 1},
    {Op::kCrossEntropyPartial, ops::LaunchCrossEntropyPartial, 1},
    {Op::kCrossEntropyFinish, ops::LaunchCrossEntropyFinish, 2},
    {Op::kAttention, ops::LaunchAttention, 2},
    {Op::kMergeAttention, ops::LaunchMergeAttention, 2},
    {Op::kDropout, ops::LaunchDropout, 1},
    {Op::kConvolution, ops::LaunchConvolution, 1},
    {Op::kBatchMoments, ops::LaunchBatchMoments, 1},
    {Op::kBatchNorm, ops::LaunchBatchNorm, 3},
    {Op::kBatchNormTrack, ops::LaunchBatchNormTrack, 2},
    {Op::kBatchNormFixed, ops::LaunchBatchNormFixed, 1},
    {Op::kMaxPool, ops::LaunchMaxPool, 2},
    {Op::kAveragePool, ops::LaunchAveragePool, 1},
    {Op::kConcat, ops::LaunchConcat, 1},
    {Op::kPatches, ops::LaunchPatches, 1},
    {Op::kReduceRows, ops::LaunchReduceRows, 1},
    {Op::kEmbeddingGrad, ops::LaunchEmbeddingGrad, 1},
    {Op::kAddPositionGrad, ops::LaunchAddPositionGrad, 1},
    {Op::kLayerNormGrad, ops::LaunchLayerNormGrad, 1},
    {Op::kLayerNormParameterGrad, ops::LaunchLayerNormParameterGrad, 2},
    {Op::kRmsNormGrad, ops::LaunchRmsNormGrad, 1},
    {Op::kRmsNormParameterGrad, ops::LaunchRmsNormParameterGrad, 1},
    {Op::kGeluGrad, ops::LaunchGeluGrad, 1},
    {Op::kReluGrad, ops::LaunchReluGrad, 1},
    {Op::kSwiGluGrad, ops::LaunchSwiGluGrad, 2},
    {Op::kCausalSoftmaxGrad, ops::LaunchCausalSoftmaxGrad, 1},
    {Op::kCrossEntropyGrad, ops::LaunchCrossEntropyGrad, 1},
    {Op::kAttentionGrad, ops::LaunchAttentionGrad, 3},
    {Op::kConvolutionGrad, ops::LaunchConvolutionGrad, 1},
    {Op::kConvolutionWeightGrad, ops::LaunchConvolutionWeightGrad, 1},
    {Op::kBatchNormSums, ops::LaunchBatchNormSums, 1},
    {Op::kBatchNormParameterGrad, ops::LaunchBatchNormParameterGrad, 2},
    {Op::kBatchNormGrad, ops::LaunchBatchNormGrad, 1},
    {Op::kMaxPoolGrad, ops::LaunchMaxPoolGrad, 1},
    {Op::kAveragePoolGrad, ops::LaunchAveragePoolGrad, 1},
    {Op::kSplit, ops::LaunchSplit, 2},
    {Op::kPatchesGrad, ops::LaunchPatchesGrad, 1},
    {Op::kFill, ops::LaunchFill, 1},
    {Op::kInitNormal, ops::LaunchInitNormal, 1},
    {Op::kAccumulate, ops::LaunchAccumulate, 1},
    {Op::kScale, ops::LaunchScale, 1},
    {Op::kSumLoss, ops::LaunchSumLoss, 1},
    {Op::kAdamW, ops::LaunchAdamW, 3},
    {Op::kCast, ops::LaunchCast, 1},
    {Op::kSlice, ops::LaunchSlice, 1},
    {Op::kSquareSumParts, ops::LaunchSquareSumParts, 1},
    {Op::kSquareSum, ops::LaunchSquareSum, 1},
};

const Entry* Find(Op op) {
  for (const Entry& entry : kEntries) {
    if (entry.op == op) return &entry;
  }
  return nullptr;
}

// Operands of the op beyond its inputs and the outputs it always has: AdamW's master weights, the
// workspace of a convolution.
size_t MoreOutputs(Op op, size_t operands) {
  const bool convolves =
      op == Op::kConvolution || op == Op::kConvolutionGrad || op == Op::kConvolutionWeightGrad;
  return (op == Op::kAdamW && operands == 5) || (convolves && operands == 4) ? 1 : 0;
}

// Ops of images that compute: there is code for fp32 only.
bool IsFp32Only(Op op) {
  switch (op) {
    case Op::kConvolution:
    case Op::kConvolutionGrad:
    case Op::kConvolutionWeightGrad:
    case Op::kBatchMoments:
    case Op::kBatchNorm:
    case Op::kBatchNormTrack:
    case Op::kBatchNormFixed:
    case Op::kBatchNormSums:
    case Op::kBatchNormParameterGrad:
    case Op::kBatchNormGrad:
    case Op::kMaxPool:
    case Op::kMaxPoolGrad:
    case Op::kAveragePool:
    case Op::kAveragePoolGrad:
      return true;
    default:
      return false;
  }
}

std::string TypeName(const Kernel& kernel, size_t operand) {
  return std::string(Name(kernel.operands[operand].dtype));
}

// Operand `sum` goes on with what operand `term` adds to it, or is made of it.
Status CheckSum(const Kernel& kernel, size_t term, size_t sum) {
  if (ops::CanSum(kernel.operands[term].dtype, kernel.operands[sum].dtype)) return absl::OkStatus();
  return UnavailableError(
      absl::StrCat("kernel ", std::string(Name(kernel.op)), ": operand ", sum, " in ",
                   TypeName(kernel, sum), " sums up operand ", term, " in ", TypeName(kernel, term),
                   "; there is code for sums in fp32 and in the type of what is summed"));
}

Status CheckFp32(const Kernel& kernel, size_t operand, const std::string& what) {
  if (kernel.operands[operand].dtype == DType::kF32) return absl::OkStatus();
  return UnavailableError(absl::StrCat("kernel ", std::string(Name(kernel.op)), ": operand ",
                                       operand, " is ", TypeName(kernel, operand), ", but ", what,
                                       " must be fp32"));
}

// Moments are fp32, and so is what AdamW updates: the master weights beside a 16-bit parameter, the
// parameter itself where there are none.
Status CheckAdamTypes(const Kernel& kernel) {
  const size_t operands = kernel.operands.size();
  for (size_t operand = operands == 4 ? 1 : 2; operand < operands; ++operand) {
    TL_RETURN_IF_ERROR(CheckFp32(kernel, operand, "what the optimizer keeps"));
  }
  return absl::OkStatus();
}

// What CheckOperands leaves open: which types of sums there is code for.
Status CheckSumTypes(const Kernel& kernel) {
  const size_t last = kernel.operands.size() - 1;
  switch (kernel.op) {
    case Op::kEinsum:
    case Op::kReduceRows:
    case Op::kAddPositionGrad:
    case Op::kRmsNormParameterGrad:
    case Op::kAccumulate:
      return CheckSum(kernel, 0, last);
    case Op::kEmbeddingGrad:
      return CheckSum(kernel, 1, last);
    case Op::kLayerNormParameterGrad:
      if (kernel.operands[last].dtype != kernel.operands[last - 1].dtype) {
        return UnavailableError(absl::StrCat("kernel layer_norm_parameter_grad: dgamma is ",
                                             TypeName(kernel, last - 1), " and dbeta ",
                                             TypeName(kernel, last), "; both have one type"));
      }
      return CheckSum(kernel, 0, last);
    case Op::kSumLoss:
      return CheckFp32(kernel, last, "a sum of losses");
    case Op::kAdamW:
      return CheckAdamTypes(kernel);
    default:
      return absl::OkStatus();
  }
}

Status CheckTypes(const Kernel& kernel) {
  const std::string name(Name(kernel.op));
  for (size_t operand = 0; operand < kernel.operands.size(); ++operand) {
    const DType dtype = kernel.operands[operand].dtype;
    const bool ids = dtype == DType::kI32 && kernel.op != Op::kSlice;
    const bool takes_ids = (kernel.op == Op::kEmbedding && operand == 0) ||
                           (kernel.op == Op::kEmbeddingGrad && operand == 0) ||
                           (kernel.op == Op::kCrossEntropy && operand == 1) ||
                           (kernel.op == Op::kCrossEntropyPartial && operand == 1) ||
                           (kernel.op == Op::kCrossEntropyGrad && operand == 1) ||
                           (kernel.op == Op::kMaxPool && operand == 2) ||
                           (kernel.op == Op::kMaxPoolGrad && operand == 1);
    if (ids && !takes_ids) {
      return InputError(absl::StrCat("kernel ", name, ": operand ", operand,
                                     " is int32; it must be fp32, bf16 or fp16"));
    }
    if (SizeOf(dtype) == 2 && IsFp32Only(kernel.op)) {
      return UnavailableError(absl::StrCat("kernel ", name, ": execution in ",
                                           std::string(Name(dtype)),
                                           " is not available: plan with --pin dtype=fp32"));
    }
  }
  return CheckSumTypes(kernel);
}

Status CheckBoxes(const Kernel& kernel) {
  for (const InitBox& box : kernel.attributes.init) {
    const size_t dimensions = box.full_shape.size();
    bool sound = dimensions > 0 && box.extent.size() == dimensions &&
                 box.first.size() == dimensions && box.valid_rows >= 0;
    for (size_t d = 0; sound && d < dimensions; ++d) {
      sound = box.extent[d] >= 1 && box.extent[d] <= box.full_shape[d];
    }
    if (!sound) {
      return InputError(absl::StrCat("kernel ", std::string(Name(kernel.op)),
                                     ": init box of parameter ", box.parameter,
                                     " does not fit its full shape; give first and extent for each "
                                     "dimension, extents from 1 to the full one"));
    }
  }
  return absl::OkStatus();
}

template <typename Span>
Status CheckAscend(const std::string& name, const std::vector<Span>& spans) {
  int64_t done = 0;
  for (const Span& span : spans) {
    if (span.begin < done || span.end < span.begin) {
      return InputError(absl::StrCat("kernel ", name, ": span [", span.begin, ", ", span.end,
                                     ") does not follow the one before; spans must ascend"));
    }
    done = span.end;
  }
  return absl::OkStatus();
}

// The operands that hold digits have as many as digits there are.
Status CheckSquareSum(const Kernel& kernel) {
  if (kernel.op != Op::kSquareSumParts && kernel.op != Op::kSquareSum) return absl::OkStatus();
  if (kernel.attributes.norm_spans.size() > size_t{ops::kMostNormSpans}) {
    return UnavailableError(absl::StrCat(
        "kernel ", std::string(Name(kernel.op)), ": ", kernel.attributes.norm_spans.size(),
        " spans, there is code for ", ops::kMostNormSpans, "; plan with a smaller bucket"));
  }
  for (size_t operand = kernel.op == Op::kSquareSumParts ? 1 : 0; operand < 2; ++operand) {
    const std::vector<int64_t>& shape = kernel.operands[operand].shape;
    const size_t dimensions = kernel.op == Op::kSquareSum && operand == 1 ? 1 : 2;
    if (shape.size() == dimensions && shape.back() == SquareSum::kValues) continue;
    return InputError(absl::StrCat("kernel ", std::string(Name(kernel.op)), ": operand ", operand,
                                   " must have ", dimensions, " dimensions, the last of ",
                                   SquareSum::kValues));
  }
  return absl::OkStatus();
}

// No op takes more registers than its comment names.
Status CheckScalars(const Kernel& kernel) {
  size_t most = 0;
  if (kernel.op == Op::kAdamW) most = 2;
  if (kernel.op == Op::kCrossEntropyGrad) most = 1;
  if (kernel.scalars.size() <= most) return absl::OkStatus();
  return InputError(absl::StrCat("kernel ", std::string(Name(kernel.op)), ": ",
                                 kernel.scalars.size(), " scalars, it takes at most ", most));
}

// Key ranges differ between ranks; the launcher checks this rank's.
Status CheckAttention(const Kernel& kernel) {
  const int64_t head_size = kernel.operands[0].shape.back();
  if (head_size <= ops::kMaxAttentionHeadSize) return absl::OkStatus();
  return UnavailableError(absl::StrCat("kernel ", std::string(Name(kernel.op)), ": head size ",
                                       head_size, " is above ", ops::kMaxAttentionHeadSize,
                                       ", the largest there is code for: plan with "
                                       "--pin attention=unfused"));
}

Status CheckAttributes(const Kernel& kernel) {
  const Attributes& attributes = kernel.attributes;
  const std::string name(Name(kernel.op));
  if (kernel.op == Op::kAttention || kernel.op == Op::kAttentionGrad) {
    TL_RETURN_IF_ERROR(CheckAttention(kernel));
  }
  const float rate = attributes.dropout.rate;
  if (!(rate >= 0.0f && rate < 1.0f)) {
    return InputError(
        absl::StrCat("kernel ", name, ": dropout rate ", rate, " must be at least 0 and below 1"));
  }
  if (kernel.op == Op::kEinsum && attributes.accumulate &&
      (attributes.scale != 1.0f || kernel.operands.size() == 4)) {
    return InputError(absl::StrCat("kernel ", name,
                                   ": accumulate goes with neither scale nor bias, which belong to "
                                   "a finished sum; add the two in a kernel of their own"));
  }
  if (kernel.op == Op::kRotary && kernel.operands[0].shape.back() > ops::kMaxRotaryHeadSize) {
    return UnavailableError(
        absl::StrCat("kernel ", name, ": head size ", kernel.operands[0].shape.back(), " is above ",
                     ops::kMaxRotaryHeadSize, ", the largest there is code for"));
  }
  if (kernel.op == Op::kCausalSoftmax || kernel.op == Op::kCausalSoftmaxGrad) {
    const std::vector<int64_t>& shape = kernel.operands[0].shape;
    if (shape[shape.size() - 2] > shape.back()) {
      return InputError(absl::StrCat("kernel ", name, ": ", shape[shape.size() - 2],
                                     " queries but ", shape.back(),
                                     " keys; every query needs its own key"));
    }
  }
  if (kernel.op == Op::kInitNormal && attributes.init.empty()) {
    return InputError(absl::StrCat("kernel ", name,
                                   ": no init box says which parameter it makes; "
                                   "give attributes.init"));
  }
  TL_RETURN_IF_ERROR(CheckAscend(name, attributes.spans));
  TL_RETURN_IF_ERROR(CheckAscend(name, attributes.norm_spans));
  TL_RETURN_IF_ERROR(CheckSquareSum(kernel));
  return CheckBoxes(kernel);
}

}  // namespace

Status CheckSupported(const Kernel& kernel) {
  const Entry* entry = Find(kernel.op);
  if (entry == nullptr) {
    return InputError(absl::StrCat("op ", static_cast<int>(kernel.op),
                                   " has no kernel; collectives are instructions of their own"));
  }
  const size_t count = kernel.operands.size();
  const size_t outputs = static_cast<size_t>(entry->outputs) + MoreOutputs(kernel.op, count);
  const std::string name(Name(kernel.op));
  if (count < outputs) {
    return InputError(
        absl::StrCat("kernel ", name, ": ", count, " operands, it has at least ", outputs));
  }
  for (const OperandSpec& operand : kernel.operands) {
    for (const int64_t extent : operand.shape) {
      if (extent < 1) {
        return InputError(
            absl::StrCat("kernel ", name, ": an extent is ", extent, "; extents are at least 1"));
      }
    }
  }
  const auto middle = kernel.operands.end() - static_cast<std::ptrdiff_t>(outputs);
  TL_RETURN_IF_ERROR(CheckOperands(kernel.op, kernel.attributes, {kernel.operands.begin(), middle},
                                   {middle, kernel.operands.end()}));
  TL_RETURN_IF_ERROR(CheckTypes(kernel));
  TL_RETURN_IF_ERROR(CheckScalars(kernel));
  return CheckAttributes(kernel);
}

Status LaunchKernel(const Kernel& kernel, const LaunchContext& context) {
  const Entry* entry = Find(kernel.op);
  if (entry == nullptr) {
    return InternalError(absl::StrCat("op ", static_cast<int>(kernel.op), " has no kernel"));
  }
  return entry->launch(OpCall(kernel, context));
}

}  // namespace tideline
