// The one call of the CUDA backend that a kernel launch becomes. Not in the emulated build.
#ifndef TIDELINE_EXEC_DEVICE_NATIVE_LAUNCH_H_
#define TIDELINE_EXEC_DEVICE_NATIVE_LAUNCH_H_

#include <cstdint>
#include <functional>

#include "base/status.h"
#include "exec/device/operation.h"

namespace tideline {

// What is done on a CUDA stream (a cudaStream_t): it launches and returns a cudaError_t.
using NativeWork = std::function<int(void* native_stream)>;

// Gives `work` to the stream: at once, with its device current on this thread, or on the stream's
// own thread when collectives are made by copies (exec/cuda/cuda.h). Errors: the run's, when
// it has failed already; the launch's.
Status SubmitNative(Stream stream, const char* name, uint64_t tag, NativeWork work);

}  // namespace tideline

#endif  // TIDELINE_EXEC_DEVICE_NATIVE_LAUNCH_H_
