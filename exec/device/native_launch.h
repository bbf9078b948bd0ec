// The two calls of the CUDA backend around a kernel launch. Not in the emulated build.
#ifndef TIDELINE_EXEC_DEVICE_NATIVE_LAUNCH_H_
#define TIDELINE_EXEC_DEVICE_NATIVE_LAUNCH_H_

#include <cstdint>

#include "base/status.h"
#include "exec/device/operation.h"

namespace tideline {

// The CUDA stream on which the next launch of `name` goes, with its device made current on this
// thread. Errors: the run's, when it has failed already.
StatusOr<void*> OpenLaunch(Stream stream, const char* name, uint64_t tag);

// Ends what OpenLaunch began. `error` is cudaGetLastError() after the launch.
Status CloseLaunch(Stream stream, const char* name, uint64_t tag, int error);

}  // namespace tideline

#endif  // TIDELINE_EXEC_DEVICE_NATIVE_LAUNCH_H_
