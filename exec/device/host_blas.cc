#include "exec/device/host_blas.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

// Of cblas.h, whose types are integers.
constexpr int kRowMajor = 101;
constexpr int kAsIs = 111;
constexpr int kTransposed = 112;

void NameTheKernels() {
  const char* core = nullptr;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq")) {
    core = "SkylakeX";
  } else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    core = "Haswell";
  }
  if (core != nullptr) setenv("OPENBLAS_CORETYPE", core, /*overwrite=*/0);
}

// Distance of the rows of a [rows, columns] matrix that BLAS accepts where one row needs none.
int Leading(int64_t stride, int64_t rows, int64_t columns) {
  return static_cast<int>(rows == 1 ? std::max<int64_t>(columns, 1) : stride);
}

// Whether a [rows, columns] matrix has contiguous rows that do not overlap.
bool HasRows(int64_t rows, int64_t row_stride, int64_t columns, int64_t column_stride) {
  return (column_stride == 1 || columns == 1) && (row_stride >= columns || rows == 1) &&
         row_stride <= std::numeric_limits<int>::max();
}

}  // namespace

StatusOr<std::unique_ptr<HostBlas>> HostBlas::Load() {
  constexpr const char* kLibrary = "libopenblas.so.0";
  NameTheKernels();
  // Never closed: its threads run code of its own until the process ends.
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return UnavailableError(absl::StrCat("--numerics fast needs ", kLibrary,
                                         ", which cannot be loaded (", dlerror(),
                                         "); install libopenblas0, or leave --numerics out"));
  }
  void* sgemm = dlsym(library, "cblas_sgemm");
  void* corename = dlsym(library, "openblas_get_corename");
  if (sgemm == nullptr || corename == nullptr) {
    return UnavailableError(
        absl::StrCat("--numerics fast: ", kLibrary,
                     " has no cblas_sgemm or no openblas_get_corename; install libopenblas0"));
  }
  const char* core = reinterpret_cast<char* (*)()>(corename)();
  return std::unique_ptr<HostBlas>(
      new HostBlas(reinterpret_cast<Sgemm>(sgemm), core == nullptr ? "" : core));
}

bool HostBlas::Fits(const BlasProduct& p) {
  constexpr int64_t kMost = std::numeric_limits<int>::max();
  const bool a = HasRows(p.m, p.a_m, p.k, p.a_k) || HasRows(p.k, p.a_k, p.m, p.a_m);
  const bool b = HasRows(p.k, p.b_k, p.n, p.b_n) || HasRows(p.n, p.b_n, p.k, p.b_k);
  return a && b && HasRows(p.m, p.c_m, p.n, 1) && std::max({p.m, p.n, p.k}) <= kMost && p.k > 0;
}

void HostBlas::Multiply(const BlasProduct& p, const float* a, const float* b, float* c,
                        bool accumulate) const {
  const bool a_rows = HasRows(p.m, p.a_m, p.k, p.a_k);
  const bool b_rows = HasRows(p.k, p.b_k, p.n, p.b_n);
  const int lda = a_rows ? Leading(p.a_m, p.m, p.k) : Leading(p.a_k, p.k, p.m);
  const int ldb = b_rows ? Leading(p.b_k, p.k, p.n) : Leading(p.b_n, p.n, p.k);
  sgemm_(kRowMajor, a_rows ? kAsIs : kTransposed, b_rows ? kAsIs : kTransposed,
         static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k), 1.0f, a, lda, b, ldb,
         accumulate ? 1.0f : 0.0f, c, Leading(p.c_m, p.m, p.n));
}

}  // namespace tideline
