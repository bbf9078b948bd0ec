// Machine and the objects behind the facade's handles, as the CUDA backend has them.
//
// A device's streams, events and reservations belong to its rank's host thread; what streams' own
// threads (kCopy) share with it locks. Status, hosts, groups and the watcher are the machine's,
// under its mutex.
#ifndef TIDELINE_EXEC_CUDA_MACHINE_H_
#define TIDELINE_EXEC_CUDA_MACHINE_H_

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "exec/cuda/cuda.h"
#include "exec/cuda/libraries.h"
#include "exec/device/device.h"
#include "exec/emulator/meeting.h"

namespace tideline {

class Machine;

// The end of the work given to a stream up to one point.
struct Mark {
  DeviceObject* device = nullptr;
  cudaEvent_t native = nullptr;       // null: of the host, over when it was made
  std::atomic<bool> recorded{false};  // with kCopy a stream's thread records later
  ~Mark();
};
using MarkPtr = std::shared_ptr<Mark>;

struct StreamObject {
  // One piece of work: on the rank's thread, or with kCopy on the stream's.
  using Item = std::function<Status(cudaStream_t native)>;

  ~StreamObject();
  // Does `item` now or hands it to the stream's thread. Errors: the run's; the item's.
  Status Give(Item item);

  DeviceObject* device = nullptr;
  std::string name;
  cudaStream_t native = nullptr;
  void* workspace = nullptr;  // of cuBLASLt, reserved at the first product
  bool meeting = false;       // launches are parts of a collective, which is timed as a whole
  bool grouping = false;
  std::vector<Post> group;            // kCopy
  cudaEvent_t group_start = nullptr;  // kNccl
  std::vector<uint64_t> group_tags;

  // The stream's thread, with kCopy.
  void Work();
  bool Idle();
  std::thread thread;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Item> items;
  bool busy = false;
  bool stop = false;
};

struct EventObject {
  DeviceObject* device = nullptr;
  MarkPtr mark;  // null: never recorded
};

struct CommunicatorObject {
  DeviceObject* device = nullptr;
  const CommunicatorGroup* group = nullptr;
  int32_t member = 0;
  ncclComm_t native = nullptr;  // kNccl, made at the first use
  uint64_t calls = 0;
  std::map<int32_t, uint64_t> sent, received;  // messages by peer
};

struct Reservation {
  Space space = Space::kDevice;
  Category category = Category::kActivation;
  int64_t bytes = 0;
};

// An operation under way, timed by two events.
struct Span {
  uint64_t tag = 0;
  cudaEvent_t start = nullptr;
  cudaEvent_t end = nullptr;
};

using GemmKey = std::array<int64_t, 19>;

struct DeviceObject {
  ~DeviceObject();
  Status Open();
  Status MakeCurrent() const { return CudaStatus(cudaSetDevice(ordinal), "cudaSetDevice"); }
  StatusOr<cudaEvent_t> TakeEvent(bool timed);
  void GiveBack(cudaEvent_t event, bool timed);
  StatusOr<MarkPtr> MakeMark();
  // Runs `work` between two events, as an operation of `tag`.
  Status Timed(uint64_t tag, cudaStream_t native, const std::function<Status()>& work);

  Machine* machine = nullptr;
  int index = 0;
  int ordinal = 0;  // of the GPU
  cudaStream_t memory_stream = nullptr;
  cublasLtHandle_t cublas = nullptr;
  cudaEvent_t epoch = nullptr;  // the GPU's clock at epoch_ns of the machine's
  int64_t epoch_ns = 0;
  std::map<void*, Reservation> reservations;
  std::vector<std::unique_ptr<StreamObject>> streams;
  std::vector<std::unique_ptr<EventObject>> events;
  std::vector<std::unique_ptr<CommunicatorObject>> communicators;
  std::mutex mutex;  // of all below
  std::vector<cudaEvent_t> free_timed, free_untimed;
  std::vector<Span> spans;
  std::map<GemmKey, cublasLtMatmulAlgo_t> algorithms;
};

// With kCopy: where the members of a collective, or two ends of a message, come together.
struct CopyMeeting {
  std::vector<Post> posts;
  std::vector<MarkPtr> arrivals;  // what each member's stream had before
  MarkPtr done;
};

class Machine {
 public:
  explicit Machine(const CudaOptions& cuda_options);
  ~Machine();

  bool copies() const { return options.communication == CommunicationWay::kCopy; }
  int64_t NowNs() const;
  void Fail(const Status& status);
  Status status();
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // Waits until ready() holds, looking at the run's status in between.
  Status Poll(const std::function<StatusOr<bool>()>& ready);

  // Makes the communicator's NCCL object if it has none yet.
  Status OpenNative(CommunicatorObject& communicator);
  // A result of NCCL that may be "in progress", waited for.
  Status Await(ncclResult_t result, ncclComm_t native, const char* call);

  const CudaOptions options;
  CublasLt cublas;
  Nccl nccl;
  std::vector<std::unique_ptr<DeviceObject>> devices;
  const std::chrono::steady_clock::time_point opened;

  std::mutex mutex;  // of all below
  std::condition_variable changed;
  std::map<std::string, std::unique_ptr<CommunicatorGroup>> groups;
  std::map<std::string, ncclUniqueId> unique_ids;
  std::vector<ncclComm_t> communicators;
  std::map<MeetingKey, std::shared_ptr<CopyMeeting>> meetings;
  int hosts = 0;
  int barrier_arrived = 0;
  uint64_t barrier_round = 0;

 private:
  void Watch();

  Status status_;
  std::atomic<bool> failed_{false};
  bool stop_ = false;
  std::thread watcher_;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_CUDA_MACHINE_H_
