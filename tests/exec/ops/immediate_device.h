// A device whose operations run inside Enqueue; it remembers what they declared.
#ifndef TIDELINE_TESTS_EXEC_OPS_IMMEDIATE_DEVICE_H_
#define TIDELINE_TESTS_EXEC_OPS_IMMEDIATE_DEVICE_H_

#include <string>
#include <vector>

#include "exec/device/device.h"
#include "exec/device/host_blas.h"

namespace tideline {

struct DeviceObject {
  Status status;                   // the first Fail()
  const HostBlas* blas = nullptr;  // what makes matrix products; null: exact
};

struct StreamObject {
  Device device = nullptr;
  std::vector<Range> ranges;
  std::vector<std::string> names;
};

}  // namespace tideline

#endif  // TIDELINE_TESTS_EXEC_OPS_IMMEDIATE_DEVICE_H_
