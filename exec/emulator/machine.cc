#include "exec/emulator/machine.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace tideline {
namespace {

MemoryPool::Limits LimitsOf(const EmulatorOptions& options) {
  return {options.devices, options.devices_per_node, options.device_memory_bytes,
          options.pinned_memory_bytes, options.limit_memory};
}

// Declares one operation to the device's checks, in the order in which hosts give operations.
Status Declare(DeviceObject* device, int checked_stream, const char* name, uint64_t tag,
               std::span<const Range> ranges) {
  if (!device->machine->options.limit_memory) device->witness.Touch(ranges);
  if (!device->machine->checks()) return absl::OkStatus();
  return device->checker.Access(checked_stream, name, tag, ranges);
}

// An error of the checks ends the run for everyone.
Status FailIfNot(DeviceObject* device, Status status) {
  if (!status.ok()) device->machine->scheduler.Fail(status);
  return status;
}

}  // namespace

Machine::Machine(const EmulatorOptions& emulator_options, std::unique_ptr<HostBlas> host_blas)
    : options(emulator_options),
      blas(std::move(host_blas)),
      pool(LimitsOf(emulator_options)),
      scheduler({emulator_options.devices, emulator_options.schedule,
                 emulator_options.schedule_seed, emulator_options.workers,
                 emulator_options.copy_collectives}) {
  for (int index = 0; index < options.devices; ++index) {
    devices.push_back(std::make_unique<DeviceObject>(this, index));
  }
}

void DestroyMachine::operator()(Machine* machine) const { delete machine; }

StatusOr<MachinePtr> MakeEmulator(const EmulatorOptions& options) {
  if (options.devices < 1 || options.devices_per_node < 1) {
    return UsageError(absl::StrCat("an emulator has at least 1 device and 1 per node, not ",
                                   options.devices, " and ", options.devices_per_node));
  }
  if (options.device_memory_bytes < 1 || options.pinned_memory_bytes < 0) {
    return UsageError(absl::StrCat("emulated devices have memory: ", options.device_memory_bytes,
                                   " device bytes and ", options.pinned_memory_bytes,
                                   " pinned bytes are not sizes"));
  }
  std::unique_ptr<HostBlas> blas;
  if (options.fast_products) {
    TL_ASSIGN_OR_RETURN(blas, HostBlas::Load());
  }
  return MachinePtr(new Machine(options, std::move(blas)));
}

const HostBlas* BlasOf(Stream stream) { return stream->device->machine->blas.get(); }

std::optional<ObservedMemory> Observed(Device device, Space space) {
  if (device->machine->options.limit_memory) return std::nullopt;
  return device->witness.Observed(space);
}

// ---- Devices and hosts ----

int DeviceCount(const Machine& machine) { return machine.options.devices; }

Device GetDevice(Machine& machine, int index) {
  TL_CHECK(index >= 0 && index < machine.options.devices, "device index is below DeviceCount");
  return machine.devices[index].get();
}

CheckLevel CheckLevelOf(Device device) { return device->machine->options.check; }

void BeginHosts(Machine& machine, int count) { machine.scheduler.BeginHosts(count); }
void EndHost(Machine& machine) { machine.scheduler.EndHost(); }

Status HostBarrier(Device device, const char* what) {
  return device->machine->scheduler.Barrier(device->index, what);
}

int64_t NowNs(Device device) { return device->machine->scheduler.NowNs(); }

void Fail(Device device, const Status& status) { device->machine->scheduler.Fail(status); }
Status RunStatus(Device device) { return device->machine->scheduler.status(); }

void DescribeTags(Device device, std::function<std::string(uint64_t tag)> describe) {
  device->checker.DescribeTags(std::move(describe));
}

// ---- Memory ----

StatusOr<void*> Reserve(Device device, Space space, int64_t bytes, std::string_view name,
                        Category category) {
  Machine& machine = *device->machine;
  TL_ASSIGN_OR_RETURN(void* memory,
                      machine.pool.Reserve(device->index, space, bytes, name, category));
  if (machine.checks()) device->checker.AddReservation(memory, bytes, name);
  if (!machine.options.limit_memory) device->witness.AddReservation(memory, bytes, space, category);
  return memory;
}

void Release(Device device, void* memory) {
  Machine& machine = *device->machine;
  machine.scheduler.WaitUntilQuiet();
  if (machine.checks()) device->checker.RemoveReservation(memory);
  if (!machine.options.limit_memory) device->witness.RemoveReservation(memory);
  machine.pool.Release(device->index, memory);
}

int64_t ReservedBytes(Device device, Space space) {
  return device->machine->pool.ReservedBytes(device->index, space);
}

Status ForgetContents(Device device, Stream stream, const char* name, uint64_t tag, void* memory,
                      int64_t bytes) {
  if (!device->machine->checks()) return absl::OkStatus();
  const int checked = stream == nullptr ? OrderChecker::kHost : stream->checked;
  const Range range = {memory, bytes, Access::kWrite};
  return FailIfNot(device, device->checker.Access(checked, name, tag, {&range, 1}, true));
}

