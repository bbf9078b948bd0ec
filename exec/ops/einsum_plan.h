// How an einsum becomes matrix products.
//
// models/ops/equation.h tells batch, row, column and summed letters apart. Neighbouring letters
// that advance evenly in memory are merged; what does not merge becomes a loop around the product.
//
// Order of the sum: the summed letters in the order in which the first operand has them, outermost
// first, as one fma chain per element. Merging and looping keep that order, so the bits are a
// function of the equation and the operands only.
#ifndef TIDELINE_EXEC_OPS_EINSUM_PLAN_H_
#define TIDELINE_EXEC_OPS_EINSUM_PLAN_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "exec/ops/gemm.h"

namespace tideline::ops {

// One loop around the product: elements to advance per iteration, in each operand.
struct EinsumLoop {
  int64_t extent = 1;
  int64_t a = 0, b = 0, c = 0, bias = 0;
};

struct EinsumPlan {
  std::vector<EinsumLoop> batch;   // independent; any order
  std::vector<EinsumLoop> summed;  // outermost first; each iteration continues the chain
  GemmShape gemm;
  int64_t bias_m = 0, bias_n = 0;  // strides of the bias along the product's rows and columns
  int64_t Batches() const;
};

// `shapes`: A, B, [bias,] C; extents are positive. Errors (exit 5): a malformed equation, extents
// that disagree.
StatusOr<EinsumPlan> PlanEinsum(std::string_view equation,
                                const std::vector<std::vector<int64_t>>& shapes);

}  // namespace tideline::ops

#endif  // TIDELINE_EXEC_OPS_EINSUM_PLAN_H_
