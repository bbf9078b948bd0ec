#include "tests/cli/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>

namespace tideline {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

[[noreturn]] void RunChild(const std::vector<std::string>& words, const ProgramOptions& options,
                           int out, int err) {
  const int none = open("/dev/null", O_RDONLY);
  dup2(none, STDIN_FILENO);
  dup2(out, STDOUT_FILENO);
  dup2(err, STDERR_FILENO);
  signal(SIGINT, SIG_DFL);
  for (const std::string& entry : options.environment) {
    const size_t equals = entry.find('=');
    setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(arguments[0], arguments.data());
  _exit(127);
}

}  // namespace

ProgramResult RunProgram(const std::vector<std::string>& words, const ProgramOptions& options) {
  ProgramResult result;
  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (pipe2(out.data(), O_CLOEXEC) != 0 || pipe2(err.data(), O_CLOEXEC) != 0) return result;
  const Clock::time_point start = Clock::now();
  const pid_t child = fork();
  if (child == 0) RunChild(words, options, out[1], err[1]);
  close(out[1]);
  close(err[1]);
  std::array<pollfd, 2> sources = {{{out[0], POLLIN, 0}, {err[0], POLLIN, 0}}};
  bool signalled = options.signal == 0;
  int open_sources = 2;
  while (open_sources > 0) {
    poll(sources.data(), sources.size(), 20);
    if (!signalled && SecondsSince(start) > options.signal_after_s) {
      kill(child, options.signal);
      signalled = true;
    }
    for (pollfd& source : sources) {
      if (source.fd < 0 || (source.revents & (POLLIN | POLLHUP)) == 0) continue;
      std::array<char, 4096> block;
      const ssize_t count = read(source.fd, block.data(), block.size());
      if (count > 0) {
        (source.fd == out[0] ? result.out : result.err)
            .append(block.data(), static_cast<size_t>(count));
      } else {
        close(source.fd);
        source.fd = -1;
        --open_sources;
      }
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  result.seconds = SecondsSince(start);
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

}  // namespace tideline
