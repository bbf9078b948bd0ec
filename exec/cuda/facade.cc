// The facade's functions on CUDA: devices and hosts, memory, streams and events, times.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "exec/cuda/machine.h"
#include "exec/device/native_launch.h"

namespace tideline {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// Fails the run with an error that a CUDA call gave, so that every rank ends with it.
Status Checked(Device device, const Status& status) {
  if (!status.ok()) device->machine->Fail(status);
  return status;
}

StatusOr<bool> Over(cudaError_t query, const char* call) {
  if (query == cudaErrorNotReady) return false;
  TL_RETURN_IF_ERROR(CudaStatus(query, call));
  return true;
}

std::string LiveByCategory(const DeviceObject& device, Space space) {
  std::array<int64_t, kCategories> live{};
  for (const auto& [memory, reservation] : device.reservations) {
    if (reservation.space == space) {
      live[static_cast<size_t>(reservation.category)] += reservation.bytes;
    }
  }
  std::string text;
  for (int category = 0; category < kCategories; ++category) {
    if (live[category] == 0) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", View(Name(static_cast<Category>(category))),
                    " ", live[category]);
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace

// ---- Devices and hosts ----

int DeviceCount(const Machine& machine) { return static_cast<int>(machine.devices.size()); }
Device GetDevice(Machine& machine, int index) { return machine.devices[index].get(); }
CheckLevel CheckLevelOf(Device) { return CheckLevel::kNone; }

void BeginHosts(Machine& machine, int count) {
  std::lock_guard lock(machine.mutex);
  machine.hosts += count;
}

void EndHost(Machine& machine) {
  {
    std::lock_guard lock(machine.mutex);
    --machine.hosts;
  }
  machine.changed.notify_all();
}

Status HostBarrier(Device device, const char* what) {
  Machine& machine = *device->machine;
  std::unique_lock lock(machine.mutex);
  const uint64_t round = machine.barrier_round;
  if (++machine.barrier_arrived == machine.hosts) {
    machine.barrier_arrived = 0;
    ++machine.barrier_round;
    machine.changed.notify_all();
  }
  const int hosts = machine.hosts;
  machine.changed.wait(lock, [&] {
    return machine.barrier_round != round || machine.failed() || machine.hosts < hosts;
  });
  if (machine.barrier_round != round) return absl::OkStatus();
  lock.unlock();
  if (!machine.failed()) {
    machine.Fail(RunError(
        absl::StrCat("rank ", device->index, " waits at '", what, "' for a rank that has ended")));
  }
  return machine.status();
}

int64_t NowNs(Device device) { return device->machine->NowNs(); }
void Fail(Device device, const Status& status) { device->machine->Fail(status); }
Status RunStatus(Device device) { return device->machine->status(); }
void DescribeTags(Device, std::function<std::string(uint64_t tag)>) {}

// ---- Memory ----

StatusOr<void*> Reserve(Device device, Space space, int64_t bytes, std::string_view name,
                        Category category) {
  TL_RETURN_IF_ERROR(device->MakeCurrent());
  const size_t asked = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  void* memory = nullptr;
  cudaError_t error;
  if (space == Space::kDevice) {
    error = cudaMallocAsync(&memory, asked, device->memory_stream);
    if (error == cudaSuccess) error = cudaStreamSynchronize(device->memory_stream);
  } else {
    error = cudaHostAlloc(&memory, asked, cudaHostAllocPortable);
  }
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    return RunError(absl::StrCat("rank ", device->index, ": '", View(name), "' of ", bytes,
                                 " bytes of ", View(Name(space)), " memory cannot be reserved (",
                                 cudaGetErrorName(error), "); reserved are ",
                                 LiveByCategory(*device, space),
                                 "; use a plan that needs less, or end what else uses this GPU"));
  }
  TL_CHECK(reinterpret_cast<uintptr_t>(memory) % kAlignment == 0, "CUDA aligns to 256 bytes");
  device->reservations[memory] = {.space = space, .category = category, .bytes = bytes};
  return memory;
}

void Release(Device device, void* memory) {
  const auto found = device->reservations.find(memory);
  TL_CHECK(found != device->reservations.end(), "memory came from Reserve");
  if (!Checked(device, device->MakeCurrent()).ok()) return;
  const bool on_device = found->second.space == Space::kDevice;
  device->reservations.erase(found);
  const cudaError_t error =
      on_device ? cudaFreeAsync(memory, device->memory_stream) : cudaFreeHost(memory);
  (void)Checked(device, CudaStatus(error, on_device ? "cudaFreeAsync" : "cudaFreeHost"));
}

int64_t ReservedBytes(Device device, Space space) {
  int64_t sum = 0;
  for (const auto& [memory, reservation] : device->reservations) {
    if (reservation.space == space) sum += reservation.bytes;
  }
  return sum;
}

std::optional<ObservedMemory> Observed(Device, Space) { return std::nullopt; }

Status ForgetContents(Device, Stream, const char*, uint64_t, void*, int64_t) {
  return absl::OkStatus();
}

Status ReadMemory(Device device, void* destination, const void* source, int64_t bytes) {
  TL_RETURN_IF_ERROR(SynchronizeDevice(device));
  return Checked(device, CudaStatus(cudaMemcpy(destination, source, static_cast<size_t>(bytes),
                                               cudaMemcpyDefault),
                                    "cudaMemcpy"));
}

Status WriteMemory(Device device, void* destination, const void* source, int64_t bytes) {
  return ReadMemory(device, destination, source, bytes);
}

// ---- Streams and events ----

StatusOr<Stream> CreateStream(Device device, std::string_view name) {
  TL_RETURN_IF_ERROR(device->MakeCurrent());
  auto stream = std::make_unique<StreamObject>();
  stream->device = device;
  stream->name = std::string(name);
  TL_RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&stream->native, cudaStreamNonBlocking),
                                "cudaStreamCreateWithFlags"));
  StreamObject* const made = stream.get();
  if (device->machine->copies()) made->thread = std::thread([made] { made->Work(); });
  device->streams.push_back(std::move(stream));
  return made;
}

