// Operators and their attributes: what a kernel needs to know beyond its operands.
#ifndef TIDELINE_MODELS_IR_ATTRIBUTES_H_
#define TIDELINE_MODELS_IR_ATTRIBUTES_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace tideline {

// Axes of the logical device mesh. Order of the enum is no order of the mesh (that is in the Plan).
enum class Axis : int8_t { kData = 0, kPipeline = 1, kTensor = 2 };
inline constexpr int kAxes = 3;

// A value that differs between ranks of one role: base + sum over axes of coefficient * coordinate.
struct Affine {
  int64_t base = 0;
  std::array<int64_t, kAxes> per_coordinate{};
  bool operator==(const Affine&) const = default;
  int64_t At(const std::array<int32_t, kAxes>& coordinates) const {
    int64_t value = base;
    for (int axis = 0; axis < kAxes; ++axis) value += per_coordinate[axis] * coordinates[axis];
    return value;
  }
};

// Every operator, with its operands in order (inputs -> outputs). b batch, s sequence, h hidden, v
// vocabulary, a heads, d head size, t keys. models/ops/op_table.h states shapes, work, and
// gradients of each.
enum class Op : uint8_t {
  // Forward.
  kEinsum,  // A, B [, bias] -> C           equation ("bsk,kn,n->bsn": the third term are the bias's
            // letters, some of C's); scale; the bias is added to the finished, scaled sum
  kEmbedding,      // ids[b,s], table[v,h] -> y    row_offset: rows of other ranks give 0
  kAddPosition,    // x[b,s,h], table[n,h] -> y    position_offset
  kLayerNorm,      // x, gamma, beta -> y, mean, rstd          epsilon
  kRmsNorm,        // x, gamma -> y, rstd                      epsilon
  kAdd,            // a, b -> y
  kAddBias,        // x[..,n], bias[n] -> y
  kGelu,           // x -> y                       tanh form (GPT-2)
  kRelu,           // x -> y
  kSwiGlu,         // gate, up -> y                silu(gate) * up
  kRotary,         // x[b,s,a,d] -> y              rotary; position_offset; inverse
  kCausalSoftmax,  // scores[b,a,s,t] -> probabilities     keys after the query's position get 0
  kCrossEntropy,   // logits[b,s,v], targets -> loss[b,s], lse[b,s] (fp32)     valid_columns
  kRowMax,  // logits -> max[b,s] (fp32)                                valid_columns; row_offset
  kCrossEntropyPartial,  // logits, targets, max -> partial[2,b,s] (fp32): sum of exp(logit - max),
                         // target logit
  kCrossEntropyFinish,   // max, partial -> loss, lse
  kAttention,  // q[b,s,g,r,d], k[b,t,g,d], v[b,t,g,d] -> o[b,s,g,r,d], lse[b,g,r,s] (fp32): r query
               // heads share a key head; scale; causal; position_offset, key_offset, key_begin,
               // key_end; dropout of the probabilities, its heads counted from row_offset
  kMergeAttention,  // a, a_lse, b, b_lse -> o, lse: attention over two disjoint sets of keys, made
                    // from its results over each
  kDropout,  // x[b,..,s,h] -> y        dropout; position_offset of s; row_offset of dimension 1
             // of four or more. Its own gradient
  // Of images [n, channels, height, width]: n samples, i and o channels in and out, c channels.
  kConvolution,   // x[n,i,h,w], weight[o,i,r,s] -> y[n,o,p,q], workspace   window: stride, padding
  kBatchMoments,  // x[n,c,h,w] -> moments[1,3,c] (fp32): mean, sum of squared distances, count
  kBatchNorm,     // x, moments[g,3,c] of g parts of the batch, gamma, beta -> y, mean, rstd
                  // epsilon
  kBatchNormTrack,  // moments -> mean[c], variance[c] (inout, fp32)    constant: the new value's
                    // share
  kBatchNormFixed,  // x, mean, variance, gamma, beta -> y       epsilon; for evaluation
  kMaxPool,         // x[n,c,h,w] -> y[n,c,p,q], index[n,c,p,q] (int32: h * width + w)      window
  kAveragePool,     // x[n,c,h,w] -> y[n,c,p,q]                window, without padding
  kConcat,          // a, b -> y                               dimension
  kPatches,         // x[n,c,h,w] -> y[n, patches, c * r * s]  window: stride = size
  // Backward.
  kReduceRows,              // dy -> dbias (inout)          equation, e.g. "bsn->n"
  kEmbeddingGrad,           // ids, dy -> dtable (inout)    row_offset
  kAddPositionGrad,         // dy -> dtable (inout)         position_offset
  kLayerNormGrad,           // dy, x, gamma, mean, rstd -> dx
  kLayerNormParameterGrad,  // dy, x, mean, rstd -> dgamma (inout), dbeta (inout)
  kRmsNormGrad,             // dy, x, gamma, rstd -> dx
  kRmsNormParameterGrad,    // dy, x, rstd -> dgamma (inout)
  kGeluGrad,                // dy, x -> dx
  kReluGrad,                // dy, y -> dx
  kSwiGluGrad,              // dy, gate, up -> dgate, dup
  kCausalSoftmaxGrad,       // dprobabilities, probabilities -> dscores
  kCrossEntropyGrad,        // logits, targets, lse -> dlogits       loss_scale; valid_columns;
                            // row_offset.
                            // Scalar, when given: multiplies loss_scale
  kAttentionGrad,           // do, q, k, v, o, lse -> dq, dk, dv     as kAttention
  kConvolutionGrad,         // dy, weight -> dx, workspace                    window
  kConvolutionWeightGrad,   // dy, x -> dweight (inout), workspace            window
  kBatchNormSums,           // dy, x, mean, rstd -> sums[3,c] (fp32): of dy, of dy xhat, of 1
  kBatchNormParameterGrad,  // sums -> dgamma (inout), dbeta (inout)
  kBatchNormGrad,           // dy, x, gamma, mean, rstd, sums of the whole batch -> dx
  kMaxPoolGrad,             // dy, index -> dx                                window
  kAveragePoolGrad,         // dy -> dx                                       window
  kSplit,                   // y -> a, b                                      dimension
  kPatchesGrad,             // dy -> dx                                       window
  // Step and memory.
  kFill,            // -> y                         constant
  kInitNormal,      // -> y                         init_stddev; seeded by (seed, parameter, global
                    // element)
  kAccumulate,      // x, y (inout): y += x
  kScale,           // y (inout): y *= constant
  kSumLoss,         // loss[b,s], total (inout): total += sum in order    accumulate
  kAdamW,           // gradient, parameter, [master,] momentum, variance (inout)   adam; spans
  kCast,            // x -> y                       between dtypes
  kSquareSumParts,  // gradient -> parts[n, SquareSum::kValues] (fp32)   norm_spans; element_offset:
                    // exact sums of squares of n runs of elements (base/square_sum.h)
  kSquareSum,       // parts -> total[SquareSum::kValues] (inout)    accumulate
  // Between ranks of an axis; lowered to Collective instructions, never to kernels.      axis
  kAllReduce,      // x -> y (sum, or maximum when `maximum`)
  kAllGather,      // x -> y                       dimension: concatenated over the axis
  kReduceScatter,  // x -> y                       dimension: summed, then cut over the axis
  kSlice,          // x -> y                       dimension: this rank's part, no traffic
  kCount,
};

