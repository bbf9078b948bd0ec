// Equation: an Einstein sum of two operands, taken apart into the loops of a (batched) matrix
// product.
//
//   "bsk,qkn,qn->qbsn"   A = bsk, B = qkn, bias = qn, C = qbsn
//
// Each letter stands for one dimension. Letters in A, B and C are the batch; in A and C only, the
// rows m; in B and C only, the columns n; in A and B only, the contracted k. An optional third term
// is a bias added to the finished sum; its letters are some of C's.
//
// Order of the sum: the contracted letters run in the order in which they appear in A, the last one
// fastest. Kernels, the reference and the gradient rules all rely on it (DEFINITIONS 8, DESIGN 5).
#ifndef TIDELINE_MODELS_OPS_EQUATION_H_
#define TIDELINE_MODELS_OPS_EQUATION_H_

#include <string>
#include <string_view>

#include "base/status.h"

namespace tideline {

struct Equation {
  std::string a, b, bias, c;
  bool has_bias = false;
  std::string batch, m, n;  // in the order of C
  std::string k;            // in the order of A
};

// Errors (exit 5) name the equation and the letter: a letter twice in one term, a letter of C that
// neither A nor B has, a letter of only one operand that C lacks, a bias letter that C lacks.
StatusOr<Equation> ParseEquation(std::string_view text);

// A sum over one operand, "qbsn->qn": kReduceRows. The summed letters run in the order of the
// input.
struct RowReduction {
  std::string input, output;
};
StatusOr<RowReduction> ParseReduction(std::string_view text);

}  // namespace tideline

#endif  // TIDELINE_MODELS_OPS_EQUATION_H_
