#include "exec/launch/worker_client.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

extern char** environ;

namespace tideline {
namespace {

constexpr int kBoardDescriptor = 3;   // in the worker
constexpr int kLeastDescriptor = 10;  // ours stay clear of the worker's 0 to 3

void CloseOnce(int& descriptor) {
  if (descriptor >= 0) close(descriptor);
  descriptor = -1;
}

// A pipe whose ends are not inherited; false with errno set.
bool MakePipe(int& read_end, int& write_end) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  read_end = fcntl(ends[0], F_DUPFD_CLOEXEC, kLeastDescriptor);
  write_end = fcntl(ends[1], F_DUPFD_CLOEXEC, kLeastDescriptor);
  close(ends[0]);
  close(ends[1]);
  return read_end >= 0 && write_end >= 0;
}

// Writes to a worker that died must be errors, not SIGPIPE; the caller's handling is kept.
class PipeSignalGuard {
 public:
  PipeSignalGuard() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &ignore, &before_);
  }
  ~PipeSignalGuard() { sigaction(SIGPIPE, &before_, nullptr); }

 private:
  struct sigaction before_ {};
};

// Turns the worker's frames into calls of the hooks.
class FrameTaker {
 public:
  explicit FrameTaker(const WorkerHooks& hooks) : hooks_(hooks) {}

  // True when this was the last frame.
  StatusOr<bool> Take(const Frame& frame) {
    if (!greeted_ && frame.type != FrameType::kHello && frame.type != FrameType::kFailure) {
      return InputError("the worker did not say which version it speaks");
    }
    switch (frame.type) {
      case FrameType::kHello:
        greeted_ = true;
        TL_RETURN_IF_ERROR(CheckHello(frame.payload));
        return false;
      case FrameType::kNote:
        if (hooks_.observer != nullptr) hooks_.observer->OnNote(frame.payload);
        return false;
      case FrameType::kStep: {
        TL_ASSIGN_OR_RETURN(const StepResult step, DecodeStep(frame.payload));
        if (hooks_.observer != nullptr) hooks_.observer->OnStep(step);
        return false;
      }
      case FrameType::kName:
        names_.push_back(hooks_.sink == nullptr ? 0 : hooks_.sink->Intern(frame.payload));
        return false;
      case FrameType::kLane: {
        TL_ASSIGN_OR_RETURN(const LaneMessage lane, DecodeLane(frame.payload));
        if (hooks_.sink != nullptr) hooks_.sink->DeclareLane(lane.rank, lane.lane, lane.name);
        return false;
      }
      case FrameType::kEvents:
        TL_RETURN_IF_ERROR(TakeEvents(frame.payload));
        return false;
      case FrameType::kSamples: {
        TL_ASSIGN_OR_RETURN(const std::vector<MemorySample> samples, DecodeSamples(frame.payload));
        if (hooks_.sink == nullptr) return false;
        for (const MemorySample& sample : samples) hooks_.sink->Add(sample);
        return false;
      }
      case FrameType::kReport: {
        TL_ASSIGN_OR_RETURN(report_, DecodeReport(frame.payload));
        return true;
      }
      case FrameType::kFailure:
        failure_ = DecodeFailure(frame.payload);
        return true;
      case FrameType::kRequest:
        break;
    }
    return InputError("the worker sent a request instead of an answer");
  }

  StatusOr<RunReport> Result() {
    TL_RETURN_IF_ERROR(failure_);
    return std::move(report_);
  }

 private:
  Status TakeEvents(std::string_view payload) {
    TL_ASSIGN_OR_RETURN(const std::vector<RunEvent> events, DecodeEvents(payload));
    if (hooks_.sink == nullptr) return absl::OkStatus();
    for (RunEvent event : events) {
      if (event.name >= names_.size()) return InputError("the worker used a name it never gave");
      event.name = names_[event.name];
      hooks_.sink->Add(event);
    }
    return absl::OkStatus();
  }

  const WorkerHooks& hooks_;
  bool greeted_ = false;
  std::vector<uint32_t> names_;  // of the sink, by the worker's number
  Status failure_;
  RunReport report_;
};

}  // namespace

StatusOr<std::string> FindWorker(const std::string& name) {
  std::string self(4096, '\0');
  const ssize_t length = readlink("/proc/self/exe", self.data(), self.size());
  if (length <= 0) return UnavailableError("this program's own path cannot be read");
  self.resize(static_cast<size_t>(length));
  const std::string folder = self.substr(0, self.rfind('/'));
  const std::string places[] = {folder + "/" + name, folder + "/../exec/worker/" + name};
  for (const std::string& place : places) {
    if (access(place.c_str(), X_OK) == 0) return place;
  }
  return UnavailableError(absl::StrCat("the program '", name, "' is neither at ", places[0],
                                       " nor at ", places[1], "; build //exec/worker:", name));
}

WorkerClient::WorkerClient(const Program& program, PositionBoard board)
    : program_(&program), board_(std::move(board)) {}

