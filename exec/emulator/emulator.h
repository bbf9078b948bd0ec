// Emulator: devices in host memory behind the device facade, checked more strictly than GPUs.
//
//   auto machine = MakeEmulator({.devices = 2, .device_memory_bytes = 64 << 20});
//   Device device = GetDevice(*machine, 0);
//
// It runs every operation on the host (scheduler.h), limits memory (memory_pool.h), finds races and
// reads of unwritten bytes from what operations declare (order_checker.h), executes collectives in
// their declared order (exec/comm), reports mismatched and missing calls on every rank, and can
// tell from the touched bytes alone how much memory was needed (touch_witness.h).
#ifndef TIDELINE_EXEC_EMULATOR_EMULATOR_H_
#define TIDELINE_EXEC_EMULATOR_EMULATOR_H_

#include <cstdint>

#include "base/status.h"
#include "exec/device/device.h"

namespace tideline {

struct EmulatorOptions {
  int devices = 1;
  int devices_per_node = 8;
  int64_t device_memory_bytes = int64_t{256} << 20;
  int64_t pinned_memory_bytes = int64_t{1} << 30;  // per node
  // false: every buffer may be a reservation of its own, whatever their sum, and the witness
  // watches (--allocator eager).
  bool limit_memory = true;
  CheckLevel check = CheckLevel::kOrder;
  SchedulePolicy schedule = SchedulePolicy::kConcurrent;
  uint64_t schedule_seed = 0;
  int workers = 0;  // threads that run operations; 0: one per core
  // Matrix products by OpenBLAS on all cores (--numerics fast), not by the exact chains.
  bool fast_products = false;
  // Collectives by the kernels that several ranks on one GPU use (exec/comm/copy_collective.h),
  // with the same bits.
  bool copy_collectives = false;
};

// Call it before other threads exist when fast_products is set. Errors: counts or capacities that
// are not positive (exit 2); no OpenBLAS (exit 6).
StatusOr<MachinePtr> MakeEmulator(const EmulatorOptions& options);

}  // namespace tideline

#endif  // TIDELINE_EXEC_EMULATOR_EMULATOR_H_
