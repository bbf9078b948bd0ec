#include "exec/cuda/cuda.h"
#include "exec/worker/backend.h"

namespace tideline {

StatusOr<MachinePtr> OpenMachine(const WorkerRequest& request, int devices) {
  if (request.eager) {
    return UsageError(
        "--allocator eager measures on emulated devices; use --device emulated, or leave it out");
  }
  CudaOptions options;
  options.devices = devices;
  options.communication = request.collectives == CollectiveMethod::kCopy ? CommunicationWay::kCopy
                                                                         : CommunicationWay::kNccl;
  options.exact = request.numerics == Numerics::kExact;
  options.tf32 = request.numerics == Numerics::kTf32;
  return MakeCudaMachine(options);
}

}  // namespace tideline
