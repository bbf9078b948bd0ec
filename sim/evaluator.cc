#include "sim/evaluator.h"

#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

// Writes all of it; false when the other end is gone.
bool WriteAll(int file, const void* data, size_t bytes) {
  const char* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t written = send(file, at, bytes, MSG_NOSIGNAL);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    at += written;
    bytes -= static_cast<size_t>(written);
  }
  return true;
}

bool ReadAll(int file, void* data, size_t bytes) {
  char* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = read(file, at, bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

// A frame is the code of a Status (0: ok), a length, and that many bytes.
struct FrameHead {
  int32_t code = 0;
  uint64_t bytes = 0;
};

bool WriteFrame(int file, int32_t code, std::string_view text) {
  FrameHead head;
  std::memset(static_cast<void*>(&head), 0, sizeof(head));  // padding goes over the wire too
  head.code = code;
  head.bytes = text.size();
  return WriteAll(file, &head, sizeof(head)) && WriteAll(file, text.data(), text.size());
}

bool ReadFrame(int file, int32_t& code, std::string& text) {
  FrameHead head;
  if (!ReadAll(file, &head, sizeof(head))) return false;
  code = head.code;
  text.resize(head.bytes);
  return ReadAll(file, text.data(), text.size());
}

std::string HowItEnded(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    return absl::StrCat("was ended by signal ", WTERMSIG(wait_status), " (",
                        strsignal(WTERMSIG(wait_status)), ")");
  }
  return absl::StrCat("left with exit code ", WEXITSTATUS(wait_status));
}

// In the child: the answer goes up the pipe, and the process ends without running destructors of
// what it shares with its parent.
[[noreturn]] void RunChild(const ProcessEvaluator::Function& function, const std::string& request,
                           int file) {
  const StatusOr<std::string> answer = function(request);
  const bool sent = answer.ok() ? WriteFrame(file, 0, *answer)
                                : WriteFrame(file, static_cast<int32_t>(answer.status().code()),
                                             std::string(answer.status().message()));
  _exit(sent ? 0 : 1);
}

// One request in a child of its own.
StatusOr<std::string> ForkAndRun(const ProcessEvaluator::Function& function,
                                 const std::string& request, int to_parent) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) {
    return RunError(absl::StrCat("no pipe for an evaluation: ", std::strerror(errno)));
  }
  const pid_t child = fork();
  if (child < 0) {
    const int error = errno;
    close(pair[0]);
    close(pair[1]);
    return RunError(absl::StrCat("no process for an evaluation: ", std::strerror(error)));
  }
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(pair[0]);
    close(to_parent);
    RunChild(function, request, pair[1]);
  }
  close(pair[1]);
  int32_t code = 0;
  std::string text;
  const bool complete = ReadFrame(pair[0], code, text);
  close(pair[0]);
  int wait_status = 0;
  while (waitpid(child, &wait_status, 0) < 0 && errno == EINTR) {
  }
  if (!complete) {
    return RunError(absl::StrCat("the process of an evaluation ", HowItEnded(wait_status),
                                 " before it answered"));
  }
  if (code != 0) return Status(static_cast<absl::StatusCode>(code), text);
  return text;
}

// The helper: request after request, until the parent's end of the pipe closes.
[[noreturn]] void ServeForever(const ProcessEvaluator::Function& function, int file) {
  int32_t code = 0;
  std::string request;
  while (ReadFrame(file, code, request)) {
    const StatusOr<std::string> answer = ForkAndRun(function, request, file);
    const bool sent = answer.ok() ? WriteFrame(file, 0, *answer)
                                  : WriteFrame(file, static_cast<int32_t>(answer.status().code()),
                                               std::string(answer.status().message()));
    if (!sent) break;
  }
  _exit(0);
}

class ForkingEvaluator final : public ProcessEvaluator {
 public:
  ForkingEvaluator(int file, pid_t helper) : file_(file), helper_(helper) {}

  ~ForkingEvaluator() override {
    close(file_);  // the helper reads the end of the file and leaves
    int wait_status = 0;
    while (waitpid(helper_, &wait_status, 0) < 0 && errno == EINTR) {
    }
  }

  StatusOr<std::string> Evaluate(std::string_view request) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    int32_t code = 0;
    std::string text;
    if (!WriteFrame(file_, 0, request) || !ReadFrame(file_, code, text)) {
      return RunError("the helper process of the evaluator is gone");
    }
    if (code != 0) return Status(static_cast<absl::StatusCode>(code), text);
    return text;
  }

 private:
  const int file_;
  const pid_t helper_;
  std::mutex mutex_;
};

}  // namespace

StatusOr<std::unique_ptr<ProcessEvaluator>> ProcessEvaluator::Start(const Function& function) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
    return RunError(absl::StrCat("no pipe for the evaluator: ", std::strerror(errno)));
  }
  const pid_t helper = fork();
  if (helper < 0) {
    const int error = errno;
    close(pair[0]);
    close(pair[1]);
    return RunError(absl::StrCat("no process for the evaluator: ", std::strerror(error)));
  }
  if (helper == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(pair[0]);
    ServeForever(function, pair[1]);
  }
  close(pair[1]);
  return std::make_unique<ForkingEvaluator>(pair[0], helper);
}

}  // namespace tideline
