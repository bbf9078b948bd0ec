// Launch on a GPU: the kernel function around Kernel::Run. Only included by nvcc.
#ifndef TIDELINE_EXEC_DEVICE_LAUNCH_DEVICE_H_
#define TIDELINE_EXEC_DEVICE_LAUNCH_DEVICE_H_

#include <cstdint>

#include "base/status.h"
#include "exec/device/block.h"
#include "exec/device/native_launch.h"
#include "exec/device/views.h"

namespace tideline::internal {

// Threads of one block, and of the CTA that holds one block or, where blocks are parts of a warp,
// several.
template <typename Kernel>
constexpr int BlockThreads() {
  if constexpr (requires { Kernel::kThreads; }) {
    return Kernel::kThreads;
  } else {
    return Block::kWideThreads;
  }
}
template <typename Kernel>
constexpr int CtaThreads() {
  constexpr int kShared = 128;
  return BlockThreads<Kernel>() < kWarp ? kShared : BlockThreads<Kernel>();
}

template <typename Kernel, typename... Arguments>
__global__ void __launch_bounds__(CtaThreads<Kernel>(), 1)
    RunKernel(int64_t blocks, const __grid_constant__ Arguments... arguments) {
  constexpr int kThreads = BlockThreads<Kernel>();
  constexpr int kBlocks = CtaThreads<Kernel>() / kThreads;
  const int64_t index = int64_t{blockIdx.x} * kBlocks + threadIdx.x / kThreads;
  if (index >= blocks) return;
  Kernel::template Run<Plain>(
      Block(index, blocks, static_cast<int>(threadIdx.x % kThreads), kThreads), arguments...);
}

template <typename Kernel, typename... Arguments>
Status LaunchOnDevice(Stream stream, uint64_t tag, int64_t blocks, const Arguments&... arguments) {
  if (blocks == 0) return absl::OkStatus();
  constexpr int64_t kBlocks = CtaThreads<Kernel>() / BlockThreads<Kernel>();
  const unsigned grid = static_cast<unsigned>((blocks + kBlocks - 1) / kBlocks);
  return SubmitNative(stream, Kernel::kName, tag, [grid, blocks, arguments...](void* native) {
    RunKernel<Kernel, Arguments...>
        <<<grid, CtaThreads<Kernel>(), 0, static_cast<cudaStream_t>(native)>>>(blocks,
                                                                               arguments...);
    return static_cast<int>(cudaGetLastError());
  });
}

}  // namespace tideline::internal

#endif  // TIDELINE_EXEC_DEVICE_LAUNCH_DEVICE_H_
