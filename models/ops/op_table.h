// Op table: what each operator is, stated once.
//
// An op is described by letters, one per dimension of each operand, as in Einstein sums. From that
// description follow the shape rule, the FLOPs, the bytes, and how a tensor dimension may be cut
// over ranks. Its gradient rule emits ordinary nodes; what a forward node saves for backward is
// whatever its gradient nodes read (models/ops/autodiff.h). Source of the saved-set and FLOP
// conventions: DEFINITIONS 9-10 and the Colossal-Auto profiler.
#ifndef TIDELINE_MODELS_OPS_OP_TABLE_H_
#define TIDELINE_MODELS_OPS_OP_TABLE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/ir/attributes.h"
#include "models/ir/dtype.h"

namespace tideline {

enum class Access : uint8_t { kRead, kWrite, kReadWrite };

// One operand of an op: inputs first, then outputs, in the order of the comments in
// models/ir/attributes.h.
struct OperandSpec {
  std::vector<int64_t> shape{};
  DType dtype = DType::kF32;
  Access access = Access::kRead;
  bool operator==(const OperandSpec&) const = default;
};

// Letters of one op instance. A letter of an input that is in no output is summed over: cutting it
// over ranks leaves partial sums. Every other letter may be cut freely unless it is listed below.
struct IndexDescription {
  std::vector<std::string> inputs;   // "bsh", "hn"
  std::vector<std::string> outputs;  // "bsn"; empty where no letters describe the shape (kFill)
  // Must not be cut: the normalised dimension, the rotated pair.
  std::string whole;
  // May be cut when attributes.position_offset advances with the coordinate.
  std::string positional;
  // Vocabulary: may be cut when attributes.row_offset advances with the coordinate. An output
  // without the letter is then a partial sum (kRowMax: a partial maximum).
  std::string gathered;
};

// The arithmetic and traffic of one op instance on one rank.
enum class WorkClass : uint8_t { kGemm, kBatchedGemm, kMemoryBound, kNone };
struct Work {
  WorkClass work_class = WorkClass::kMemoryBound;
  double flops = 0;        // executed, 2 per multiply-add; only matrix products and convolutions
  double model_flops = 0;  // as people quote them: causal attention half (DEFINITIONS 10)
  int64_t bytes_read = 0;
  int64_t bytes_written = 0;
  int64_t m = 0, n = 0, k = 0, batch = 0;  // of a (batched) GEMM
  bool operator==(const Work&) const = default;
};

// "einsum", "layer_norm", ...
std::string_view Name(Op op);

// The letters of an op. `ranks` are the ranks (numbers of dimensions) of the inputs. Errors: wrong
// operand count or rank, malformed equation.
StatusOr<IndexDescription> Describe(Op op, const Attributes& attributes,
                                    const std::vector<int>& input_ranks);

// Name of an operand for messages: "gamma". Outputs are numbered from 0 too.
std::string_view InputName(Op op, int input);
std::string_view OutputName(Op op, int output);

// How the op accesses an output: kReadWrite for sums that continue (attributes.accumulate) and for
// state that is modified in place, else kWrite.
Access OutputAccess(Op op, const Attributes& attributes, int output);

// Shapes, dtypes and access of the outputs. The compute type is that of the first floating input;
// statistics and losses are fp32; an accumulated output is fp32 here, while the caller may have it
// in another floating type. A workspace is the last of them, where the op needs one. Errors (exit 5
// kind) name the op, the operand and the two extents that disagree, or say that the inputs do not
// determine the output (kEmbeddingGrad, kAddPositionGrad, gradients of convolutions, pools and
// patches, kSplit, kFill, kInitNormal, kScale, kSumLoss, kAdamW, kAllGather, kReduceScatter,
// kSlice: whoever builds those brings the outputs and calls CheckOperands).
StatusOr<std::vector<OperandSpec>> InferOutputs(Op op, const Attributes& attributes,
                                                const std::vector<OperandSpec>& inputs);

// The same checks for operands that are all known, outputs included. Errors as above.
Status CheckOperands(Op op, const Attributes& attributes, const std::vector<OperandSpec>& inputs,
                     const std::vector<OperandSpec>& outputs);

// Keys that attention takes at a time (DEFINITIONS 12a).
inline constexpr int64_t kAttentionKeyBlock = 64;

// The scratch that the op needs beside these operands (inputs, then outputs), as one more output.
std::optional<OperandSpec> WorkspaceOf(Op op, const Attributes& attributes,
                                       const std::vector<OperandSpec>& operands);

// Work of one op instance; operands are inputs then outputs and satisfy CheckOperands. FLOPs and
// m, n, k, batch follow from the letters of the equation (kEinsum) or the extents of a convolution,
// which is one product per sample, or are those of the products that attention fuses; every other
// op is bound by memory. Bytes are those of the
// operands, except that table look-ups touch only their rows and that a convolution with a
// workspace writes and reads its whole column matrix.
// Collectives have no work (kNone).
Work WorkOf(Op op, const Attributes& attributes, const std::vector<OperandSpec>& operands);

}  // namespace tideline

#endif  // TIDELINE_MODELS_OPS_OP_TABLE_H_
