#include "exec/cuda/libraries.h"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

// The folder of this program; empty when it cannot be told.
std::string ProgramFolder() {
  char path[PATH_MAX];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  if (length <= 0) return "";
  const std::string whole(path, static_cast<size_t>(length));
  return whole.substr(0, whole.rfind('/'));
}

class Library {
 public:
  Library(const char* name, std::vector<std::string>& missing) : name_(name), missing_(missing) {
    std::vector<std::string> paths{name};
    const std::string own = ProgramFolder();
    if (!own.empty()) paths.push_back(own + "/" + name);
    const char* home = std::getenv("CUDA_HOME");
    if (home != nullptr) paths.push_back(std::string(home) + "/lib64/" + name);
    paths.push_back(std::string("/usr/local/cuda/lib64/") + name);
    std::string tried;
    for (const std::string& path : paths) {
      handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
      const char* error = dlerror();
      absl::StrAppend(&tried, tried.empty() ? "" : "; ", error != nullptr ? error : path);
    }
    missing_.push_back(absl::StrCat("the library ", name, " cannot be opened (", tried, ")"));
  }

  template <typename Function>
  void Find(Function& function, const char* symbol) {
    if (handle_ == nullptr) return;
    function = reinterpret_cast<Function>(dlsym(handle_, symbol));
    if (function == nullptr) {
      missing_.push_back(absl::StrCat("the library ", name_, " has no function ", symbol,
                                      "; a newer version of it is needed"));
    }
  }

 private:
  const char* name_;
  std::vector<std::string>& missing_;
  void* handle_ = nullptr;
};

}  // namespace

CublasLt OpenCublasLt(std::vector<std::string>& missing) {
  // The major version whose headers this was compiled with.
  static const std::string name = absl::StrCat("libcublasLt.so.", CUBLAS_VER_MAJOR);
  Library library(name.c_str(), missing);
  CublasLt lt;
  library.Find(lt.create, "cublasLtCreate");
  library.Find(lt.destroy, "cublasLtDestroy");
  library.Find(lt.matmul, "cublasLtMatmul");
  library.Find(lt.desc_create, "cublasLtMatmulDescCreate");
  library.Find(lt.desc_destroy, "cublasLtMatmulDescDestroy");
  library.Find(lt.desc_set, "cublasLtMatmulDescSetAttribute");
  library.Find(lt.layout_create, "cublasLtMatrixLayoutCreate");
  library.Find(lt.layout_destroy, "cublasLtMatrixLayoutDestroy");
  library.Find(lt.layout_set, "cublasLtMatrixLayoutSetAttribute");
  library.Find(lt.preference_create, "cublasLtMatmulPreferenceCreate");
  library.Find(lt.preference_destroy, "cublasLtMatmulPreferenceDestroy");
  library.Find(lt.preference_set, "cublasLtMatmulPreferenceSetAttribute");
  library.Find(lt.heuristic, "cublasLtMatmulAlgoGetHeuristic");
  return lt;
}

Nccl OpenNccl(std::vector<std::string>& missing) {
  Library library("libnccl.so.2", missing);
  Nccl nccl;
  library.Find(nccl.unique_id, "ncclGetUniqueId");
  library.Find(nccl.init_rank, "ncclCommInitRankConfig");
  library.Find(nccl.destroy, "ncclCommDestroy");
  library.Find(nccl.abort, "ncclCommAbort");
  library.Find(nccl.async_error, "ncclCommGetAsyncError");
  library.Find(nccl.all_reduce, "ncclAllReduce");
  library.Find(nccl.all_gather, "ncclAllGather");
  library.Find(nccl.reduce_scatter, "ncclReduceScatter");
  library.Find(nccl.broadcast, "ncclBroadcast");
  library.Find(nccl.send, "ncclSend");
  library.Find(nccl.receive, "ncclRecv");
  library.Find(nccl.group_start, "ncclGroupStart");
  library.Find(nccl.group_end, "ncclGroupEnd");
  library.Find(nccl.error_string, "ncclGetErrorString");
  return nccl;
}

Status CudaStatus(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return absl::OkStatus();
  return RunError(
      absl::StrCat(call, ": ", cudaGetErrorName(error), ", ", cudaGetErrorString(error)));
}

}  // namespace tideline
