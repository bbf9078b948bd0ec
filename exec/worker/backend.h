// Backend: the one thing in which workers differ, what devices they have.
#ifndef TIDELINE_EXEC_WORKER_BACKEND_H_
#define TIDELINE_EXEC_WORKER_BACKEND_H_

#include "base/status.h"
#include "exec/device/device.h"
#include "exec/worker/protocol.h"

namespace tideline {

// Opens `devices` devices as the request describes them. Errors: exit 2 for a request that this
// backend cannot serve, exit 6 for devices that are not there.
StatusOr<MachinePtr> OpenMachine(const WorkerRequest& request, int devices);

}  // namespace tideline

#endif  // TIDELINE_EXEC_WORKER_BACKEND_H_
