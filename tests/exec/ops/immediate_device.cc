// The three calls of the device facade that kernel launches need, over a device that runs each
// operation at once: kernels are tested alone here, and on the emulator in tests/exec/emulator.
#include "tests/exec/ops/immediate_device.h"

namespace tideline {

Status Enqueue(Stream stream, Operation operation) {
  for (const Range& range : operation.ranges) stream->ranges.push_back(range);
  stream->names.emplace_back(operation.name);
  operation.run();
  return absl::OkStatus();
}

Device DeviceOf(Stream stream) { return stream->device; }

const HostBlas* BlasOf(Stream stream) { return stream->device->blas; }

void Fail(Device device, const Status& status) {
  if (device->status.ok()) device->status = status;
}

}  // namespace tideline
