#include "models/ops/op_info.h"

#include <array>
#include <string_view>

#include "base/check.h"

namespace tideline {
namespace {

// One op, in one line: its name and its operands, "name[letters]:kind", '?' before an optional one.
// The kind is x (the compute type) unless stated; see ElementKind.
struct Row {
  Op op;
  std::string_view name;
  std::string_view operands;
  std::string_view whole = "";
  std::string_view positional = "";
  std::string_view gathered = "";
  bool between_ranks = false;
};

// kCrossEntropy cannot be cut over v by itself: its cut form is kRowMax, kCrossEntropyPartial and
// kCrossEntropyFinish.
constexpr Row kRows[] = {
    {Op::kEinsum, "einsum", "a[=] b[=] ?bias[=] -> c[=]:g"},
    {Op::kEmbedding, "embedding", "ids[bs]:i table[vh] -> y[bsh]", "", "", "v"},
    {Op::kAddPosition, "add_position", "x[bsh] table[nh] -> y[bsh]", "n", "s"},
    {Op::kLayerNorm, "layer_norm", "x[*h] gamma[h] beta[h] -> y[*h] mean[*]:f rstd[*]:f", "h"},
    {Op::kRmsNorm, "rms_norm", "x[*h] gamma[h] -> y[*h] rstd[*]:f", "h"},
    {Op::kAdd, "add", "a[*] b[*] -> y[*]"},
    {Op::kAddBias, "add_bias", "x[*n] bias[n] -> y[*n]"},
    {Op::kGelu, "gelu", "x[*] -> y[*]"},
    {Op::kRelu, "relu", "x[*] -> y[*]"},
    {Op::kSwiGlu, "swiglu", "gate[*] up[*] -> y[*]"},
    {Op::kRotary, "rotary", "x[bsad] -> y[bsad]", "d", "s"},
    {Op::kCausalSoftmax, "causal_softmax", "scores[*st] -> probabilities[*st]", "st"},
    {Op::kCrossEntropy, "cross_entropy", "logits[bsv] targets[bs]:i -> loss[bs]:f lse[bs]:f", "v"},
    {Op::kRowMax, "row_max", "logits[bsv] -> max[bs]:f", "", "", "v"},
    {Op::kCrossEntropyPartial, "cross_entropy_partial",
     "logits[bsv] targets[bs]:i max[bs]:f -> partial[pbs]:f", "p", "", "v"},
    {Op::kCrossEntropyFinish, "cross_entropy_finish",
     "max[bs]:f partial[pbs]:f -> loss[bs]:f lse[bs]:f", "p"},
    {Op::kAttention, "attention", "q[bsgrd] k[btgd] v[btgd] -> o[bsgrd] lse[bgrs]:f", "td", "s",
     "g"},
    {Op::kMergeAttention, "merge_attention",
     "a[bsgrd] a_lse[bgrs]:f b[bsgrd] b_lse[bgrs]:f -> o[bsgrd] lse[bgrs]:f"},
    {Op::kDropout, "dropout", "x[*sh] -> y[*sh]", "dh", "s", "a"},
    {Op::kConvolution, "convolution", "x[nihw] weight[oirs] -> y[nopq] ?workspace[.]:w", "hwrspq"},
    {Op::kBatchMoments, "batch_moments", "x[nchw] -> moments[gmc]:f", "gm"},
    {Op::kBatchNorm, "batch_norm",
     "x[nchw] moments[gmc]:f gamma[c] beta[c] -> y[nchw] mean[c]:f rstd[c]:f", "gm"},
    {Op::kBatchNormTrack, "batch_norm_track", "moments[gmc]:f -> mean[c]:m variance[c]:m", "gm"},
    {Op::kBatchNormFixed, "batch_norm_fixed",
     "x[nchw] mean[c]:f variance[c]:f gamma[c] beta[c] -> y[nchw]"},
    {Op::kMaxPool, "max_pool", "x[nchw] -> y[ncpq] index[ncpq]:i", "hwpq"},
    {Op::kAveragePool, "average_pool", "x[nchw] -> y[ncpq]", "hwpq"},
    {Op::kConcat, "concat", "a[*] b[*] -> y[*]"},
    {Op::kPatches, "patches", "x[nchw] -> y[nsk]", "chwsk"},
    {Op::kReduceRows, "reduce_rows", "dy[=] -> dbias[=]:g"},
    {Op::kEmbeddingGrad, "embedding_grad", "ids[bs]:i dy[bsh] -> dtable[vh]:g", "", "", "v"},
    {Op::kAddPositionGrad, "add_position_grad", "dy[bsh] -> dtable[nh]:g", "n", "s"},
    {Op::kLayerNormGrad, "layer_norm_grad", "dy[*h] x[*h] gamma[h] mean[*]:f rstd[*]:f -> dx[*h]",
     "h"},
    {Op::kLayerNormParameterGrad, "layer_norm_parameter_grad",
     "dy[*h] x[*h] mean[*]:f rstd[*]:f -> dgamma[h]:g dbeta[h]:g"},
    {Op::kRmsNormGrad, "rms_norm_grad", "dy[*h] x[*h] gamma[h] rstd[*]:f -> dx[*h]", "h"},
    {Op::kRmsNormParameterGrad, "rms_norm_parameter_grad", "dy[*h] x[*h] rstd[*]:f -> dgamma[h]:g"},
    {Op::kGeluGrad, "gelu_grad", "dy[*] x[*] -> dx[*]"},
    {Op::kReluGrad, "relu_grad", "dy[*] y[*] -> dx[*]"},
    {Op::kSwiGluGrad, "swiglu_grad", "dy[*] gate[*] up[*] -> dgate[*] dup[*]"},
    {Op::kCausalSoftmaxGrad, "causal_softmax_grad",
     "dprobabilities[*st] probabilities[*st] -> dscores[*st]", "st"},
    {Op::kCrossEntropyGrad, "cross_entropy_grad",
     "logits[bsv] targets[bs]:i lse[bs]:f -> dlogits[bsv]", "", "", "v"},
    {Op::kAttentionGrad, "attention_grad",
     "do[bsgrd] q[bsgrd] k[btgd] v[btgd] o[bsgrd] lse[bgrs]:f -> dq[bsgrd] dk[btgd] dv[btgd]", "td",
     "s", "g"},
    {Op::kConvolutionGrad, "convolution_grad", "dy[nopq] weight[oirs] -> dx[nihw] ?workspace[.]:w",
     "hwrspq"},
    {Op::kConvolutionWeightGrad, "convolution_weight_grad",
     "dy[nopq] x[nihw] -> dweight[oirs]:g ?workspace[.]:w", "hwrspq"},
    {Op::kBatchNormSums, "batch_norm_sums", "dy[nchw] x[nchw] mean[c]:f rstd[c]:f -> sums[mc]:f",
     "m"},
    {Op::kBatchNormParameterGrad, "batch_norm_parameter_grad",
     "sums[mc]:f -> dgamma[c]:g dbeta[c]:g", "m"},
    {Op::kBatchNormGrad, "batch_norm_grad",
     "dy[nchw] x[nchw] gamma[c] mean[c]:f rstd[c]:f sums[mc]:f -> dx[nchw]", "m"},
    {Op::kMaxPoolGrad, "max_pool_grad", "dy[ncpq] index[ncpq]:i -> dx[nchw]", "hwpq"},
    {Op::kAveragePoolGrad, "average_pool_grad", "dy[ncpq] -> dx[nchw]", "hwpq"},
    {Op::kSplit, "split", "y[*] -> a[*] b[*]"},
    {Op::kPatchesGrad, "patches_grad", "dy[nsk] -> dx[nchw]", "chwsk"},
    {Op::kFill, "fill", "-> y[.]:s"},
    {Op::kInitNormal, "init_normal", "-> y[.]:s"},
    {Op::kAccumulate, "accumulate", "x[*]:s -> y[*]:m"},
    {Op::kScale, "scale", "-> y[.]:m"},
    {Op::kSumLoss, "sum_loss", "loss[bs]:f -> total[.]:g"},
    {Op::kAdamW, "adamw",
     "gradient[.]:s -> parameter[.]:m ?master[.]:m momentum[.]:m variance[.]:m"},
    {Op::kCast, "cast", "x[*]:s -> y[*]:s"},
    {Op::kSquareSumParts, "square_sum_parts", "gradient[.]:s -> parts[.]:f"},
    {Op::kSquareSum, "square_sum", "parts[.]:f -> total[.]:g"},
    {Op::kAllReduce, "all_reduce", "x[*]:s -> y[*]:s", "", "", "", true},
    {Op::kAllGather, "all_gather", "x[*]:s -> y[*]:s", "", "", "", true},
    {Op::kReduceScatter, "reduce_scatter", "x[*]:s -> y[*]:s", "", "", "", true},
    {Op::kSlice, "slice", "x[*]:s -> y[*]:s", "", "", "", true},
};
constexpr size_t kOps = static_cast<size_t>(Op::kCount);
static_assert(std::size(kRows) == kOps, "every op has its row");

constexpr bool RowsInOrder() {
  for (size_t row = 0; row < kOps; ++row) {
    if (kRows[row].op != static_cast<Op>(row)) return false;
  }
  return true;
}
static_assert(RowsInOrder(), "rows are in the order of the enum");

OperandInfo ParseOperand(std::string_view text) {
  OperandInfo operand;
  operand.optional = text.front() == '?';
  if (operand.optional) text.remove_prefix(1);
  const size_t open = text.find('[');
  const size_t close = text.find(']');
  operand.name = text.substr(0, open);
  operand.letters = text.substr(open + 1, close - open - 1);
  if (close + 2 < text.size()) operand.kind = static_cast<ElementKind>(text[close + 2]);
  return operand;
}

OpInfo ParseRow(const Row& row) {
  OpInfo info;
  info.name = row.name;
  info.whole = row.whole;
  info.positional = row.positional;
  info.gathered = row.gathered;
  info.between_ranks = row.between_ranks;
  std::string_view rest = row.operands;
  bool outputs = false;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(' '), rest.size());
    const std::string_view word = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (word == "->") {
      outputs = true;
    } else {
      (outputs ? info.outputs : info.inputs).push_back(ParseOperand(word));
    }
  }
  return info;
}

std::array<OpInfo, kOps> ParseRows() {
  std::array<OpInfo, kOps> table;
  for (size_t row = 0; row < kOps; ++row) table[row] = ParseRow(kRows[row]);
  return table;
}

}  // namespace

const OpInfo& InfoOf(Op op) {
  static const std::array<OpInfo, kOps> table = ParseRows();
  TL_CHECK(op < Op::kCount, "the operator is one of the enum");
  return table[static_cast<size_t>(op)];
}

}  // namespace tideline
