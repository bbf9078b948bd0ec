// FLOPs, bytes and matrix extents of one op instance.
#include <algorithm>
#include <array>
#include <utility>

#include "base/check.h"
#include "models/ops/equation.h"
#include "models/ops/op_info.h"
#include "models/ops/op_table.h"
#include "models/ops/windows.h"

namespace tideline {
namespace {

int64_t SpecBytes(const OperandSpec& spec) {
  int64_t bytes = SizeOf(spec.dtype);
  for (int64_t extent : spec.shape) bytes *= extent;
  return bytes;
}

void CountBytes(const std::vector<OperandSpec>& operands, Work& work) {
  for (const OperandSpec& operand : operands) {
    if (operand.access != Access::kWrite) work.bytes_read += SpecBytes(operand);
    if (operand.access != Access::kRead) work.bytes_written += SpecBytes(operand);
  }
}

// A look-up touches at most one row of the table per token, whatever the table's height.
void KeepTouchedRows(const OperandSpec& table, int64_t rows, Work& work) {
  const int64_t untouched = std::max<int64_t>(table.shape[0] - rows, 0);
  const int64_t bytes = SpecBytes(table) / table.shape[0] * untouched;
  if (table.access != Access::kWrite) work.bytes_read -= bytes;
  // Overwriting (rather than accumulating) clears the rows that no token names as well.
  if (table.access == Access::kReadWrite) work.bytes_written -= bytes;
}

int64_t Product(const std::string& letters, const std::array<int64_t, 26>& extents) {
  int64_t product = 1;
  for (char letter : letters) product *= extents[letter - 'a'];
  return product;
}

void CountMatrixProduct(const Attributes& attributes, const std::vector<OperandSpec>& operands,
                        Work& work) {
  const StatusOr<Equation> equation = ParseEquation(attributes.equation);
  TL_CHECK(equation.ok(), "the equation was checked when the op was made");
  std::array<int64_t, 26> extents{};
  for (size_t dimension = 0; dimension < equation->a.size(); ++dimension) {
    extents[equation->a[dimension] - 'a'] = operands[0].shape[dimension];
  }
  for (size_t dimension = 0; dimension < equation->b.size(); ++dimension) {
    extents[equation->b[dimension] - 'a'] = operands[1].shape[dimension];
  }
  work.m = Product(equation->m, extents);
  work.n = Product(equation->n, extents);
  work.k = Product(equation->k, extents);
  work.batch = Product(equation->batch, extents);
  work.work_class = work.batch > 1 ? WorkClass::kBatchedGemm : WorkClass::kGemm;
  work.flops = 2.0 * static_cast<double>(work.batch) * static_cast<double>(work.m) *
               static_cast<double>(work.n) * static_cast<double>(work.k);
  work.model_flops = attributes.causal ? work.flops / 2 : work.flops;
}

// One product [o, irs] x [irs, pq] per sample, in forward and in both gradients.
void CountConvolution(Op op, const Attributes& attributes, const std::vector<OperandSpec>& operands,
                      Work& work) {
  std::vector<std::vector<int64_t>> shapes;
  for (const OperandSpec& operand : operands) shapes.push_back(operand.shape);
  const ConvolutionShape shape = ConvolutionOf(op, attributes, shapes);
  work.batch = shape.n;
  work.m = shape.o;
  work.n = shape.positions();
  work.k = shape.terms();
  if (op == Op::kConvolutionGrad) std::swap(work.m, work.k);
  if (op == Op::kConvolutionWeightGrad) std::swap(work.n, work.k);
  work.work_class = work.batch > 1 ? WorkClass::kBatchedGemm : WorkClass::kGemm;
  work.flops = 2.0 * static_cast<double>(work.batch) * static_cast<double>(work.m) *
               static_cast<double>(work.n) * static_cast<double>(work.k);
  work.model_flops = work.flops;
  if (operands.size() < 4) return;
  const int64_t columns =
      shape.n * shape.terms() * shape.positions() * SizeOf(operands.back().dtype);
  work.bytes_read += columns;
  work.bytes_written += columns - SpecBytes(operands.back());
}

}  // namespace

Work WorkOf(Op op, const Attributes& attributes, const std::vector<OperandSpec>& operands) {
  Work work;
  if (InfoOf(op).between_ranks) {
    work.work_class = WorkClass::kNone;
    return work;
  }
  CountBytes(operands, work);
  switch (op) {
    case Op::kEinsum:
      CountMatrixProduct(attributes, operands, work);
      break;
    case Op::kEmbedding:
    case Op::kAddPosition: {
      const std::vector<int64_t>& shape = operands.back().shape;
      KeepTouchedRows(operands[1], op == Op::kEmbedding ? shape[0] * shape[1] : shape[1], work);
      break;
    }
    case Op::kEmbeddingGrad:
    case Op::kAddPositionGrad: {
      const std::vector<int64_t>& shape = operands[operands.size() - 2].shape;
      KeepTouchedRows(operands.back(), op == Op::kEmbeddingGrad ? shape[0] * shape[1] : shape[1],
                      work);
      break;
    }
    case Op::kConvolution:
    case Op::kConvolutionGrad:
    case Op::kConvolutionWeightGrad:
      CountConvolution(op, attributes, operands, work);
      break;
    default:
      break;
  }
  return work;
}

}  // namespace tideline
