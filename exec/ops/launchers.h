// The launcher of every op, by the file its kernels live in. Called through the table of
// exec/ops/registry.cc, after CheckSupported() has accepted the kernel. Formulas and summation
// orders: exec/ops/README.md.
#ifndef TIDELINE_EXEC_OPS_LAUNCHERS_H_
#define TIDELINE_EXEC_OPS_LAUNCHERS_H_

#include "base/status.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {

// einsum.cu
Status LaunchEinsum(const OpCall& call);
// elementwise.cu
Status LaunchAdd(const OpCall& call);
Status LaunchAddBias(const OpCall& call);
Status LaunchGelu(const OpCall& call);
Status LaunchGeluGrad(const OpCall& call);
Status LaunchRelu(const OpCall& call);
Status LaunchReluGrad(const OpCall& call);
Status LaunchSwiGlu(const OpCall& call);
Status LaunchSwiGluGrad(const OpCall& call);
Status LaunchAccumulate(const OpCall& call);
Status LaunchScale(const OpCall& call);
// embedding.cu
Status LaunchEmbedding(const OpCall& call);
Status LaunchEmbeddingGrad(const OpCall& call);
Status LaunchAddPosition(const OpCall& call);
Status LaunchAddPositionGrad(const OpCall& call);
// norms.cu
Status LaunchLayerNorm(const OpCall& call);
Status LaunchLayerNormGrad(const OpCall& call);
Status LaunchLayerNormParameterGrad(const OpCall& call);
Status LaunchRmsNorm(const OpCall& call);
Status LaunchRmsNormGrad(const OpCall& call);
Status LaunchRmsNormParameterGrad(const OpCall& call);
// attention.cu
Status LaunchRotary(const OpCall& call);
Status LaunchCausalSoftmax(const OpCall& call);
Status LaunchCausalSoftmaxGrad(const OpCall& call);
// flash_attention.cu
Status LaunchAttention(const OpCall& call);
Status LaunchAttentionGrad(const OpCall& call);
Status LaunchMergeAttention(const OpCall& call);
// dropout.cu
Status LaunchDropout(const OpCall& call);
// convolution.cu
Status LaunchConvolution(const OpCall& call);
Status LaunchConvolutionGrad(const OpCall& call);
Status LaunchConvolutionWeightGrad(const OpCall& call);
// batch_norm.cu
Status LaunchBatchMoments(const OpCall& call);
Status LaunchBatchNorm(const OpCall& call);
Status LaunchBatchNormFixed(const OpCall& call);
Status LaunchBatchNormTrack(const OpCall& call);
Status LaunchBatchNormSums(const OpCall& call);
Status LaunchBatchNormParameterGrad(const OpCall& call);
Status LaunchBatchNormGrad(const OpCall& call);
// pooling.cu
Status LaunchMaxPool(const OpCall& call);
Status LaunchMaxPoolGrad(const OpCall& call);
Status LaunchAveragePool(const OpCall& call);
Status LaunchAveragePoolGrad(const OpCall& call);
Status LaunchPatches(const OpCall& call);
Status LaunchPatchesGrad(const OpCall& call);
// concat.cu
Status LaunchConcat(const OpCall& call);
Status LaunchSplit(const OpCall& call);
// loss.cu
Status LaunchCrossEntropy(const OpCall& call);
Status LaunchCrossEntropyGrad(const OpCall& call);
Status LaunchRowMax(const OpCall& call);
Status LaunchCrossEntropyPartial(const OpCall& call);
Status LaunchCrossEntropyFinish(const OpCall& call);
Status LaunchSumLoss(const OpCall& call);
// optimizer.cu
Status LaunchAdamW(const OpCall& call);
Status LaunchCast(const OpCall& call);
// gradients.cu
inline constexpr int kMostNormSpans = 1024;  // of one kSquareSumParts: they travel with its launch
Status LaunchSquareSumParts(const OpCall& call);
Status LaunchSquareSum(const OpCall& call);
// Not an op: sets *found to 1 when one of `count` values of a floating type is no finite number
// (with `lowest_is_fine` -infinity counts as one); device memory.
Status LaunchFindNonFinite(const LaunchTarget& target, DType dtype, const void* values,
                           int64_t count, bool lowest_is_fine, int32_t* found);
// initialize.cu
Status LaunchFill(const OpCall& call);
Status LaunchInitNormal(const OpCall& call);
// rows.cu
Status LaunchReduceRows(const OpCall& call);
Status LaunchSlice(const OpCall& call);

}  // namespace tideline::ops

#endif  // TIDELINE_EXEC_OPS_LAUNCHERS_H_