// Where an operator looks at an image: windows of this size, `stride` apart both ways, over the
// image with `padding` zeros around it.
struct SpatialWindow {
  int32_t height = 0;  // convolutions have the size of their weight: 0
  int32_t width = 0;
  int32_t stride = 1;
  int32_t padding = 0;
  bool operator==(const SpatialWindow&) const = default;
};

// A run of elements of a parameter bucket that AdamW treats alike.
struct AdamSpan {
  int64_t begin = 0;
  int64_t end = 0;
  bool decay = false;
  bool operator==(const AdamSpan&) const = default;
};

// A run of elements of a parameter bucket in a sum over all parameters. Ranks may hold copies of
// the same elements: only the copy whose number, `copy` on the rank, is 0 counts.
struct NormSpan {
  int64_t begin = 0;
  int64_t end = 0;
  Affine copy = {};
  bool operator==(const NormSpan&) const = default;
};

// How the learning rate falls once it has warmed up (models/ir/learning_rate.h).
enum class RateSchedule : uint8_t { kConstant, kLinear, kCosine };

// AdamW (decoupled decay): the defaults of DEFINITIONS 8. The step count t = step + 1 is handed in
// at run time.
struct AdamSettings {
  float learning_rate = 1e-3f;
  float beta1 = 0.9f;
  float beta2 = 0.999f;
  float epsilon = 1e-8f;
  float decay = 0.01f;
  RateSchedule schedule = RateSchedule::kConstant;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 0;  // the first step at the least rate; 0 with kConstant
  float least_learning_rate = 0.0f;
  bool operator==(const AdamSettings&) const = default;
};

