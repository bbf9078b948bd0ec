#include "tests/mutants/guarded_run.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <fstream>
#include <vector>

#include "exec/data/token_source.h"
#include "exec/emulator/emulator.h"
#include "exec/interpreter/interpreter.h"

namespace tideline {
namespace {

constexpr int kSteps = 2;
constexpr int kLimitMilliseconds = 20000;

StatusOr<RunReport> Play(const Plan& plan, const Program& program, uint64_t seed,
                         const std::string& folder) {
  TL_RETURN_IF_ERROR(CheckExecutable(program));
  TL_ASSIGN_OR_RETURN(const TokenSource tokens, TokenSource::Open("", plan.seq, plan.global_batch));
  EmulatorOptions devices;
  devices.devices = static_cast<int>(program.ranks.size());
  devices.devices_per_node = plan.cluster.node.gpus;
  devices.device_memory_bytes = plan.cluster.device.memory_bytes;
  devices.check = CheckLevel::kKernels;
  devices.schedule = SchedulePolicy::kSeeded;
  devices.schedule_seed = seed;
  TL_ASSIGN_OR_RETURN(const MachinePtr machine, MakeEmulator(devices));
  ExecuteOptions options;
  options.steps = kSteps;
  options.checkpoint_folder = folder;
  options.checkpoint_every = kSteps;
  return Execute(program, *machine, tokens, options, {});
}

// Every file of the folder, by name.
std::string Contents(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  std::string text;
  for (const std::filesystem::path& file : files) {
    std::ifstream in(file, std::ios::binary);
    text += file.filename().string();
    text.append(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return text;
}

// What the child writes: 'f' and a digest of the bits, or 'r' and the message.
std::string PlayInChild(const Plan& plan, const Program& program, uint64_t seed,
                        const std::string& folder) {
  const StatusOr<RunReport> report = Play(plan, program, seed, folder);
  if (!report.ok()) return "r" + std::string(report.status().message());
  std::string bits = "f";
  for (const double loss : report->losses) {
    bits += std::to_string(std::bit_cast<uint64_t>(loss)) + " ";
  }
  return bits + std::to_string(std::hash<std::string>()(Contents(folder)));
}

// Reads until the child closes its end or the time is up.
bool ReadAll(int descriptor, std::string& text) {
  for (int waited = 0; waited < kLimitMilliseconds;) {
    pollfd entry{descriptor, POLLIN, 0};
    constexpr int kSlice = 100;
    if (poll(&entry, 1, kSlice) == 0) {
      waited += kSlice;
      continue;
    }
    char buffer[4096];
    const ssize_t count = read(descriptor, buffer, sizeof(buffer));
    if (count <= 0) return true;
    text.append(buffer, static_cast<size_t>(count));
  }
  return false;
}

}  // namespace

GuardedRun PlayGuarded(const Plan& plan, const Program& program, uint64_t seed) {
  std::string folder = (std::filesystem::temp_directory_path() / "mutant_XXXXXX").string();
  int ends[2];
  if (mkdtemp(folder.data()) == nullptr || pipe(ends) != 0) return {GuardedRun::End::kCrashed, ""};
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    const std::string text = PlayInChild(plan, program, seed, folder);
    const ssize_t written = write(ends[1], text.data(), text.size());
    _exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  close(ends[1]);
  GuardedRun run;
  std::string text;
  const bool ended = ReadAll(ends[0], text);
  if (!ended) kill(child, SIGKILL);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  std::filesystem::remove_all(folder);
  if (!ended) {
    run.end = GuardedRun::End::kHung;
  } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || text.empty()) {
    run.end = GuardedRun::End::kCrashed;
  } else {
    run.end = text[0] == 'f' ? GuardedRun::End::kFinished : GuardedRun::End::kRefused;
    run.result = text.substr(1);
  }
  return run;
}

}  // namespace tideline
