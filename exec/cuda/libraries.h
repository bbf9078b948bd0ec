// The functions of cuBLASLt and NCCL that the backend calls, found at run time.
#ifndef TIDELINE_EXEC_CUDA_LIBRARIES_H_
#define TIDELINE_EXEC_CUDA_LIBRARIES_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>
#include <vector>

#include "base/status.h"

namespace tideline {

struct CublasLt {
  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;
};

struct Nccl {
  decltype(&ncclGetUniqueId) unique_id = nullptr;
  decltype(&ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&ncclCommDestroy) destroy = nullptr;
  decltype(&ncclCommAbort) abort = nullptr;
  decltype(&ncclCommGetAsyncError) async_error = nullptr;
  decltype(&ncclAllReduce) all_reduce = nullptr;
  decltype(&ncclAllGather) all_gather = nullptr;
  decltype(&ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&ncclBroadcast) broadcast = nullptr;
  decltype(&ncclSend) send = nullptr;
  decltype(&ncclRecv) receive = nullptr;
  decltype(&ncclGroupStart) group_start = nullptr;
  decltype(&ncclGroupEnd) group_end = nullptr;
  decltype(&ncclGetErrorString) error_string = nullptr;
};

// The libraries stay open until the process ends. What is not there is appended to `missing`, each
// a sentence. Looked for by the dynamic linker, beside the program, and in $CUDA_HOME/lib64 and
// /usr/local/cuda/lib64.
CublasLt OpenCublasLt(std::vector<std::string>& missing);
Nccl OpenNccl(std::vector<std::string>& missing);

// RunError that names the call and CUDA's own text; Ok for cudaSuccess.
Status CudaStatus(cudaError_t error, const char* call);

}  // namespace tideline

#endif  // TIDELINE_EXEC_CUDA_LIBRARIES_H_
