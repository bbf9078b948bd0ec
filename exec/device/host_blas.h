// HostBlas: OpenBLAS, for the matrix products of an emulated device with --numerics fast.
//
// It is loaded when it is asked for, not linked: a worker without it does everything else, and its
// threads exist only where they are used. Products use all cores; their bits depend on shape and
// number of threads. OpenBLAS picks its kernels by the processor's name, which it does not know of
// every virtual machine; Load() therefore names the kernels by what the processor can do, unless
// OPENBLAS_CORETYPE does.
#ifndef TIDELINE_EXEC_DEVICE_HOST_BLAS_H_
#define TIDELINE_EXEC_DEVICE_HOST_BLAS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "base/status.h"
#include "exec/device/operation.h"

namespace tideline {

// C (+)= A B with strides in elements; rows of C are contiguous.
struct BlasProduct {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_m = 0, a_k = 0;
  int64_t b_k = 0, b_n = 0;
  int64_t c_m = 0;
};

class HostBlas {
 public:
  // Call it before other threads exist: it may set an environment variable. Errors (exit 6): the
  // library is not installed, or lacks a function.
  static StatusOr<std::unique_ptr<HostBlas>> Load();

  // Whether A and B have a contiguous side each and all extents are 32-bit numbers.
  static bool Fits(const BlasProduct& product);

  // Precondition: Fits(product). Any thread; products of several threads take turns.
  void Multiply(const BlasProduct& product, const float* a, const float* b, float* c,
                bool accumulate) const;

  // The processor whose kernels are used: "SkylakeX".
  const std::string& core() const { return core_; }

 private:
  using Sgemm = void (*)(int order, int transpose_a, int transpose_b, int m, int n, int k,
                         float alpha, const float* a, int lda, const float* b, int ldb, float beta,
                         float* c, int ldc);
  HostBlas(Sgemm sgemm, std::string core) : sgemm_(sgemm), core_(std::move(core)) {}

  Sgemm sgemm_;
  std::string core_;
};

// What makes the products of this stream's device; null where they are exact. Emulated devices
// only.
const HostBlas* BlasOf(Stream stream);

}  // namespace tideline

#endif  // TIDELINE_EXEC_DEVICE_HOST_BLAS_H_
