#include "exec/emulator/scheduler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "exec/comm/copy_collective.h"

namespace tideline {
namespace {

// A collective by the kernels of --comm copy, one pass after the other.
Status RunByCopies(const std::vector<Post>& posts) {
  std::vector<MemberBuffers> members(posts.size());
  for (const Post& post : posts) members[post.member] = {post.input, post.output};
  const Collective& collective = posts[0].collective;
  TL_ASSIGN_OR_RETURN(const std::vector<CopyPass> passes, CopyPasses(collective, members));
  for (const CopyPass& pass : passes) RunCopyPass(pass, collective.dtype);
  return absl::OkStatus();
}

}  // namespace

Scheduler::Scheduler(const Settings& settings)
    : settings_(settings),
      opened_(std::chrono::steady_clock::now()),
      devices_(settings.devices),
      rng_(settings.seed, "schedule") {
  int workers = settings.workers;
  if (workers <= 0) workers = static_cast<int>(std::thread::hardware_concurrency());
  if (workers < 1 || settings.policy == SchedulePolicy::kSeeded) workers = 1;
  for (int i = 0; i < workers; ++i) workers_.emplace_back([this] { Work(); });
}

Scheduler::~Scheduler() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  work_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

int64_t Scheduler::NowNs() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() -
                                                              opened_)
      .count();
}

int Scheduler::AddStream(int device, std::string_view name) {
  std::lock_guard lock(mutex_);
  std::vector<StreamState>& streams = devices_[device].streams;
  streams.emplace_back().name = std::string(name);
  return static_cast<int>(streams.size()) - 1;
}

// ---- Giving work ----

Status Scheduler::Run(int device, int stream, const char* name, uint64_t tag,
                      std::function<void()> run) {
  Item item;
  item.name = name;
  item.tag = tag;
  item.run = std::move(run);
  return Give(device, stream, std::move(item));
}

Status Scheduler::Meet(int device, int stream, const char* name, uint64_t tag,
                       std::vector<Post> posts) {
  Item item;
  item.kind = ItemKind::kMeet;
  item.name = name;
  item.tag = tag;
  item.posts = std::move(posts);
  return Give(device, stream, std::move(item));
}

Status Scheduler::Record(int device, int stream, SignalPtr signal) {
  Item item;
  item.kind = ItemKind::kRecord;
  item.signal = std::move(signal);
  return Give(device, stream, std::move(item));
}

Status Scheduler::Wait(int device, int stream, SignalPtr signal) {
  Item item;
  item.kind = ItemKind::kWait;
  item.signal = std::move(signal);
  return Give(device, stream, std::move(item));
}

Status Scheduler::Give(int device, int stream, Item item) {
  std::lock_guard lock(mutex_);
  if (!status_.ok()) return status_;
  item.sequence = devices_[device].given++;
  StreamState& state = devices_[device].streams[stream];
  state.items.push_back(std::move(item));
  if (state.items.size() > 1) return absl::OkStatus();
  const Place place = {device, stream};
  if (AdvanceHead(place)) AdvanceAll();
  work_.notify_one();
  return status_;
}

// ---- Progress of the heads ----

bool Scheduler::Eligible(const DeviceState& device, const Item& item) const {
  return settings_.policy != SchedulePolicy::kSerial || item.sequence == device.finished;
}

void Scheduler::Pop(Place place) {
  At(place).items.pop_front();
  ++devices_[place.device].finished;
}

bool Scheduler::AdvanceHead(Place place) {
  bool changed = false;
  StreamState& stream = At(place);
  while (!stream.items.empty() && status_.ok()) {
    Item& head = stream.items.front();
    if (!Eligible(devices_[place.device], head)) return changed;
    switch (head.kind) {
      case ItemKind::kRun:
        return changed;
      case ItemKind::kMeet:
        if (!head.started) {
          PostAll(place);
          changed = true;
        }
        return changed;
      case ItemKind::kWait:
        if (!head.signal->done) return changed;
        break;
      case ItemKind::kRecord:
        head.signal->done = true;
        break;
    }
    Pop(place);
    changed = true;
  }
  return changed;
}

void Scheduler::AdvanceAll() {
  for (bool changed = true; changed;) {
    changed = false;
    for (int device = 0; device < settings_.devices; ++device) {
      const int streams = static_cast<int>(devices_[device].streams.size());
      for (int stream = 0; stream < streams; ++stream) {
        changed = AdvanceHead({device, stream}) || changed;
      }
    }
  }
  ReleaseHosts();
}

void Scheduler::PostAll(Place place) {
  Item& head = At(place).items.front();
  head.started = true;
  head.ready_ns = NowNs();
  head.open_meetings = head.posts.size();
  for (const Post& post : head.posts) {
    Meeting& meeting = meetings_[post.key];
    meeting.posts.push_back(post);
    meeting.places.push_back(place);
    if (static_cast<int32_t>(meeting.posts.size()) < MembersOf(post)) continue;
    std::sort(meeting.places.begin(), meeting.places.end());
    const Status agreed = CheckMeeting(meeting.posts);
    if (!agreed.ok()) return FailLocked(agreed);
  }
}

