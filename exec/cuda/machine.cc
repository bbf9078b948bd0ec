#include "exec/cuda/machine.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace tideline {
namespace {

// While waiting: first without sleeping, since most waits are short.
constexpr int kSpins = 2000;
constexpr auto kNap = std::chrono::microseconds(20);
constexpr auto kWatch = std::chrono::milliseconds(100);

// The stream whose thread this is; null on a rank's thread.
thread_local StreamObject* own_stream = nullptr;

std::string Missing(const std::vector<std::string>& missing) {
  return absl::StrCat("--device cuda cannot run here: ", absl::StrJoin(missing, "; "));
}

void SurveyGpus(CudaSurvey& survey) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess) {
    (void)cudaGetLastError();
    survey.missing.push_back(
        error == cudaErrorInsufficientDriver
            ? absl::StrCat("the NVIDIA driver (libcuda.so.1) is missing or older than CUDA ",
                           CUDART_VERSION / 1000, ".", CUDART_VERSION % 1000 / 10)
            : absl::StrCat("no GPU can be used: ", cudaGetErrorName(error), ", ",
                           cudaGetErrorString(error)));
    return;
  }
  if (count == 0) survey.missing.push_back("the driver finds no GPU");
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, ordinal) != cudaSuccess) continue;
    survey.gpus.push_back({.name = properties.name,
                           .compute_major = properties.major,
                           .compute_minor = properties.minor,
                           .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
                           .multiprocessors = properties.multiProcessorCount});
  }
}

}  // namespace

CudaSurvey SurveyCuda(bool needs_cublas, bool needs_nccl) {
  CudaSurvey survey;
  SurveyGpus(survey);
  if (needs_cublas) OpenCublasLt(survey.missing);
  if (needs_nccl) OpenNccl(survey.missing);
  return survey;
}

StatusOr<MachinePtr> MakeCudaMachine(const CudaOptions& options) {
  const bool one_rank = options.devices == 1;
  const bool needs_nccl = options.communication == CommunicationWay::kNccl && !one_rank;
  const CudaSurvey survey = SurveyCuda(!options.exact, needs_nccl);
  if (!survey.missing.empty()) return UnavailableError(Missing(survey.missing));
  const int gpus = static_cast<int>(survey.gpus.size());
  if (needs_nccl && options.devices > gpus) {
    return UnavailableError(absl::StrCat(
        "--device cuda: ", options.devices, " ranks but ", gpus,
        " GPUs, and NCCL takes one rank per GPU; use a plan of fewer ranks, or --comm copy"));
  }
  for (const CudaSurvey::Gpu& gpu : survey.gpus) {
    if (gpu.compute_major >= 8) continue;
    return UnavailableError(absl::StrCat("--device cuda: ", gpu.name, " has compute capability ",
                                         gpu.compute_major, ".", gpu.compute_minor,
                                         "; there is code for 8.0 and later"));
  }
  MachinePtr machine(new Machine(options));
  std::vector<std::string> missing;
  if (!options.exact) machine->cublas = OpenCublasLt(missing);
  if (needs_nccl) machine->nccl = OpenNccl(missing);
  for (int index = 0; index < options.devices; ++index) {
    auto device = std::make_unique<DeviceObject>();
    device->machine = machine.get();
    device->index = index;
    device->ordinal = index % gpus;
    TL_RETURN_IF_ERROR(device->Open());
    machine->devices.push_back(std::move(device));
  }
  return machine;
}

void DestroyMachine::operator()(Machine* machine) const { delete machine; }

// ---- Machine ----

Machine::Machine(const CudaOptions& cuda_options)
    : options(cuda_options), opened(std::chrono::steady_clock::now()) {
  if (!copies()) watcher_ = std::thread([this] { Watch(); });
}

Machine::~Machine() {
  {
    std::lock_guard lock(mutex);
    stop_ = true;
  }
  changed.notify_all();
  if (watcher_.joinable()) watcher_.join();
  for (const ncclComm_t native : communicators) {
    if (failed()) {
      nccl.abort(native);
    } else {
      nccl.destroy(native);
    }
  }
  devices.clear();
}