Status ReadMemory(Device device, void* destination, const void* source, int64_t bytes) {
  TL_RETURN_IF_ERROR(SynchronizeDevice(device));
  std::memcpy(destination, source, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

Status WriteMemory(Device device, void* destination, const void* source, int64_t bytes) {
  const Range range = {destination, bytes, Access::kWrite};
  TL_RETURN_IF_ERROR(SynchronizeDevice(device));
  TL_RETURN_IF_ERROR(
      FailIfNot(device, Declare(device, OrderChecker::kHost, "write memory", 0, {&range, 1})));
  device->checker.JoinAll();
  std::memcpy(destination, source, static_cast<size_t>(bytes));
  return absl::OkStatus();
}

// ---- Streams and events ----

StatusOr<Stream> CreateStream(Device device, std::string_view name) {
  auto stream = std::make_unique<StreamObject>();
  stream->device = device;
  stream->name = std::string(name);
  stream->index = device->machine->scheduler.AddStream(device->index, name);
  stream->checked = device->checker.AddStream(name);
  device->streams.push_back(std::move(stream));
  return device->streams.back().get();
}

Device DeviceOf(Stream stream) { return stream->device; }

Status SynchronizeStream(Stream stream) {
  DeviceObject* device = stream->device;
  TL_RETURN_IF_ERROR(device->machine->scheduler.WaitForStream(device->index, stream->index));
  device->checker.Join(OrderChecker::kHost, device->checker.ClockOf(stream->checked));
  return absl::OkStatus();
}

Status SynchronizeDevice(Device device) {
  TL_RETURN_IF_ERROR(device->machine->scheduler.WaitForDevice(device->index));
  device->checker.JoinAll();
  return absl::OkStatus();
}

StatusOr<Event> CreateEvent(Device device, std::string_view name) {
  auto event = std::make_unique<EventObject>();
  event->device = device;
  event->name = std::string(name);
  device->events.push_back(std::move(event));
  return device->events.back().get();
}

Status RecordEvent(Event event, Stream stream) {
  TL_CHECK(event->device == stream->device, "an event is recorded on its own device");
  event->signal = std::make_shared<Signal>();
  event->signal->name = event->name.c_str();
  event->clock = stream->device->checker.ClockOf(stream->checked);
  return stream->device->machine->scheduler.Record(stream->device->index, stream->index,
                                                   event->signal);
}

Status RecordHostEvent(Event event) {
  event->signal = std::make_shared<Signal>();
  event->signal->name = event->name.c_str();
  event->signal->done = true;
  event->clock = event->device->checker.ClockOf(OrderChecker::kHost);
  return absl::OkStatus();
}

Status WaitEvent(Stream stream, Event event) {
  TL_CHECK(event->device == stream->device, "an event is waited for on its own device");
  if (event->signal == nullptr) return absl::OkStatus();
  stream->device->checker.Join(stream->checked, event->clock);
  return stream->device->machine->scheduler.Wait(stream->device->index, stream->index,
                                                 event->signal);
}

Status SynchronizeEvent(Event event) {
  if (event->signal == nullptr) return absl::OkStatus();
  DeviceObject* device = event->device;
  TL_RETURN_IF_ERROR(device->machine->scheduler.WaitForSignal(device->index, event->signal));
  device->checker.Join(OrderChecker::kHost, event->clock);
  return absl::OkStatus();
}

Status Enqueue(Stream stream, Operation operation) {
  DeviceObject* device = stream->device;
  TL_CHECK(!stream->grouping, "only sends, receives and collectives stand in a group");
  TL_RETURN_IF_ERROR(FailIfNot(
      device, Declare(device, stream->checked, operation.name, operation.tag, operation.ranges)));
  return device->machine->scheduler.Run(device->index, stream->index, operation.name, operation.tag,
                                        std::move(operation.run));
}

Status HostAccess(Device device, const char* name, uint64_t tag, std::span<const Range> ranges) {
  TL_RETURN_IF_ERROR(RunStatus(device));
  return FailIfNot(device, Declare(device, OrderChecker::kHost, name, tag, ranges));
}

Status CopyAsync(Stream stream, const char* name, uint64_t tag, void* destination,
                 const void* source, int64_t bytes) {
  Operation copy;
  copy.name = name;
  copy.tag = tag;
  copy.ranges = {{source, bytes, Access::kRead}, {destination, bytes, Access::kWrite}};
  copy.run = [destination, source, bytes] {
    if (bytes > 0) std::memmove(destination, source, static_cast<size_t>(bytes));
  };
  return Enqueue(stream, std::move(copy));
}

// ---- Times ----

std::vector<OperationTime> TakeTimes(Device device) {
  return device->machine->scheduler.TakeTimes(device->index);
}

}  // namespace tideline
