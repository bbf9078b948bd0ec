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

// Pairs of query and key that attention computes, of one head: keys go in blocks of
// kAttentionKeyBlock, and a query meets every block in which it sees a key. Offsets are those of
// coordinate 0.
int64_t PairsComputed(const Attributes& attributes, int64_t queries, int64_t keys) {
  const int64_t begin = attributes.key_begin.base;
  const int64_t end = attributes.key_end == Affine() ? keys : attributes.key_end.base;
  if (!attributes.causal) return queries * std::max<int64_t>(end - begin, 0);
  int64_t pairs = 0;
  for (int64_t first = begin; first < end; first += kAttentionKeyBlock) {
    // Queries from the position of the block's first key on.
    const int64_t position = first + attributes.key_offset.base - attributes.position_offset.base;
    const int64_t seeing = queries - std::clamp<int64_t>(position, 0, queries);
    pairs += seeing * std::min(kAttentionKeyBlock, end - first);
  }
  return pairs;
}

// `products` matrix products are executed over the pairs; people quote `quoted` over all of them,
// half when causal.
void CountAttention(const Attributes& attributes, const std::vector<int64_t>& q,
                    const std::vector<int64_t>& k, int products, int quoted, Work& work) {
  work.work_class = WorkClass::kBatchedGemm;
  work.m = q[1];
  work.n = k[1];
  work.k = q[4];
  work.batch = q[0] * q[2] * q[3];
  const double per_pair = 2.0 * static_cast<double>(work.batch) * static_cast<double>(work.k);
  work.flops = products * per_pair * static_cast<double>(PairsComputed(attributes, work.m, work.n));
  work.model_flops = quoted * per_pair * static_cast<double>(work.m) * static_cast<double>(work.n);
  if (attributes.causal) work.model_flops /= 2;
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
    case Op::kAttention:  // q k, p v
      CountAttention(attributes, operands[0].shape, operands[1].shape, 2, 2, work);
      break;
    case Op::kAttentionGrad:  // q k and do v, once for dq and once for dk and dv; dq, dk, dv
      CountAttention(attributes, operands[1].shape, operands[2].shape, 7, 4, work);
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