int64_t Machine::NowNs() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                              opened)
      .count();
}

void Machine::Fail(const Status& status) {
  std::vector<ncclComm_t> open;
  {
    std::lock_guard lock(mutex);
    if (!status_.ok() || status.ok()) return;
    status_ = status;
    failed_.store(true, std::memory_order_release);
    open = communicators;
    communicators.clear();
  }
  changed.notify_all();
  // Kernels that wait for a rank which will not come end with it.
  for (const ncclComm_t native : open) nccl.abort(native);
}

Status Machine::status() {
  std::lock_guard lock(mutex);
  return status_;
}

Status Machine::Poll(const std::function<StatusOr<bool>()>& ready) {
  for (int64_t turn = 0;; ++turn) {
    TL_ASSIGN_OR_RETURN(const bool done, ready());
    if (done) return failed() ? status() : absl::OkStatus();
    if (failed()) return status();
    if (turn > kSpins) std::this_thread::sleep_for(kNap);
  }
}

void Machine::Watch() {
  std::unique_lock lock(mutex);
  while (!stop_) {
    changed.wait_for(lock, kWatch);
    for (const ncclComm_t native : communicators) {
      ncclResult_t result = ncclSuccess;
      if (nccl.async_error(native, &result) == ncclSuccess &&
          (result == ncclSuccess || result == ncclInProgress)) {
        continue;
      }
      const Status error =
          RunError(absl::StrCat("NCCL reports an asynchronous error: ", nccl.error_string(result),
                                "; another rank may have ended, or a link has failed"));
      lock.unlock();
      Fail(error);
      lock.lock();
      break;
    }
  }
}

// ---- Device ----

Status DeviceObject::Open() {
  TL_RETURN_IF_ERROR(MakeCurrent());
  TL_RETURN_IF_ERROR(CudaStatus(cudaStreamCreateWithFlags(&memory_stream, cudaStreamNonBlocking),
                                "cudaStreamCreateWithFlags"));
  int gpus = 0;
  TL_RETURN_IF_ERROR(CudaStatus(cudaGetDeviceCount(&gpus), "cudaGetDeviceCount"));
  // What is reserved here can be read by the GPUs beside it, and freed memory is kept for later.
  cudaMemPool_t pool = nullptr;
  TL_RETURN_IF_ERROR(
      CudaStatus(cudaDeviceGetDefaultMemPool(&pool, ordinal), "cudaDeviceGetDefaultMemPool"));
  uint64_t keep = UINT64_MAX;
  TL_RETURN_IF_ERROR(
      CudaStatus(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep),
                 "cudaMemPoolSetAttribute"));
  for (int other = 0; other < gpus; ++other) {
    int can = 0;
    if (other == ordinal || cudaDeviceCanAccessPeer(&can, other, ordinal) != cudaSuccess ||
        can == 0) {
      continue;
    }
    cudaMemAccessDesc access{};
    access.location = {.type = cudaMemLocationTypeDevice, .id = other};
    access.flags = cudaMemAccessFlagsProtReadWrite;
    TL_RETURN_IF_ERROR(CudaStatus(cudaMemPoolSetAccess(pool, &access, 1), "cudaMemPoolSetAccess"));
  }
  if (!machine->options.exact) {
    const cublasStatus_t made = machine->cublas.create(&cublas);
    if (made != CUBLAS_STATUS_SUCCESS) {
      return RunError(absl::StrCat("cublasLtCreate: status ", static_cast<int>(made)));
    }
  }
  TL_RETURN_IF_ERROR(CudaStatus(cudaEventCreate(&epoch), "cudaEventCreate"));
  TL_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(epoch, memory_stream), "cudaEventRecord"));
  TL_RETURN_IF_ERROR(CudaStatus(cudaEventSynchronize(epoch), "cudaEventSynchronize"));
  epoch_ns = machine->NowNs();
  return absl::OkStatus();
}

