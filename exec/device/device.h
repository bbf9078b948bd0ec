// Device facade: the part of the CUDA runtime and of NCCL that the executor uses, in our own names.
//
// Kernels, interpreter, memory and checkpoints call nothing else. In the emulated worker the
// functions are exec/emulator (devices with limited memory, checked more strictly than a GPU
// checks); a CUDA worker forwards each one to the call of the same meaning. Handles are opaque
// pointers owned by the Machine and stay valid until it is destroyed.
//
// Order: operations of one stream run one after the other, in the order in which they were given;
// streams are ordered only by events. Calls return before the work is done, with an error if the
// call itself is wrong; an error of the work itself comes from the next Synchronize (and from every
// call after it), on every rank.
//
// Threads: one host thread per device (its rank) gives that device's work. BeginHosts says how many
// there are, so that "all of them wait" can be told from "one has not come yet".
//
//   TL_ASSIGN_OR_RETURN(Stream stream, CreateStream(device, "compute"));
//   TL_RETURN_IF_ERROR(Enqueue(stream, {.name = "fill", .tag = 7, ...}));   // or Launch<Kernel>
//   TL_RETURN_IF_ERROR(RecordEvent(event, stream));
//   TL_RETURN_IF_ERROR(SynchronizeEvent(event));
#ifndef TIDELINE_EXEC_DEVICE_DEVICE_H_
#define TIDELINE_EXEC_DEVICE_DEVICE_H_

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "exec/device/modes.h"
#include "exec/device/operation.h"
#include "planner/program/program.h"

namespace tideline {

// All devices of this process. MakeEmulator() (exec/emulator/emulator.h) opens the emulated one.
class Machine;
struct DestroyMachine {
  void operator()(Machine* machine) const;
};
using MachinePtr = std::unique_ptr<Machine, DestroyMachine>;

struct DeviceObject;
struct EventObject;
struct CommunicatorObject;
using Device = DeviceObject*;
using Event = EventObject*;
using Communicator = CommunicatorObject*;

// ---- Devices and hosts ----

int DeviceCount(const Machine& machine);
Device GetDevice(Machine& machine, int index);  // 0 <= index < DeviceCount
CheckLevel CheckLevelOf(Device device);

// Says that `count` host threads are about to give work. Each calls EndHost once when it gives no
// more.
void BeginHosts(Machine& machine, int count);
void EndHost(Machine& machine);

// Waits until every host thread has come here. `what` names the barrier in a report of who waits.
Status HostBarrier(Device device, const char* what);

// Nanoseconds since the machine was opened, the clock of OperationTime.
int64_t NowNs(Device device);

// Makes `status` the result of the run if it has none yet: nothing runs any more, every waiting
// host returns with it. For hosts and for operations that find something wrong while they run.
void Fail(Device device, const Status& status);
Status RunStatus(Device device);

// How messages of the checks name the instruction of a tag, besides its number. Called on the host
// thread of the device. Does nothing on a GPU.
void DescribeTags(Device device, std::function<std::string(uint64_t tag)> describe);

// ---- Memory ----

// Reserves `bytes` of `space`, aligned to kAlignment, contents undefined. Beyond the capacity: an
// error that names the reservation and the live bytes by category at that moment. The category is
// what an eager run's observed peak is split by (exec/emulator/touch_witness.h).
StatusOr<void*> Reserve(Device device, Space space, int64_t bytes, std::string_view name,
                        Category category);
// Gives a reservation back. Precondition: `memory` came from Reserve and no work uses it any more.
void Release(Device device, void* memory);

// Bytes reserved now in `space`.
int64_t ReservedBytes(Device device, Space space);

// How much memory the device's work really touched at once (DEFINITIONS 2, "observed"): the largest
// sum of bytes of reservations between their first and last touch, and its split by category at the
// first operation that reaches it.
struct ObservedMemory {
  int64_t peak = 0;
  std::array<int64_t, kCategories> peak_by_category{};
};

// None unless the machine watches touches. Call it when the device is synchronized.
std::optional<ObservedMemory> Observed(Device device, Space space);

// Says that the contents of a range are undefined from this point of `stream` on (null: of the host
// thread's own work): it counts as a write that leaves nothing behind, so that a later read without
// a write between is found. Does nothing on a GPU.
Status ForgetContents(Device device, Stream stream, const char* name, uint64_t tag, void* memory,
                      int64_t bytes);

// Blocking copies between host memory of the caller and a reservation, after all work of the
// device. Reading may find bytes that nothing wrote (padding).
Status ReadMemory(Device device, void* destination, const void* source, int64_t bytes);
Status WriteMemory(Device device, void* destination, const void* source, int64_t bytes);

// ---- Streams and events ----

StatusOr<Stream> CreateStream(Device device, std::string_view name);
Device DeviceOf(Stream stream);

Status SynchronizeStream(Stream stream);
Status SynchronizeDevice(Device device);

StatusOr<Event> CreateEvent(Device device, std::string_view name);
// The event stands for the end of all work given to `stream` so far.
Status RecordEvent(Event event, Stream stream);
// The event stands for all that the host of this device has done so far (declared with HostAccess).
Status RecordHostEvent(Event event);
// Later work of `stream` starts after what the event stood for when this is called; an event never
// recorded holds nothing up.
Status WaitEvent(Stream stream, Event event);
Status SynchronizeEvent(Event event);

// The host thread of this device reads or writes pinned memory now, as one operation. Its order
// with device work counts only through events, as in the Program.
Status HostAccess(Device device, const char* name, uint64_t tag, std::span<const Range> ranges);

// Copies between any two reservations of one device.
Status CopyAsync(Stream stream, const char* name, uint64_t tag, void* destination,
                 const void* source, int64_t bytes);

// ---- Communication ----

// Joins the group called `name`, whose members are `devices` in this order; every member joins with
// the same list. Does not wait for the others.
StatusOr<Communicator> JoinCommunicator(Device device, std::string_view name,
                                        std::span<const int32_t> devices);

// One collective (planner/program/program.h) of all members, started when all have arrived.
// In place: input == output, and an all-gather's input or a reduce-scatter's output then is the
// member's own part of the buffer; with one outer piece, a pointer to that part says the same.
// Reductions add in the declared order (DEFINITIONS 5); a broadcast sends the first member's bytes.
// Members that call different things all get the error.
Status EnqueueCollective(Communicator communicator, Stream stream, const char* name, uint64_t tag,
                         const Collective& collective, const void* input, void* output);

// Rendezvous with member `peer` of the communicator: both ends start when both have arrived.
Status Send(Communicator communicator, Stream stream, const char* name, uint64_t tag, int32_t peer,
            const void* source, int64_t bytes);
Status Receive(Communicator communicator, Stream stream, const char* name, uint64_t tag,
               int32_t peer, void* destination, int64_t bytes);

// Sends, receives and collectives given to `stream` between the two calls are one operation: all
// arrive together, and the stream goes on when all are done.
Status GroupStart(Stream stream);
Status GroupEnd(Stream stream);

// ---- Times ----

// When an operation ran. Operations of one tag are what one instruction became.
struct OperationTime {
  uint64_t tag = 0;
  int64_t ready_ns = 0;  // its own device could have started it; it then waited for other members
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// The finished operations since the last call, in order of their end. Call it when the device is
// synchronized.
std::vector<OperationTime> TakeTimes(Device device);

}  // namespace tideline

#endif  // TIDELINE_EXEC_DEVICE_DEVICE_H_
