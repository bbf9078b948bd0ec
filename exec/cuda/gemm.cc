// Matrix products by cuBLASLt.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "exec/cuda/machine.h"
#include "exec/device/gemm_call.h"

namespace tideline {
namespace {

// What cuBLAS recommends for Hopper; one per stream that multiplies.
constexpr int64_t kWorkspaceBytes = int64_t{32} << 20;

cudaDataType_t TypeOf(DType dtype) {
  if (dtype == DType::kBF16) return CUDA_R_16BF;
  if (dtype == DType::kF16) return CUDA_R_16F;
  return CUDA_R_32F;
}

// The largest power of two up to 256 that divides an address.
uint32_t AlignmentOf(const void* address) {
  const uintptr_t bits = reinterpret_cast<uintptr_t>(address) | 256;
  return static_cast<uint32_t>(bits & (~bits + 1));
}

// What an algorithm is chosen by: everything but the addresses themselves.
GemmKey KeyOf(const GemmCall& call) {
  return {call.m,
          call.n,
          call.k,
          call.a_m,
          call.a_k,
          call.b_k,
          call.b_n,
          call.c_m,
          call.c_n,
          call.batch,
          call.batch_a,
          call.batch_b,
          call.batch_c,
          call.bias != nullptr ? 1 + call.batch_bias : 0,
          static_cast<int64_t>(call.operand_type),
          static_cast<int64_t>(call.result_type),
          AlignmentOf(call.a),
          AlignmentOf(call.b),
          AlignmentOf(call.c)};
}

// One operand as the column-major library sees it: `rows` x `columns`, stored so or transposed.
struct Side {
  bool transposed = false;
  int64_t stored_rows = 0, stored_columns = 0, leading = 0;
};

// False when neither stride is 1.
bool SideOf(int64_t rows, int64_t columns, int64_t row_stride, int64_t column_stride, Side* side) {
  if (row_stride == 1 || rows == 1) {
    *side = {false, rows, columns, columns == 1 ? rows : column_stride};
    return side->leading >= rows;
  }
  if (column_stride == 1 || columns == 1) {
    *side = {true, columns, rows, row_stride};
    return side->leading >= columns;
  }
  return false;
}

// The product in column-major terms: D[rows, columns] = X[rows, k] Y[k, columns]. A row-major C is
// the transposed product.
struct Turned {
  Side x, y, d;
  const void* left = nullptr;
  const void* right = nullptr;
  int64_t batch_left = 0, batch_right = 0;
};

bool Turn(const GemmCall& call, Turned* turned) {
  const bool row_major = call.c_n == 1 || (call.n == 1 && call.c_m != 1);
  if (row_major) {
    turned->left = call.b;
    turned->right = call.a;
    turned->batch_left = call.batch_b;
    turned->batch_right = call.batch_a;
    if (call.bias != nullptr && (call.bias_m != 0 || (call.bias_n != 1 && call.n != 1))) {
      return false;
    }
    return SideOf(call.n, call.k, call.b_n, call.b_k, &turned->x) &&
           SideOf(call.k, call.m, call.a_k, call.a_m, &turned->y) &&
           SideOf(call.n, call.m, 1, call.c_m, &turned->d) && !turned->d.transposed;
  }
  turned->left = call.a;
  turned->right = call.b;
  turned->batch_left = call.batch_a;
  turned->batch_right = call.batch_b;
  if (call.bias != nullptr && (call.bias_n != 0 || (call.bias_m != 1 && call.m != 1))) return false;
  return SideOf(call.m, call.k, call.a_m, call.a_k, &turned->x) &&
         SideOf(call.k, call.n, call.b_k, call.b_n, &turned->y) &&
         SideOf(call.m, call.n, call.c_m, call.c_n, &turned->d) && !turned->d.transposed;
}

Status CublasStatus(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return RunError(absl::StrCat(call, ": cuBLAS status ", static_cast<int>(status)));
}

// Descriptors of one product; destroyed with it.
class Descriptors {
 public:
  explicit Descriptors(const CublasLt& lt) : lt_(lt) {}
  ~Descriptors() {
    if (preference != nullptr) lt_.preference_destroy(preference);
    for (const cublasLtMatrixLayout_t layout : {x, y, d}) {
      if (layout != nullptr) lt_.layout_destroy(layout);
    }
    if (product != nullptr) lt_.desc_destroy(product);
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  Status Make(const GemmCall& call, const Turned& turned, bool tf32) {
    const bool full = call.operand_type != DType::kF32 || !tf32;
    TL_RETURN_IF_ERROR(CublasStatus(
        lt_.desc_create(&product, full ? CUBLAS_COMPUTE_32F : CUBLAS_COMPUTE_32F_FAST_TF32,
                        CUDA_R_32F),
        "cublasLtMatmulDescCreate"));
    const cublasOperation_t x_op = turned.x.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t y_op = turned.y.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    TL_RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_TRANSA, x_op));
    TL_RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_TRANSB, y_op));
    if (call.bias != nullptr) {
      TL_RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
      TL_RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, call.bias));
      TL_RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, TypeOf(call.result_type)));
      TL_RETURN_IF_ERROR(Set(CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, call.batch_bias));
    }
    TL_RETURN_IF_ERROR(Layout(&x, turned.x, call.operand_type, call.batch, turned.batch_left));
    TL_RETURN_IF_ERROR(Layout(&y, turned.y, call.operand_type, call.batch, turned.batch_right));
    TL_RETURN_IF_ERROR(Layout(&d, turned.d, call.result_type, call.batch, call.batch_c));
    TL_RETURN_IF_ERROR(
        CublasStatus(lt_.preference_create(&preference), "cublasLtMatmulPreferenceCreate"));
    const size_t workspace = kWorkspaceBytes;
    TL_RETURN_IF_ERROR(Prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace));
    TL_RETURN_IF_ERROR(
        Prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, AlignmentOf(turned.left)));
    TL_RETURN_IF_ERROR(
        Prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, AlignmentOf(turned.right)));
    TL_RETURN_IF_ERROR(Prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, AlignmentOf(call.c)));
    return Prefer(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, AlignmentOf(call.c));
  }

  cublasLtMatmulDesc_t product = nullptr;
  cublasLtMatrixLayout_t x = nullptr, y = nullptr, d = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;

 private:
  template <typename Value>
  Status Set(cublasLtMatmulDescAttributes_t attribute, const Value& value) {
    return CublasStatus(lt_.desc_set(product, attribute, &value, sizeof value),
                        "cublasLtMatmulDescSetAttribute");
  }

  template <typename Value>
  Status Prefer(cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
    return CublasStatus(lt_.preference_set(preference, attribute, &value, sizeof value),
                        "cublasLtMatmulPreferenceSetAttribute");
  }

  Status Layout(cublasLtMatrixLayout_t* layout, const Side& side, DType dtype, int64_t batch,
                int64_t stride) {
    TL_RETURN_IF_ERROR(CublasStatus(
        lt_.layout_create(layout, TypeOf(dtype), static_cast<uint64_t>(side.stored_rows),
                          static_cast<uint64_t>(side.stored_columns), side.leading),
        "cublasLtMatrixLayoutCreate"));
    const int32_t count = static_cast<int32_t>(batch);
    TL_RETURN_IF_ERROR(CublasStatus(
        lt_.layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
        "cublasLtMatrixLayoutSetAttribute"));
    return CublasStatus(lt_.layout_set(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                       &stride, sizeof stride),
                        "cublasLtMatrixLayoutSetAttribute");
  }

  const CublasLt& lt_;
};

