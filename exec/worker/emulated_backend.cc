#include "exec/emulator/emulator.h"
#include "exec/worker/backend.h"

namespace tideline {

StatusOr<MachinePtr> OpenMachine(const WorkerRequest& request, int devices) {
  EmulatorOptions options;
  options.devices = devices;
  options.devices_per_node = request.devices_per_node;
  options.device_memory_bytes = request.device_memory_bytes;
  options.pinned_memory_bytes = request.pinned_memory_bytes;
  options.limit_memory = !request.eager;
  options.check = request.check;
  options.schedule = request.schedule;
  options.schedule_seed = request.schedule_seed;
  options.fast_products = request.fast_numerics;
  return MakeEmulator(options);
}

}  // namespace tideline
