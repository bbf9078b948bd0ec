// TileProduct: a small matrix product inside a kernel, the parts of attention.
//
// C[i,j] (+)= sum over p of A[i,p] * B[p,j], each element one chain of fused multiply-adds over p
// ascending, from 0 or from what C holds: the bits of exec/ops/gemm.h, on host and GPU. On the host
// it is that product; on a GPU each thread takes elements of C. The whole block calls it.
#ifndef TIDELINE_EXEC_OPS_TILE_PRODUCT_H_
#define TIDELINE_EXEC_OPS_TILE_PRODUCT_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/host_device.h"
#include "exec/device/block.h"
#include "exec/ops/gemm.h"

namespace tideline::ops {

// An operand: its first element, and the elements from one row (column) to the next.
template <typename T>
struct Tile {
  const T* data;
  int64_t row, column;
};

// The most elements of a tile that is not fp32; it is converted before the product on the host.
inline constexpr int64_t kMostTileElements = 64 * 256;

// The tile in fp32: itself, or a copy in `space`.
inline Tile<float> AsFloats(const Tile<float>& tile, int64_t, int64_t, float*) { return tile; }
template <typename T>
Tile<float> AsFloats(const Tile<T>& tile, int64_t rows, int64_t columns, float* space) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      space[i * columns + j] = static_cast<float>(tile.data[i * tile.row + j * tile.column]);
    }
  }
  return {space, columns, 1};
}

// c's rows are contiguous, `c_row` elements apart, and do not overlap a or b.
template <typename A, typename B>
TIDELINE_HOST_DEVICE void TileProduct(const Block& block, int64_t rows, int64_t columns,
                                      int64_t depth, const Tile<A>& a, const Tile<B>& b, float* c,
                                      int64_t c_row, bool accumulate) {
#ifdef __CUDA_ARCH__
  block.EachRow(rows, columns, [&](int64_t i, int64_t j) {
    float sum = accumulate ? c[i * c_row + j] : 0.0f;
    for (int64_t p = 0; p < depth; ++p) {
      sum = std::fma(static_cast<float>(a.data[i * a.row + p * a.column]),
                     static_cast<float>(b.data[p * b.row + j * b.column]), sum);
    }
    c[i * c_row + j] = sum;
  });
#else
  (void)block;
  float a_space[std::is_same_v<A, float> ? 1 : kMostTileElements];
  float b_space[std::is_same_v<B, float> ? 1 : kMostTileElements];
  const Tile<float> left = AsFloats(a, rows, depth, a_space);
  const Tile<float> right = AsFloats(b, depth, columns, b_space);
  const GemmShape shape{.m = rows,
                        .n = columns,
                        .k = depth,
                        .a_m = left.row,
                        .a_k = left.column,
                        .b_k = right.row,
                        .b_n = right.column,
                        .c_m = c_row,
                        .c_n = 1};
  Gemm(shape, left.data, right.data, c, accumulate);
#endif
}

}  // namespace tideline::ops

#endif  // TIDELINE_EXEC_OPS_TILE_PRODUCT_H_
