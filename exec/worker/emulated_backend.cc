#include "exec/emulator/emulator.h"
#include "exec/worker/backend.h"

namespace tideline {

StatusOr<MachinePtr> OpenMachine(const WorkerRequest& request, int devices) {
  if (request.fast_numerics) {
    return UnavailableError(
        "--numerics fast: the emulated worker has exact kernels only; leave it out");
  }
  EmulatorOptions options;
  options.devices = devices;
  options.devices_per_node = request.devices_per_node;
  options.device_memory_bytes = request.device_memory_bytes;
  options.pinned_memory_bytes = request.pinned_memory_bytes;
  options.limit_memory = !request.eager;
  options.check = request.check;
  options.schedule = request.schedule;
  options.schedule_seed = request.schedule_seed;
  return MakeEmulator(options);
}

}  // namespace tideline