// cuBLAS's first proposal, asked for once per shape.
StatusOr<cublasLtMatmulAlgo_t> ChooseAlgorithm(DeviceObject& device, const Descriptors& descriptors,
                                               const GemmKey& key) {
  std::lock_guard lock(device.mutex);
  const auto known = device.algorithms.find(key);
  if (known != device.algorithms.end()) return known->second;
  cublasLtMatmulHeuristicResult_t choice{};
  int found = 0;
  TL_RETURN_IF_ERROR(CublasStatus(
      device.machine->cublas.heuristic(device.cublas, descriptors.product, descriptors.x,
                                       descriptors.y, descriptors.d, descriptors.d,
                                       descriptors.preference, 1, &choice, &found),
      "cublasLtMatmulAlgoGetHeuristic"));
  if (found == 0) return RunError("cuBLAS has no algorithm for this product");
  device.algorithms[key] = choice.algo;
  return choice.algo;
}

Status Multiply(Stream stream, cudaStream_t native, const GemmCall& call) {
  DeviceObject& device = *stream->device;
  const CublasLt& lt = device.machine->cublas;
  Turned turned;
  if (!Turn(call, &turned)) return InternalError("cuBLAS has no product with these strides");
  Descriptors descriptors(lt);
  TL_RETURN_IF_ERROR(descriptors.Make(call, turned, device.machine->options.tf32));
  TL_ASSIGN_OR_RETURN(const cublasLtMatmulAlgo_t algorithm,
                      ChooseAlgorithm(device, descriptors, KeyOf(call)));
  const float beta = call.accumulate ? 1.0f : 0.0f;
  return CublasStatus(
      lt.matmul(device.cublas, descriptors.product, &call.alpha, turned.left, descriptors.x,
                turned.right, descriptors.y, &beta, call.c, descriptors.d, call.c, descriptors.d,
                &algorithm, stream->workspace, kWorkspaceBytes, native),
      "cublasLtMatmul");
}

}  // namespace

bool UsesGemmLibrary(Stream stream) { return !stream->device->machine->options.exact; }

bool GemmFits(const GemmCall& call) {
  Turned turned;
  return Turn(call, &turned);
}

Status SubmitGemm(Stream stream, const char* name, uint64_t tag, const GemmCall& call) {
  if (stream->workspace == nullptr) {
    TL_ASSIGN_OR_RETURN(
        stream->workspace,
        Reserve(stream->device, Space::kDevice, kWorkspaceBytes,
                absl::StrCat("cuBLAS workspace of ", stream->name).c_str(), Category::kWorkspace));
  }
  const Status given = stream->Give([stream, name, tag, call](cudaStream_t native) {
    return stream->device->Timed(tag, native,
                                 [&] { return Annotate(Multiply(stream, native, call), name); });
  });
  if (!given.ok()) Fail(stream->device, given);
  return given;
}

}  // namespace tideline
