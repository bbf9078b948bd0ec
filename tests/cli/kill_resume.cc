// Kills training runs at random moments and resumes them; every resumed run must end with the
// losses of an unbroken one, bit for bit (issue bar: ten kills, worker and parent in turn, at least
// two inside a checkpoint write).
//
//   bazel run -c opt //tests/cli:kill_resume [-- KILLS SEED]     prints a Markdown table; exit 4
//   when a bar is missed
//
// The program under test is found in the runfiles (cli/tideline with its worker beside it).
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "base/json.h"
#include "base/rng.h"

namespace tideline {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kSteps = 60;
constexpr const char* kProgram = "cli/tideline";

double SecondsSince(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::string Slurp(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

// Starts the program with stdout and stderr in files.
pid_t Start(const std::vector<std::string>& words, const fs::path& out, const fs::path& err) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), 1);
  dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644), 2);
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  execv(pointers[0], pointers.data());
  _exit(127);
}

int WaitFor(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// The child of `parent`, by /proc; none while it has not started one.
std::optional<pid_t> ChildOf(pid_t parent) {
  std::istringstream children(
      Slurp("/proc/" + std::to_string(parent) + "/task/" + std::to_string(parent) + "/children"));
  pid_t child = 0;
  if (children >> child) return child;
  return std::nullopt;
}

bool WritingCheckpoint(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().filename().string().find(".tmp-") != std::string::npos) return true;
  }
  return false;
}

struct Result {
  std::vector<double> losses;
  int64_t resumed_from = 0;
};

StatusOr<Result> ReadResult(const fs::path& path) {
  TL_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Load(path.string()));
  TL_ASSIGN_OR_RETURN(JsonObject object, document.root().AsObject());
  Result result;
  TL_RETURN_IF_ERROR(object.ReadOptional("resumed_from_step", &result.resumed_from));
  TL_ASSIGN_OR_RETURN(const JsonValue losses, object.Get("losses"));
  TL_ASSIGN_OR_RETURN(const std::vector<JsonValue> values, losses.AsArray());
  for (const JsonValue& value : values) {
    TL_ASSIGN_OR_RETURN(const double loss, value.AsReal());
    result.losses.push_back(loss);
  }
  return result;
}

struct Kill {
  bool worker = false;
  bool in_write = false;
  double fraction = 0;  // of the unbroken run's time, when not in_write
};

struct Outcome {
  double killed_at_s = 0;
  bool was_writing = false;
  int64_t resumed_from = 0;
  bool equal = false;
  std::string trouble;
  bool nothing_to_kill = false;  // the run was over, or its worker not there: no kill took place
};

class Bench {
 public:
  Bench(fs::path program, fs::path folder) : program_(std::move(program)), folder_(folder) {}

  // The plan, and the unbroken run. Empty on success.
  std::string Prepare() {
    const fs::path plan = folder_ / "plan.json";
    if (Run({"plan", "gpt:layers=2,hidden=96,heads=4,vocab=256", "--seq", "64", "--cluster",
             "emulated:2x64MiB", "--global-batch", "8", "--pin", "dp=2,pp=1,tp=1,zero=1", "-o",
             plan.string()}) != 0) {
      return "planning failed: " + Slurp(folder_ / "err");
    }
    plan_ = plan.string();
    const Clock::time_point begin = Clock::now();
    if (Run({"execute", plan_, "--steps", std::to_string(kSteps), "--json", "--checkpoint",
             (folder_ / "unbroken").string(), "--checkpoint-every", "2"}) != 0) {
      return "the unbroken run failed: " + Slurp(folder_ / "err");
    }
    unbroken_s_ = SecondsSince(begin);
    auto result = ReadResult(folder_ / "out");
    if (!result.ok()) return std::string(result.status().message());
    losses_ = result->losses;
    return losses_.size() == kSteps ? "" : "the unbroken run has not " + std::to_string(kSteps);
  }

