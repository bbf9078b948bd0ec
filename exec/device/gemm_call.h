// GemmCall: a batch of matrix products for the device's own library (cuBLASLt on a GPU).
//
// C[i, j] = alpha sum over p of A[i, p] B[p, j] (+ C[i, j] when accumulating) (+ bias[j]). Strides
// are elements; one of each operand's two must be 1 (or its extent).
#ifndef TIDELINE_EXEC_DEVICE_GEMM_CALL_H_
#define TIDELINE_EXEC_DEVICE_GEMM_CALL_H_

#include <cstdint>

#include "base/status.h"
#include "exec/device/operation.h"
#include "models/ir/dtype.h"

namespace tideline {

struct GemmCall {
  int64_t m = 0, n = 0, k = 0;
  int64_t a_m = 0, a_k = 0;
  int64_t b_k = 0, b_n = 0;
  int64_t c_m = 0, c_n = 0;
  int64_t bias_m = 0, bias_n = 0;
  int64_t batch = 1;  // elements from one product to the next:
  int64_t batch_a = 0, batch_b = 0, batch_c = 0, batch_bias = 0;
  DType operand_type = DType::kF32;  // of A and B
  DType result_type = DType::kF32;   // of C and the bias; sums are in fp32
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  const void* bias = nullptr;  // null: none
  float alpha = 1.0f;
  bool accumulate = false;
};

// Whether products on this stream are the library's (CudaOptions::exact is off).
bool UsesGemmLibrary(Stream stream);

// Whether the library can make this product: unit strides, a bias along C's contiguous side.
bool GemmFits(const GemmCall& call);

// Precondition: GemmFits. Errors: the library's, with its number.
Status SubmitGemm(Stream stream, const char* name, uint64_t tag, const GemmCall& call);

}  // namespace tideline

#endif  // TIDELINE_EXEC_DEVICE_GEMM_CALL_H_
