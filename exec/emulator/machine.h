// Machine and the objects behind the facade's handles, as the emulator has them.
//
// A device's checker, witness, streams and events belong to its host thread; the scheduler and the
// memory pool are shared and lock for themselves; communicator groups are shared under `mutex`.
#ifndef TIDELINE_EXEC_EMULATOR_MACHINE_H_
#define TIDELINE_EXEC_EMULATOR_MACHINE_H_

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "exec/device/device.h"
#include "exec/device/host_blas.h"
#include "exec/emulator/emulator.h"
#include "exec/emulator/meeting.h"
#include "exec/emulator/memory_pool.h"
#include "exec/emulator/order_checker.h"
#include "exec/emulator/scheduler.h"
#include "exec/emulator/touch_witness.h"

namespace tideline {

struct StreamObject {
  DeviceObject* device = nullptr;
  std::string name;
  int index = 0;    // of the scheduler
  int checked = 0;  // of the order checker
  bool grouping = false;
  std::vector<Post> group;
  std::vector<Range> group_ranges;
};

struct EventObject {
  DeviceObject* device = nullptr;
  std::string name;
  SignalPtr signal;  // null: never recorded
  OrderChecker::Clock clock;
};

struct CommunicatorObject {
  DeviceObject* device = nullptr;
  const CommunicatorGroup* group = nullptr;
  int32_t member = 0;
  uint64_t calls = 0;
  std::map<int32_t, uint64_t> sent, received;  // messages by peer
};

struct DeviceObject {
  DeviceObject(Machine* owner, int number) : machine(owner), index(number), checker(number) {}

  Machine* machine = nullptr;
  int index = 0;
  OrderChecker checker;
  TouchWitness witness;
  std::vector<std::unique_ptr<StreamObject>> streams;
  std::vector<std::unique_ptr<EventObject>> events;
  std::vector<std::unique_ptr<CommunicatorObject>> communicators;
};

class Machine {
 public:
  Machine(const EmulatorOptions& emulator_options, std::unique_ptr<HostBlas> host_blas);

  bool checks() const { return options.check != CheckLevel::kNone; }

  const EmulatorOptions options;
  const std::unique_ptr<HostBlas> blas;  // null: products are exact
  MemoryPool pool;
  std::vector<std::unique_ptr<DeviceObject>> devices;
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<CommunicatorGroup>> groups;
  // Last, so that its threads end before what they use.
  Scheduler scheduler;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_EMULATOR_MACHINE_H_