Device DeviceOf(Stream stream) { return stream->device; }

Status SynchronizeStream(Stream stream) {
  TL_RETURN_IF_ERROR(stream->device->MakeCurrent());
  return Checked(stream->device, stream->device->machine->Poll([stream]() -> StatusOr<bool> {
    if (stream->thread.joinable() && !stream->Idle()) return false;
    return Over(cudaStreamQuery(stream->native), "cudaStreamQuery");
  }));
}

Status SynchronizeDevice(Device device) {
  for (const std::unique_ptr<StreamObject>& stream : device->streams) {
    TL_RETURN_IF_ERROR(SynchronizeStream(stream.get()));
  }
  return absl::OkStatus();
}

StatusOr<Event> CreateEvent(Device device, std::string_view) {
  device->events.push_back(std::make_unique<EventObject>());
  device->events.back()->device = device;
  return device->events.back().get();
}

Status RecordEvent(Event event, Stream stream) {
  TL_RETURN_IF_ERROR(event->device->MakeCurrent());
  TL_ASSIGN_OR_RETURN(const MarkPtr mark, event->device->MakeMark());
  event->mark = mark;
  return Checked(event->device, stream->Give([mark](cudaStream_t native) {
    const Status status = CudaStatus(cudaEventRecord(mark->native, native), "cudaEventRecord");
    mark->recorded.store(true, std::memory_order_release);
    return status;
  }));
}

Status RecordHostEvent(Event event) {
  event->mark = std::make_shared<Mark>();
  event->mark->device = event->device;
  event->mark->recorded = true;
  return absl::OkStatus();
}

Status WaitEvent(Stream stream, Event event) {
  const MarkPtr mark = event->mark;
  if (mark == nullptr || mark->native == nullptr) return absl::OkStatus();
  return Checked(stream->device, stream->Give([stream, mark](cudaStream_t native) -> Status {
    TL_RETURN_IF_ERROR(stream->device->machine->Poll(
        [&]() -> StatusOr<bool> { return mark->recorded.load(std::memory_order_acquire); }));
    return CudaStatus(cudaStreamWaitEvent(native, mark->native, 0), "cudaStreamWaitEvent");
  }));
}

Status SynchronizeEvent(Event event) {
  const MarkPtr mark = event->mark;
  if (mark == nullptr || mark->native == nullptr) return RunStatus(event->device);
  return Checked(event->device, event->device->machine->Poll([&]() -> StatusOr<bool> {
    if (!mark->recorded.load(std::memory_order_acquire)) return false;
    return Over(cudaEventQuery(mark->native), "cudaEventQuery");
  }));
}

Status HostAccess(Device, const char*, uint64_t, std::span<const Range>) {
  return absl::OkStatus();
}

Status CopyAsync(Stream stream, const char*, uint64_t tag, void* destination, const void* source,
                 int64_t bytes) {
  return Checked(stream->device, stream->Give([=](cudaStream_t native) {
    return stream->device->Timed(tag, native, [&] {
      return CudaStatus(cudaMemcpyAsync(destination, source, static_cast<size_t>(bytes),
                                        cudaMemcpyDefault, native),
                        "cudaMemcpyAsync");
    });
  }));
}

Status SubmitNative(Stream stream, const char* name, uint64_t tag, NativeWork work) {
  return Checked(stream->device, stream->Give([stream, name, tag,
                                               work = std::move(work)](cudaStream_t native) {
    const auto launch = [&] { return CudaStatus(static_cast<cudaError_t>(work(native)), name); };
    return stream->meeting ? launch() : stream->device->Timed(tag, native, launch);
  }));
}

// ---- Times ----

std::vector<OperationTime> TakeTimes(Device device) {
  std::vector<Span> spans;
  {
    std::lock_guard lock(device->mutex);
    spans.swap(device->spans);
  }
  std::vector<OperationTime> times;
  if (!Checked(device, device->MakeCurrent()).ok()) return times;
  const auto since_epoch = [&](cudaEvent_t event) {
    float milliseconds = 0;
    (void)Checked(device, CudaStatus(cudaEventElapsedTime(&milliseconds, device->epoch, event),
                                     "cudaEventElapsedTime"));
    return device->epoch_ns + static_cast<int64_t>(static_cast<double>(milliseconds) * 1e6);
  };
  for (const Span& span : spans) {
    OperationTime time{.tag = span.tag};
    time.start_ns = since_epoch(span.start);
    time.ready_ns = time.start_ns;
    time.end_ns = since_epoch(span.end);
    times.push_back(time);
    device->GiveBack(span.start, true);
    device->GiveBack(span.end, true);
  }
  // A new epoch: the times of fp32 milliseconds keep their digits.
  cudaEventRecord(device->epoch, device->memory_stream);
  (void)Checked(device, CudaStatus(cudaEventSynchronize(device->epoch), "cudaEventSynchronize"));
  device->epoch_ns = device->machine->NowNs();
  std::stable_sort(times.begin(), times.end(), [](const OperationTime& a, const OperationTime& b) {
    return a.end_ns < b.end_ns;
  });
  return times;
}

}  // namespace tideline