WorkerClient::WorkerClient(WorkerClient&& other) noexcept
    : program_(other.program_),
      board_(std::move(other.board_)),
      pid_(std::exchange(other.pid_, -1)),
      to_worker_(std::exchange(other.to_worker_, -1)),
      from_worker_(std::exchange(other.from_worker_, -1)),
      sent_(std::move(other.sent_)) {}

WorkerClient::~WorkerClient() {
  CloseOnce(to_worker_);
  CloseOnce(from_worker_);
  if (pid_ < 0) return;
  Kill();
  Reap();
}

StatusOr<WorkerClient> WorkerClient::Start(const std::string& path, const WorkerRequest& request,
                                           const Program& program) {
  TL_ASSIGN_OR_RETURN(PositionBoard board, PositionBoard::Create(std::max<int>(
                                               1, static_cast<int>(program.ranks.size()))));
  WorkerClient client(program, std::move(board));
  TL_RETURN_IF_ERROR(client.Spawn(path));
  // A worker that dies while it is sent the request still gets its report from Wait().
  client.sent_ = client.Send(request);
  return client;
}

Status WorkerClient::Spawn(const std::string& path) {
  int worker_reads = -1, worker_writes = -1;
  const bool piped = MakePipe(worker_reads, to_worker_) && MakePipe(from_worker_, worker_writes);
  const int board = fcntl(board_.descriptor(), F_DUPFD_CLOEXEC, kLeastDescriptor);
  int error = piped && board >= 0 ? 0 : errno;
  if (error == 0) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, worker_reads, 0);
    posix_spawn_file_actions_adddup2(&actions, worker_writes, 1);
    posix_spawn_file_actions_adddup2(&actions, board, kBoardDescriptor);
    std::string program = path;
    std::string flag = "--parent";
    std::string parent = absl::StrCat(getpid());
    char* arguments[] = {program.data(), flag.data(), parent.data(), nullptr};
    error = posix_spawn(&pid_, path.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
  }
  for (const int descriptor : {worker_reads, worker_writes, board}) {
    if (descriptor >= 0) close(descriptor);
  }
  if (error == 0) return absl::OkStatus();
  pid_ = -1;
  return UnavailableError(
      absl::StrCat("worker '", path, "' cannot be started: ", std::strerror(error)));
}

Status WorkerClient::Send(const WorkerRequest& request) {
  const PipeSignalGuard guard;
  Status status = WriteFrame(to_worker_, FrameType::kRequest, EncodeRequest(request));
  CloseOnce(to_worker_);
  return status;
}

StatusOr<RunReport> WorkerClient::Wait(const WorkerHooks& hooks) {
  FrameTaker taker(hooks);
  for (;;) {
    bool ended = false;
    StatusOr<Frame> frame = ReadFrame(from_worker_, &ended);
    if (!frame.ok() || ended) {
      return Death(frame.ok() ? "" : std::string(frame.status().message()));
    }
    StatusOr<bool> last = taker.Take(*frame);
    if (!last.ok()) {
      Kill();
      Reap();
      return last.status();
    }
    if (*last) break;
  }
  // What it said counts, not how the process ended after saying it.
  Reap();
  return taker.Result();
}

Status WorkerClient::Death(const std::string& what) {
  if (!what.empty()) Kill();
  std::string how = Reap();
  if (how.empty()) how = "ended without a report";
  std::string message = absl::StrCat("the worker ", how);
  if (!what.empty()) absl::StrAppend(&message, " (", what, ")");
  if (!sent_.ok()) absl::StrAppend(&message, "; the request could not be sent");
  absl::StrAppend(&message, ". Where the ranks were:", Positions());
  return RunError(message);
}

std::string WorkerClient::Positions() const {
  std::string lines;
  for (size_t rank = 0; rank < program_->ranks.size(); ++rank) {
    const int index = static_cast<int>(rank);
    absl::StrAppend(&lines, "\n  ", PositionLine(*program_, index, board_.Get(index)));
  }
  return lines;
}

void WorkerClient::Kill() {
  if (pid_ >= 0) kill(pid_, SIGKILL);
}

std::string WorkerClient::Reap() {
  if (pid_ < 0) return "is gone";
  int result = 0;
  while (waitpid(pid_, &result, 0) < 0) {
    if (errno != EINTR) return "is gone";
  }
  pid_ = -1;
  if (WIFSIGNALED(result)) {
    return absl::StrCat("was killed by signal ", WTERMSIG(result), " (",
                        strsignal(WTERMSIG(result)), ")");
  }
  const int code = WEXITSTATUS(result);
  return code == 0 ? "" : absl::StrCat("exited with ", code);
}

StatusOr<RunReport> RunWorker(const std::string& path, const WorkerRequest& request,
                              const Program& program, const WorkerHooks& hooks) {
  TL_ASSIGN_OR_RETURN(WorkerClient client, WorkerClient::Start(path, request, program));
  return client.Wait(hooks);
}

}  // namespace tideline
