// The exact matrix product: the definition of numerics=exact.
//
// C[i,j] (+)= sum over p of A[i,p] * B[p,j], each element one chain of fused multiply-adds over p
// ascending: c = fma(A[i,p], B[p,j], c), started at +0 or, when accumulating, at the value C holds.
// Bits therefore depend on nothing but the operands: not on shape, strides, tiling, machine or
// threads, and a sum cut into pieces over p has the bits of the whole.
//
// Algorithm: panels are packed and multiplied by a register tile, as in Goto & van de Geijn,
// "Anatomy of high-performance matrix multiplication" (2008); C goes to memory between blocks of p,
// which keeps the chain because it is fp32 there as well. The tile is vectorised along the
// contiguous side of C, never along p. 2mnk flops; packing moves (m + n) * k elements per panel,
// and makes fp32 of 16-bit A and B on the way (exactly, so C has the bits of the converted
// operands).
//
//   Gemm({.m = m, .n = n, .k = k, .a_m = k, .a_k = 1, .b_k = n, .b_n = 1, .c_m = n, .c_n = 1},
//        a, b, c, /*accumulate=*/false);
#ifndef TIDELINE_EXEC_OPS_GEMM_H_
#define TIDELINE_EXEC_OPS_GEMM_H_

#include <cstdint>

#include "exec/ops/formats.h"

namespace tideline {

// Extents, and for each operand the elements from one index of a letter to the next. Any strides
// are right, also negative or zero ones of A and B; a C whose rows or columns are contiguous is
// fast.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_m = 0, a_k = 0;
  int64_t b_k = 0, b_n = 0;
  int64_t c_m = 0, c_n = 0;
};

// The register tile that does the work; all give the same bits. kBest takes the widest that this
// processor has.
enum class GemmTile { kBest, kAvx2, kAvx512 };

// Whether this processor can run `tile`.
bool TileAvailable(GemmTile tile);

// The same product with rows and columns exchanged: C^T = B^T A^T. Its A is B and its B is A.
GemmShape Transposed(const GemmShape& shape);

// C does not overlap A or B. Reads C only when `accumulate`. Element: float, BFloat16 or Float16.
// Threads: may be called from several at once.
template <typename Element>
void Gemm(const GemmShape& given, const Element* a, const Element* b, float* c, bool accumulate,
          GemmTile tile = GemmTile::kBest);

extern template void Gemm(const GemmShape&, const float*, const float*, float*, bool, GemmTile);
extern template void Gemm(const GemmShape&, const BFloat16*, const BFloat16*, float*, bool,
                          GemmTile);
extern template void Gemm(const GemmShape&, const Float16*, const Float16*, float*, bool, GemmTile);

}  // namespace tideline

#endif  // TIDELINE_EXEC_OPS_GEMM_H_
