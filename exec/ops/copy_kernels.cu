// The kernels of --comm copy (exec/comm/copy_collective.h).
#include "exec/comm/copy_collective.h"
#include "exec/device/launch.h"
#include "exec/ops/formats.h"

namespace tideline {
namespace {

constexpr int64_t kElementsPerBlock = 4096;

TIDELINE_HOST_DEVICE float LargerOf(float a, float b) {
  if (a != a) return a;
  return b != b || b > a ? b : a;
}

// One block per run of elements. Every thread keeps the members' values of its element in a column
// of its own.
template <typename T>
struct ReduceElements {
  static constexpr const char* kName = "copy_reduce";
  static constexpr int kThreads = 128;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, const CopyPass& pass) {
    const int column = block.thread();
    block.EachOfTile(pass.outer * pass.block, [&](int64_t at) {
      TIDELINE_BLOCK_SHARED float values[kMaxCopyMembers][kThreads];
      const int64_t outer = at / pass.block;
      const int64_t i = at % pass.block;
      const int64_t from = pass.from_first + outer * pass.from_outer + i;
      for (int member = 0; member < pass.sources.size(); ++member) {
        values[member][column] = static_cast<const T*>(pass.sources[member])[from];
      }
      for (int step = 0; step < pass.steps.size(); ++step) {
        float& into = values[pass.steps[step].into][column];
        const float value = values[pass.steps[step].from][column];
        into = pass.reduction == Reduction::kSum ? into + value : LargerOf(into, value);
      }
      T result;
      result = values[pass.result][column];
      const int64_t to = pass.to_first + outer * pass.to_outer + i;
      for (int member = 0; member < pass.destinations.size(); ++member) {
        static_cast<T*>(pass.destinations[member])[to] = result;
      }
    });
  }
};

template <typename T>
struct CopyElements {
  static constexpr const char* kName = "copy_gather";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, const CopyPass& pass) {
    const T* source = static_cast<const T*>(pass.sources[0]);
    block.EachOfTile(pass.outer * pass.block, [&](int64_t at) {
      const int64_t outer = at / pass.block;
      const int64_t i = at % pass.block;
      const T value = source[pass.from_first + outer * pass.from_outer + i];
      for (int member = 0; member < pass.destinations.size(); ++member) {
        static_cast<T*>(pass.destinations[member])[pass.to_first + outer * pass.to_outer + i] =
            value;
      }
    });
  }
};

// function(Kernel{}) with the kernel of a pass.
template <typename Function>
auto WithKernel(const CopyPass& pass, DType dtype, Function function) {
  const bool reduces = pass.sources.size() > 1;
  if (!reduces && SizeOf(dtype) == 4) return function(CopyElements<uint32_t>{});
  if (!reduces) return function(CopyElements<uint16_t>{});
  if (dtype == DType::kBF16) return function(ReduceElements<BFloat16>{});
  if (dtype == DType::kF16) return function(ReduceElements<Float16>{});
  return function(ReduceElements<float>{});
}

int64_t BlocksOf(const CopyPass& pass) {
  return (pass.outer * pass.block + kElementsPerBlock - 1) / kElementsPerBlock;
}

}  // namespace

#ifdef __CUDACC__
Status LaunchCopyPass(Stream stream, uint64_t tag, const CopyPass& pass, DType dtype) {
  return WithKernel(pass, dtype, [&]<typename Kernel>(Kernel) -> Status {
    return Launch<Kernel>({.stream = stream, .tag = tag}, BlocksOf(pass), pass);
  });
}
#else
void RunCopyPass(const CopyPass& pass, DType dtype) {
  WithKernel(pass, dtype, [&]<typename Kernel>(Kernel) {
    const int64_t blocks = BlocksOf(pass);
    for (int64_t index = 0; index < blocks; ++index) {
      Kernel::template Run<Plain>(Block(index, blocks), pass);
    }
  });
}
#endif

}  // namespace tideline
