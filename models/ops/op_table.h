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
  std::vector<int64_t> shape;
  DType dtype = DType::kF32;
  Access access = Access::kRead;
  bool operator==(const OperandSpec&) const = default;
};

// Letters of one op instance. A letter of an input that is in no output is summed over: cutting it
// over ranks leaves partial sums. Every other letter may be cut freely unless it is listed below.
struct IndexDescription {
  std::vector<std::string> inputs;   // "bsh", "hn"
  std::vector<std::string> outputs;  // "bsn"
  std::string whole;                 // must not be cut: the normalised dimension, the rotated pair
  std::string
      positional;        // may be cut when attributes.position_offset advances with the coordinate
  std::string gathered;  // vocabulary: may be cut when attributes.row_offset advances with the
                         // coordinate; the output then is a partial sum (or a partial statistic,
                         // for kRowMax a partial maximum)
};

// The arithmetic and traffic of one op instance on one rank.
enum class WorkClass : uint8_t { kGemm, kBatchedGemm, kMemoryBound, kNone };
struct Work {
  WorkClass work_class = WorkClass::kMemoryBound;
  double flops = 0;        // executed, 2 per multiply-add; only matrix products count
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

// Shapes and dtypes of the outputs. Errors (exit 5 kind) name the op, the operand and the two
// extents that disagree.
StatusOr<std::vector<OperandSpec>> InferOutputs(Op op, const Attributes& attributes,
                                                const std::vector<OperandSpec>& inputs);

// Work of one op instance; operands are inputs then outputs.
Work WorkOf(Op op, const Attributes& attributes, const std::vector<OperandSpec>& operands);

}  // namespace tideline

#endif  // TIDELINE_MODELS_OPS_OP_TABLE_H_
