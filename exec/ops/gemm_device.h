// The exact matrix product on a GPU: the fma chain of exec/ops/gemm.h, bit for bit.
//
// A CTA of 256 threads makes a tile of 64 x 64 elements, each thread 4 x 4 of them in registers,
// over panels of 16 of the summed letter in shared memory. The chain of an element stays in one
// register through all panels and all products that are added, so the bits are the host's. It is
// bound by fp32 fma, not by tensor cores: it is the reference, cuBLAS is the fast way. Only
// included by nvcc.
#ifndef TIDELINE_EXEC_OPS_GEMM_DEVICE_H_
#define TIDELINE_EXEC_OPS_GEMM_DEVICE_H_

#include <cstdint>

#include "exec/ops/gemm.h"

namespace tideline::ops {

class GemmTileOnDevice {
 public:
  static constexpr int kTile = 64;
  static constexpr int kThreads = 256;

  // Chains start from what C holds at `c` (null: from 0). `shape` is this tile's: m and n at most
  // kTile.
  template <typename C>
  __device__ GemmTileOnDevice(const GemmShape& shape, const C* c) : shape_(shape) {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
      for (int j = 0; j < kPerThread; ++j) {
        const bool held = c != nullptr && Row(i) < shape_.m && Column(j) < shape_.n;
        sums_[i][j] = held ? float{c[Row(i) * shape_.c_m + Column(j) * shape_.c_n]} : 0.0f;
      }
    }
  }

  // Continues every chain by A B.
  template <typename T>
  __device__ void Add(const T* a, const T* b) {
    __shared__ float left[kPanel][kTile + kPad];
    __shared__ float right[kPanel][kTile + kPad];
    for (int64_t p0 = 0; p0 < shape_.k; p0 += kPanel) {
      const int depth = static_cast<int>(shape_.k - p0 < kPanel ? shape_.k - p0 : kPanel);
      Fill(left, a + p0 * shape_.a_k, shape_.a_k, shape_.a_m, shape_.m, depth);
      Fill(right, b + p0 * shape_.b_k, shape_.b_k, shape_.b_n, shape_.n, depth);
      __syncthreads();
      // Beyond the end nothing is added, not even 0: it could turn -0 into +0.
      for (int p = 0; p < depth; ++p) {
        float row[kPerThread], column[kPerThread];
#pragma unroll
        for (int i = 0; i < kPerThread; ++i) {
          row[i] = left[p][Row(i)];
          column[i] = right[p][Column(i)];
        }
#pragma unroll
        for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
          for (int j = 0; j < kPerThread; ++j) {
            sums_[i][j] = __fmaf_rn(row[i], column[j], sums_[i][j]);
          }
        }
      }
      __syncthreads();
    }
  }

  // c[i, j] = finish(i, j, sum) for this tile.
  template <typename C, typename Finish>
  __device__ void Store(C* c, Finish finish) const {
#pragma unroll
    for (int i = 0; i < kPerThread; ++i) {
#pragma unroll
      for (int j = 0; j < kPerThread; ++j) {
        if (Row(i) >= shape_.m || Column(j) >= shape_.n) continue;
        c[Row(i) * shape_.c_m + Column(j) * shape_.c_n] = finish(Row(i), Column(j), sums_[i][j]);
      }
    }
  }

 private:
  static constexpr int kPerThread = 4;
  static constexpr int kPanel = 16;
  static constexpr int kPad = 4;
  static constexpr int kSide = kTile / kPerThread;

  // Neighbouring threads take neighbouring columns, and each thread every kSide-th.
  __device__ static int Row(int i) { return static_cast<int>(threadIdx.x) / kSide + i * kSide; }
  __device__ static int Column(int j) { return static_cast<int>(threadIdx.x) % kSide + j * kSide; }

  // to[p][line] = from[p * k_stride + line * line_stride], 0 beyond `lines`; neighbouring threads
  // read neighbouring addresses whichever letter is contiguous.
  template <typename T>
  __device__ static void Fill(float (&to)[kPanel][kTile + kPad], const T* from, int64_t k_stride,
                              int64_t line_stride, int64_t lines, int depth) {
    const bool along_k = k_stride == 1;
    for (int at = static_cast<int>(threadIdx.x); at < kPanel * kTile; at += kThreads) {
      const int p = along_k ? at % kPanel : at / kTile;
      const int line = along_k ? at / kPanel : at % kTile;
      const bool held = p < depth && line < lines;
      to[p][line] = held ? float{from[p * k_stride + line * line_stride]} : 0.0f;
    }
  }

  const GemmShape& shape_;
  float sums_[kPerThread][kPerThread];
};

}  // namespace tideline::ops

#endif  // TIDELINE_EXEC_OPS_GEMM_DEVICE_H_