  Outcome Try(const Kill& kill, const fs::path& checkpoints) {
    Outcome outcome;
    const Clock::time_point begin = Clock::now();
    const pid_t parent = Start(Words(checkpoints, false), folder_ / "out", folder_ / "err");
    WaitForMoment(kill, checkpoints, begin);
    const std::optional<pid_t> worker = ChildOf(parent);
    if (kill.worker && !worker.has_value()) {
      outcome.trouble = "no worker to kill";
      outcome.nothing_to_kill = true;
      ::kill(parent, SIGKILL);
      WaitFor(parent);
      return outcome;
    }
    ::kill(kill.worker ? *worker : parent, SIGKILL);
    outcome.killed_at_s = SecondsSince(begin);
    outcome.was_writing = WritingCheckpoint(checkpoints);
    if (WaitFor(parent) == 0) {
      outcome.trouble = "the run had ended before the kill";
      outcome.nothing_to_kill = true;
      return outcome;
    }
    if (const int code = Run(Words(checkpoints, true)); code != 0) {
      outcome.trouble = "resume ended with " + std::to_string(code) + ": " + Slurp(folder_ / "err");
      return outcome;
    }
    auto result = ReadResult(folder_ / "out");
    if (!result.ok()) {
      outcome.trouble = std::string(result.status().message());
      return outcome;
    }
    outcome.resumed_from = result->resumed_from;
    outcome.equal = result->losses == losses_;
    return outcome;
  }

  double unbroken_s() const { return unbroken_s_; }

 private:
  std::vector<std::string> Words(const fs::path& checkpoints, bool resume) const {
    std::vector<std::string> words = {
        "execute", plan_,          "--steps",   std::to_string(kSteps),
        "--json",  "--checkpoint", checkpoints, "--checkpoint-every",
        "2"};
    if (resume) words.push_back("--resume");
    words.insert(words.begin(), program_.string());
    return words;
  }

  int Run(std::vector<std::string> words) const {
    if (words.front() != program_.string()) words.insert(words.begin(), program_.string());
    return WaitFor(Start(words, folder_ / "out", folder_ / "err"));
  }

  void WaitForMoment(const Kill& kill, const fs::path& checkpoints, Clock::time_point begin) const {
    const double earliest_s = (kill.in_write ? 0.3 : kill.fraction) * unbroken_s_;
    std::this_thread::sleep_for(std::chrono::duration<double>(earliest_s));
    while (kill.in_write && !WritingCheckpoint(checkpoints) &&
           SecondsSince(begin) < 2 * unbroken_s_) {
    }
  }

  fs::path program_;
  fs::path folder_;
  std::string plan_;
  double unbroken_s_ = 0;
  std::vector<double> losses_;
};

int Main(int kills, uint64_t seed) {
  const fs::path folder = fs::temp_directory_path() / ("kill_resume." + std::to_string(getpid()));
  fs::create_directories(folder);
  Bench bench(fs::absolute(kProgram), folder);
  if (const std::string trouble = bench.Prepare(); !trouble.empty()) {
    std::fprintf(stderr, "kill_resume: %s\n", trouble.c_str());
    return 1;
  }
  Rng rng(seed);
  int resumed = 0, equal = 0, writing = 0;
  std::printf("unbroken run: %d steps, %.2f s\n\n", kSteps, bench.unbroken_s());
  std::printf("| kill | killed | after s | inside a checkpoint write | resumed from | losses |\n");
  std::printf("| --- | --- | --- | --- | --- | --- |\n");
  for (int i = 0; i < kills; ++i) {
    Kill kill{i % 2 == 0, i % 3 == 2, 0.25 + 0.6 * rng.Uniform()};
    Outcome outcome;
    // Speeds vary from run to run: what was over before its moment is no kill, and is tried again.
    for (int attempt = 0; attempt < 6; ++attempt) {
      outcome =
          bench.Try(kill, folder / ("run" + std::to_string(i) + "." + std::to_string(attempt)));
      if (!outcome.nothing_to_kill) break;
      kill.fraction = 0.2 + 0.5 * rng.Uniform();
    }
    resumed += outcome.resumed_from > 0;
    equal += outcome.equal;
    writing += outcome.was_writing;
    std::printf("| %d | %s | %.2f | %s | %lld | %s |\n", i + 1, kill.worker ? "worker" : "parent",
                outcome.killed_at_s, outcome.was_writing ? "yes" : "no",
                static_cast<long long>(outcome.resumed_from),
                !outcome.trouble.empty() ? outcome.trouble.c_str()
                : outcome.equal          ? "equal, bit for bit"
                                         : "DIFFERENT");
    std::fflush(stdout);
  }
  std::printf(
      "\n%d kills: %d resumed from a step above 0, %d with equal losses, %d inside a write\n",
      kills, resumed, equal, writing);
  fs::remove_all(folder);
  return equal == kills && resumed * 10 >= kills * 8 && (kills < 10 || writing >= 2) ? 0 : 4;
}

}  // namespace
}  // namespace tideline

int main(int argc, char** argv) {
  return tideline::Main(argc > 1 ? std::atoi(argv[1]) : 10,
                        argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1);
}
