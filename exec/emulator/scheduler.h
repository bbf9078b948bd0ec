// Scheduler: runs the operations of all emulated devices' streams on a few worker threads.
//
// A stream is a queue; its head is *ready* when nothing holds it up: a signal that it waits for is
// given, or every member of its meeting has posted. Three policies draw from the ready heads:
//   concurrent  any of them, as many at a time as there are workers;
//   seeded      one at a time, drawn by a seeded generator, and only while every host thread waits:
//               then the ready heads do not depend on how fast the hosts were, and a run can be
//               repeated exactly;
//   serial      only the operation that was given first among the unfinished ones of its device.
// When every host thread waits and nothing is ready or running, the run is stuck: it fails with a
// report of who waits for what, and so does any disagreement in a meeting. After a failure nothing
// more starts, and hosts return its status once the operations under way have ended.
//
// One mutex guards everything; operations are kernels of microseconds and more. Cost per operation:
// O(streams). Safe from any thread.
#ifndef TIDELINE_EXEC_EMULATOR_SCHEDULER_H_
#define TIDELINE_EXEC_EMULATOR_SCHEDULER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/rng.h"
#include "base/status.h"
#include "exec/device/device.h"
#include "exec/emulator/emulator.h"
#include "exec/emulator/meeting.h"

namespace tideline {

// The end of the work given to a stream up to one point.
struct Signal {
  const char* name = "";  // of the event, which lives as long as the machine
  bool done = false;      // guarded by the scheduler's mutex
};
using SignalPtr = std::shared_ptr<Signal>;

class Scheduler {
 public:
  struct Settings {
    int devices = 1;
    SchedulePolicy policy = SchedulePolicy::kConcurrent;
    uint64_t seed = 0;
    int workers = 0;  // 0: one per core
    bool copy_collectives = false;
  };

  explicit Scheduler(const Settings& settings);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // Streams of a device are numbered in the order in which they are added.
  int AddStream(int device, std::string_view name);

  Status Run(int device, int stream, const char* name, uint64_t tag, std::function<void()> run);
  Status Meet(int device, int stream, const char* name, uint64_t tag, std::vector<Post> posts);
  Status Record(int device, int stream, SignalPtr signal);
  Status Wait(int device, int stream, SignalPtr signal);

  // Host waits. Each returns the run's status.
  Status WaitForSignal(int device, const SignalPtr& signal);
  Status WaitForStream(int device, int stream);
  Status WaitForDevice(int device);
  Status Barrier(int device, const char* what);

  void BeginHosts(int count);
  void EndHost();

  void Fail(const Status& status);
  Status status() const;
  // Returns when no operation is under way after a failure; at once without one.
  void WaitUntilQuiet();

  int64_t NowNs() const;
  std::vector<OperationTime> TakeTimes(int device);

 private:
  enum class ItemKind : uint8_t { kRun, kMeet, kRecord, kWait };
  struct Item {
    ItemKind kind = ItemKind::kRun;
    const char* name = "";
    uint64_t tag = 0;
    uint64_t sequence = 0;  // on its device
    std::function<void()> run;
    SignalPtr signal;
    std::vector<Post> posts;
    bool started = false;  // running, or posted
    size_t open_meetings = 0;
    int64_t ready_ns = 0;
    int64_t start_ns = 0;
  };
  struct StreamState {
    std::string name;
    std::deque<Item> items;
  };
  struct DeviceState {
    std::vector<StreamState> streams;
    uint64_t given = 0;
    uint64_t finished = 0;
    std::vector<OperationTime> times;
  };
  struct Place {
    int device = 0;
    int stream = 0;
    auto operator<=>(const Place&) const = default;
  };
  struct Meeting {
    std::vector<Post> posts;
    std::vector<Place> places;
    bool started = false;
  };
  // One thing a worker can do: a kRun head, or a full meeting.
  struct Job {
    Place place;  // for a meeting, the first of its places
    const MeetingKey* meeting = nullptr;
  };
  struct Waiter {
    int device = 0;
    std::function<bool()> ready;
    std::string what;
    bool released = false;
  };

  Status Give(int device, int stream, Item item);
  Status WaitHost(std::unique_lock<std::mutex>& lock, Waiter waiter);

  // All below hold the mutex.
  StreamState& At(Place place) { return devices_[place.device].streams[place.stream]; }
  bool Eligible(const DeviceState& device, const Item& item) const;
  bool AdvanceHead(Place place);  // true when something changed for others
  void AdvanceAll();
  void Pop(Place place);
  void PostAll(Place place);
  void ReleaseHosts();
  void FailLocked(const Status& status);
  bool MayStart() const;
  std::vector<Job> ReadyJobs();
  bool PickJob(Job* job);
  void RunJob(std::unique_lock<std::mutex>& lock, const Job& job);
  void CheckStuck();
  std::string StuckReport();
  std::string WhyHeld(int device, const StreamState& stream);
  void Work();

  const Settings settings_;
  const std::chrono::steady_clock::time_point opened_;
  mutable std::mutex mutex_;
  std::condition_variable work_, hosts_released_;
  std::vector<DeviceState> devices_;
  std::map<MeetingKey, Meeting> meetings_;
  std::vector<Waiter*> waiters_;
  Status status_;
  int hosts_ = 0;
  int blocked_ = 0;
  int running_ = 0;
  int barrier_arrived_ = 0;
  uint64_t barrier_round_ = 0;
  size_t turn_ = 0;
  bool stop_ = false;
  Rng rng_;
  std::vector<std::thread> workers_;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_EMULATOR_SCHEDULER_H_
