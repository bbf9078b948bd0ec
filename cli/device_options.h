// The options of `execute` that say what computes and how: --device, --numerics, --comm.
#ifndef TIDELINE_CLI_DEVICE_OPTIONS_H_
#define TIDELINE_CLI_DEVICE_OPTIONS_H_

#include <string>
#include <vector>

#include "base/options.h"
#include "base/status.h"
#include "exec/worker/protocol.h"

namespace tideline {

std::vector<OptionRecord> DeviceOptionRecords();

// Sets request->numerics and request->collectives, and returns the path of the worker that has the
// devices. Errors: exit 2 for values that the device does not have, exit 6 without the worker.
StatusOr<std::string> ReadDeviceOptions(const OptionValues& options, WorkerRequest* request);

}  // namespace tideline

#endif  // TIDELINE_CLI_DEVICE_OPTIONS_H_