void Scheduler::ReleaseHosts() {
  for (Waiter* waiter : waiters_) {
    if (waiter->released || !waiter->ready()) continue;
    waiter->released = true;
    --blocked_;
    hosts_released_.notify_all();
  }
}

// ---- Workers ----

bool Scheduler::MayStart() const {
  if (!status_.ok()) return false;
  // One at a time, and not before the ready heads stopped depending on the hosts' speed.
  return settings_.policy != SchedulePolicy::kSeeded ||
         (running_ == 0 && blocked_ >= std::max(1, hosts_));
}

std::vector<Scheduler::Job> Scheduler::ReadyJobs() {
  std::vector<Job> jobs;
  for (int device = 0; device < settings_.devices; ++device) {
    DeviceState& state = devices_[device];
    for (size_t stream = 0; stream < state.streams.size(); ++stream) {
      const std::deque<Item>& items = state.streams[stream].items;
      if (items.empty()) continue;
      const Item& head = items.front();
      if (head.kind == ItemKind::kRun && !head.started && Eligible(state, head)) {
        jobs.push_back({{device, static_cast<int>(stream)}, nullptr});
      }
    }
  }
  for (const auto& [key, meeting] : meetings_) {
    if (!meeting.started &&
        static_cast<int32_t>(meeting.posts.size()) == MembersOf(meeting.posts[0])) {
      jobs.push_back({meeting.places[0], &key});
    }
  }
  // The map's order is that of addresses; places are the same in every run. Meetings at one place
  // (a group of messages) are told apart by their pair and number.
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
    if (a.place != b.place) return a.place < b.place;
    if (a.meeting == nullptr || b.meeting == nullptr) return a.meeting == nullptr && b.meeting;
    if (a.meeting->group->name != b.meeting->group->name) {
      return a.meeting->group->name < b.meeting->group->name;
    }
    return *a.meeting < *b.meeting;
  });
  return jobs;
}

bool Scheduler::PickJob(Job* job) {
  if (!MayStart()) return false;
  const std::vector<Job> jobs = ReadyJobs();
  if (jobs.empty()) return false;
  // Concurrent runs go round the streams, so that none starves.
  *job = settings_.policy == SchedulePolicy::kSeeded ? jobs[rng_.Below(jobs.size())]
                                                     : jobs[turn_++ % jobs.size()];
  return true;
}

void Scheduler::RunJob(std::unique_lock<std::mutex>& lock, const Job& job) {
  ++running_;
  const int64_t start = NowNs();
  if (job.meeting == nullptr) {
    // References into a deque stay valid while items are appended.
    Item& item = At(job.place).items.front();
    item.started = true;
    lock.unlock();
    if (item.run) item.run();
    item.run = nullptr;
    lock.lock();
    devices_[job.place.device].times.push_back({item.tag, start, start, NowNs()});
    Pop(job.place);
  } else {
    const auto found = meetings_.find(*job.meeting);
    Meeting& meeting = found->second;
    meeting.started = true;
    const bool copies =
        settings_.copy_collectives && meeting.posts[0].kind == PostKind::kCollective;
    lock.unlock();
    const Status copied = copies ? RunByCopies(meeting.posts) : absl::OkStatus();
    if (!copies) RunMeeting(meeting.posts);
    lock.lock();
    if (!copied.ok()) FailLocked(copied);
    const int64_t end = NowNs();
    for (size_t i = 0; i < meeting.places.size(); ++i) {
      const Place place = meeting.places[i];
      Item& item = At(place).items.front();
      if (item.start_ns == 0) item.start_ns = start;
      if (--item.open_meetings > 0) continue;
      devices_[place.device].times.push_back({item.tag, item.ready_ns, item.start_ns, end});
      Pop(place);
    }
    meetings_.erase(found);
  }
  --running_;
  AdvanceAll();
  CheckStuck();
  if (!status_.ok()) hosts_released_.notify_all();
  work_.notify_all();
}

void Scheduler::Work() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    Job job;
    if (PickJob(&job)) {
      RunJob(lock, job);
    } else {
      work_.wait(lock);
    }
  }
}

// ---- Hosts ----

Status Scheduler::WaitHost(std::unique_lock<std::mutex>& lock, Waiter waiter) {
  if (status_.ok() && !waiter.ready()) {
    waiters_.push_back(&waiter);
    ++blocked_;
    CheckStuck();
    work_.notify_all();
    hosts_released_.wait(lock, [&] { return waiter.released || !status_.ok(); });
    if (!waiter.released) --blocked_;
    waiters_.erase(std::find(waiters_.begin(), waiters_.end(), &waiter));
  }
  // Memory that an operation under way still uses must not go away under it.
  if (!status_.ok()) hosts_released_.wait(lock, [&] { return running_ == 0; });
  return status_;
}

