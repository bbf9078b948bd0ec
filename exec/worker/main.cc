// tideline-worker-*: serves one request of its parent and ends. Dies with its parent.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string_view>

#include "exec/worker/worker.h"

namespace tideline {
namespace {

constexpr int kBoardDescriptor = 3;

// What the SIGTERM handler may look at: signal handlers have no other way to be handed something.
std::atomic<const Program*> running_program{nullptr};
std::atomic<const PositionBoard*> running_board{nullptr};

// Writes every rank's last position to stderr and ends, with async-signal-safe calls only.
void OnTerminate(int signal) {
  const Program* program = running_program.load();
  const PositionBoard* board = running_board.load();
  if (program != nullptr && board != nullptr) {
    for (int rank = 0; rank < board->ranks(); ++rank) {
      char line[256];
      size_t length = WritePositionLine(*program, rank, board->Get(rank), line, sizeof line - 1);
      line[length++] = '\n';
      if (write(STDERR_FILENO, line, length) < 0) break;
    }
  }
  _exit(128 + signal);
}

// Asks to be killed when the parent dies, and checks that it did not die before the asking.
bool TieToParent(std::string_view parent) {
  pid_t expected = 0;
  const auto [end, error] = std::from_chars(parent.data(), parent.data() + parent.size(), expected);
  if (error != std::errc() || end != parent.data() + parent.size()) return false;
  return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == expected;
}

int Main(int argc, char** argv) {
  if (argc != 3 || std::strcmp(argv[1], "--parent") != 0) {
    std::fputs("This program is started by `tideline execute`, which talks to it over pipes.\n",
               stderr);
    return 2;
  }
  if (!TieToParent(argv[2])) return 1;
  signal(SIGPIPE, SIG_IGN);
  struct sigaction action {};
  action.sa_handler = OnTerminate;
  sigaction(SIGTERM, &action, nullptr);
  const Status status = ServeRequest({STDIN_FILENO, STDOUT_FILENO}, kBoardDescriptor,
                                     [](const Program* program, const PositionBoard* board) {
                                       running_board.store(board);
                                       running_program.store(program);
                                     });
  return ExitCode(status);
}

}  // namespace
}  // namespace tideline

int main(int argc, char** argv) {
  try {
    return tideline::Main(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("the worker has no memory left; use a smaller plan or a machine with more\n",
               stderr);
  } catch (const std::exception& error) {  // std::system_error: no thread can be made
    std::fprintf(stderr, "the worker cannot go on: %s\n", error.what());
  }
  return 1;
}