// A run of elements of a bucket that initialises one parameter (or one rank's part of it).
// The part is a box: for each dimension of the full tensor, `extent` elements from `first` on.
struct InitBox {
  std::string parameter;            // the name that keys the generator
  std::vector<int64_t> full_shape;  // padded
  std::vector<int64_t> extent;
  std::vector<Affine> first;
  int64_t valid_rows = 0;  // of dimension 0 of the full tensor; 0: all
  bool operator==(const InitBox&) const = default;
};

// Rotary frequencies: theta^(-2i/d), optionally rescaled as LLaMA 3 does (Hugging Face rope_scaling
// "llama3").
struct RotaryScaling {
  double theta = 10000.0;
  double factor = 1.0;  // 1: no rescaling
  double low_frequency_factor = 1.0;
  double high_frequency_factor = 4.0;
  int64_t original_positions = 8192;
  bool operator==(const RotaryScaling&) const = default;
};

// Which elements a layer drops: each with probability `rate`, the others are scaled by 1/(1 -
// rate). An element's fate is a function of seed, step, layer, `site` and its place in its sample
// of the global batch, so it depends on no way of cutting the work (exec/ops/dropout.h).
struct Dropout {
  float rate = 0.0f;  // 0: nothing; below 1
  int32_t site = 0;   // tells the places of one layer apart
  // The first sample of this rank's replica in the global batch; micro-batch m begins m times its
  // size further.
  Affine first_sample;
  bool operator==(const Dropout&) const = default;
};

// One flat record: each op reads the fields its comment above names and ignores the rest, so that
// kernels can be interned by value. Defaults mean "does not apply".
struct Attributes {
  std::string equation;     // kEinsum, kReduceRows: "bsk,kn->bsn"
  bool accumulate = false;  // the last output is inout: the sum continues from what it holds
  bool causal = false;      // kEinsum over (s, t): model FLOPs count half; kAttention: masks
  bool inverse = false;
  bool maximum = false;
  int32_t dimension = 0;
  Axis axis = Axis::kTensor;
  SpatialWindow window;
  float scale = 1.0f;  // kEinsum, kAttention: multiplies the finished sum
  float constant = 0.0f;
  float epsilon = 0.0f;
  float loss_scale = 0.0f;    // kCrossEntropyGrad: 1 / tokens of the global batch
  int64_t valid_columns = 0;  // vocabulary without padding, of the full tensor
  Affine row_offset;          // first vocabulary row (column) this rank holds
  Affine position_offset;     // position of the first token this rank holds (OPT: + 2)
  Affine key_offset;          // kAttention: position of the first key this rank holds
  Affine key_begin, key_end;  // kAttention: of those, keys [begin, end) take part; end 0: all
  Dropout dropout;
  RotaryScaling rotary;
  float init_stddev = 0.0f;
  std::vector<InitBox> init;  // kInitNormal, kFill of a parameter
  AdamSettings adam;
  std::vector<AdamSpan> spans;       // kAdamW; in elements of the whole bucket
  Affine element_offset;             // where this rank's shard begins in the bucket
  std::vector<NormSpan> norm_spans;  // kSquareSumParts; elements of no span do not count
  bool operator==(const Attributes&) const = default;
};

}  // namespace tideline

#endif  // TIDELINE_MODELS_IR_ATTRIBUTES_H_