DeviceObject::~DeviceObject() {
  streams.clear();  // with their threads
  if (cudaSetDevice(ordinal) != cudaSuccess) return;
  events.clear();
  for (const auto& [memory, reservation] : reservations) {
    if (reservation.space == Space::kDevice) {
      cudaFreeAsync(memory, memory_stream);
    } else {
      cudaFreeHost(memory);
    }
  }
  if (cublas != nullptr) machine->cublas.destroy(cublas);
  for (const Span& span : spans) {
    cudaEventDestroy(span.start);
    cudaEventDestroy(span.end);
  }
  for (const cudaEvent_t event : free_timed) cudaEventDestroy(event);
  for (const cudaEvent_t event : free_untimed) cudaEventDestroy(event);
  if (epoch != nullptr) cudaEventDestroy(epoch);
  if (memory_stream != nullptr) {
    cudaStreamSynchronize(memory_stream);
    cudaStreamDestroy(memory_stream);
  }
}

StatusOr<cudaEvent_t> DeviceObject::TakeEvent(bool timed) {
  {
    std::lock_guard lock(mutex);
    std::vector<cudaEvent_t>& free = timed ? free_timed : free_untimed;
    if (!free.empty()) {
      const cudaEvent_t event = free.back();
      free.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  TL_RETURN_IF_ERROR(CudaStatus(
      cudaEventCreateWithFlags(&event, timed ? cudaEventDefault : cudaEventDisableTiming),
      "cudaEventCreateWithFlags"));
  return event;
}

void DeviceObject::GiveBack(cudaEvent_t event, bool timed) {
  std::lock_guard lock(mutex);
  (timed ? free_timed : free_untimed).push_back(event);
}

StatusOr<MarkPtr> DeviceObject::MakeMark() {
  auto mark = std::make_shared<Mark>();
  mark->device = this;
  TL_ASSIGN_OR_RETURN(mark->native, TakeEvent(false));
  return mark;
}

Mark::~Mark() {
  if (native != nullptr) device->GiveBack(native, false);
}

Status DeviceObject::Timed(uint64_t tag, cudaStream_t native, const std::function<Status()>& work) {
  Span span{.tag = tag};
  TL_ASSIGN_OR_RETURN(span.start, TakeEvent(true));
  TL_ASSIGN_OR_RETURN(span.end, TakeEvent(true));
  TL_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(span.start, native), "cudaEventRecord"));
  TL_RETURN_IF_ERROR(work());
  TL_RETURN_IF_ERROR(CudaStatus(cudaEventRecord(span.end, native), "cudaEventRecord"));
  std::lock_guard lock(mutex);
  spans.push_back(span);
  return absl::OkStatus();
}

// ---- Streams ----

StreamObject::~StreamObject() {
  if (thread.joinable()) {
    {
      std::lock_guard lock(mutex);
      stop = true;
    }
    changed.notify_all();
    thread.join();
  }
  if (native != nullptr && cudaSetDevice(device->ordinal) == cudaSuccess) {
    cudaStreamDestroy(native);
  }
}

Status StreamObject::Give(Item item) {
  if (device->machine->failed()) return device->machine->status();
  if (!thread.joinable() || own_stream == this) {
    TL_RETURN_IF_ERROR(device->MakeCurrent());
    return item(native);
  }
  {
    std::lock_guard lock(mutex);
    items.push_back(std::move(item));
  }
  changed.notify_all();
  return absl::OkStatus();
}

void StreamObject::Work() {
  own_stream = this;
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [this] { return stop || !items.empty(); });
    if (items.empty()) return;
    const Item item = std::move(items.front());
    items.pop_front();
    busy = true;
    lock.unlock();
    Status status = device->machine->status();
    if (status.ok()) status = device->MakeCurrent();
    if (status.ok()) status = item(native);
    if (!status.ok()) device->machine->Fail(status);
    lock.lock();
    busy = false;
  }
}

bool StreamObject::Idle() {
  std::lock_guard lock(mutex);
  return items.empty() && !busy;
}

}  // namespace tideline