Status Scheduler::WaitForSignal(int device, const SignalPtr& signal) {
  std::unique_lock lock(mutex_);
  return WaitHost(lock, {device, [signal] { return signal->done; },
                         absl::StrCat("event '", signal->name, "'")});
}

Status Scheduler::WaitForStream(int device, int stream) {
  std::unique_lock lock(mutex_);
  const auto empty = [this, device, stream] {
    return devices_[device].streams[stream].items.empty();
  };
  return WaitHost(
      lock, {device, empty, absl::StrCat("stream '", devices_[device].streams[stream].name, "'")});
}

Status Scheduler::WaitForDevice(int device) {
  std::unique_lock lock(mutex_);
  const auto empty = [this, device] { return devices_[device].finished == devices_[device].given; };
  return WaitHost(lock, {device, empty, "the end of all its work"});
}

Status Scheduler::Barrier(int device, const char* what) {
  std::unique_lock lock(mutex_);
  const uint64_t round = barrier_round_;
  if (++barrier_arrived_ >= hosts_) {
    barrier_arrived_ = 0;
    ++barrier_round_;
    ReleaseHosts();
    return status_;
  }
  return WaitHost(lock, {device, [this, round] { return barrier_round_ != round; },
                         absl::StrCat("the other ranks at '", what, "'")});
}

void Scheduler::BeginHosts(int count) {
  std::lock_guard lock(mutex_);
  hosts_ += count;
}

void Scheduler::EndHost() {
  std::lock_guard lock(mutex_);
  TL_CHECK(hosts_ > 0, "a host thread ends once");
  --hosts_;
  CheckStuck();
  work_.notify_all();
}

// ---- Failure ----

void Scheduler::FailLocked(const Status& status) {
  TL_CHECK(!status.ok(), "a failure has a reason");
  if (!status_.ok()) return;
  status_ = status;
  hosts_released_.notify_all();
}

void Scheduler::Fail(const Status& status) {
  std::lock_guard lock(mutex_);
  FailLocked(status);
}

Status Scheduler::status() const {
  std::lock_guard lock(mutex_);
  return status_;
}

void Scheduler::WaitUntilQuiet() {
  std::unique_lock lock(mutex_);
  if (!status_.ok()) hosts_released_.wait(lock, [&] { return running_ == 0; });
}

void Scheduler::CheckStuck() {
  if (!status_.ok() || running_ > 0 || blocked_ == 0 || blocked_ < hosts_) return;
  if (ReadyJobs().empty()) FailLocked(RunError(StuckReport()));
}

std::string Scheduler::WhyHeld(int device, const StreamState& stream) {
  const Item& head = stream.items.front();
  const DeviceState& state = devices_[device];
  if (!Eligible(state, head)) return "its turn in serial order";
  if (head.kind == ItemKind::kWait) return absl::StrCat("event '", head.signal->name, "'");
  if (head.kind != ItemKind::kMeet) return "a worker";
  std::string text = absl::StrCat("the partners of '", head.name, "' (instruction ", head.tag, ")");
  for (const Post& post : head.posts) {
    const auto found = meetings_.find(post.key);
    if (found == meetings_.end()) continue;
    const std::vector<Post>& posts = found->second.posts;
    const std::vector<int32_t>& members = post.key.group->devices;
    for (int32_t member = 0; member < static_cast<int32_t>(members.size()); ++member) {
      const bool expected =
          post.kind == PostKind::kCollective || member == post.key.from || member == post.key.to;
      const bool here = std::any_of(posts.begin(), posts.end(),
                                    [&](const Post& p) { return p.member == member; });
      if (expected && !here) absl::StrAppend(&text, ", rank ", members[member], " has not come");
    }
  }
  return text;
}

std::string Scheduler::StuckReport() {
  std::string report = "the run is stuck: every rank waits and nothing can start";
  for (int device = 0; device < settings_.devices; ++device) {
    absl::StrAppend(&report, "\n  rank ", device, ":");
    const char* separator = " ";
    for (const Waiter* waiter : waiters_) {
      if (waiter->device != device || waiter->released) continue;
      absl::StrAppend(&report, separator, "its host waits for ", waiter->what);
      separator = "; ";
    }
    for (const StreamState& stream : devices_[device].streams) {
      if (stream.items.empty()) continue;
      absl::StrAppend(&report, separator, "stream '", stream.name, "' waits for ",
                      WhyHeld(device, stream));
      separator = "; ";
    }
    if (*separator == ' ') absl::StrAppend(&report, " has ended or has no work");
  }
  return report;
}

std::vector<OperationTime> Scheduler::TakeTimes(int device) {
  std::lock_guard lock(mutex_);
  return std::exchange(devices_[device].times, {});
}

}  // namespace tideline
