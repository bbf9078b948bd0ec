#include "exec/emulator/emulator.h"
#include "exec/worker/backend.h"

namespace tideline {

StatusOr<MachinePtr> OpenMachine(const WorkerRequest& request, int devices) {
  if (request.numerics == Numerics::kTf32) {
    return UsageError("--numerics tf32 is a GPU's; use fast or exact, or --device cuda");
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
  options.fast_products = request.numerics != Numerics::kExact;
  options.copy_collectives = request.collectives == CollectiveMethod::kCopy;
  return MakeEmulator(options);
}

}  // namespace tideline
