#include "cli/machine_report.h"

#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "base/units.h"

namespace tideline {
namespace {

std::string ContentOf(const std::string& path) { return ReadFile(path).value_or(""); }

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// The text after the first `key` up to the end of its line, without quotes and spaces.
std::string LineAfter(const std::string& content, std::string_view key) {
  size_t start = content.find(key);
  while (start != std::string::npos && start != 0 && content[start - 1] != '\n') {
    start = content.find(key, start + 1);
  }
  if (start == std::string::npos) return "";
  start += key.size();
  const std::string_view line =
      std::string_view(content).substr(start, content.find('\n', start) - start);
  const size_t first = line.find_first_not_of(" \t:=\"");
  if (first == std::string_view::npos) return "";
  const std::string_view value = Trim(line.substr(first));
  return std::string(value.substr(0, value.find('"')));
}

int64_t LeadingNumber(std::string_view text) {
  text = Trim(text);
  int64_t number = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && stop != text.data() ? number : 0;
}

int32_t UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CPU_COUNT(&set);
}

void InspectProcessor(const std::string& root, MachineReport* machine) {
  const std::string information = ContentOf(root + "/proc/cpuinfo");
  machine->cpu_model = LineAfter(information, "model name");
  machine->cpu_cores = UsableCores();
  const std::string flags = " " + LineAfter(information, "flags") + " ";
  machine->avx2 = flags.find(" avx2 ") != std::string::npos;
  machine->fma = flags.find(" fma ") != std::string::npos;
}

void InspectMemory(const std::string& root, MachineReport* machine) {
  const std::string information = ContentOf(root + "/proc/meminfo");
  machine->memory_bytes = LeadingNumber(LineAfter(information, "MemTotal")) * kKiB;
  machine->memory_available_bytes = LeadingNumber(LineAfter(information, "MemAvailable")) * kKiB;
  // A container may allow less: control groups version 2, then 1. "max" reads as 0, no limit.
  for (const char* path :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    const int64_t limit = LeadingNumber(ContentOf(root + path));
    if (limit <= 0) continue;
    machine->memory_bytes = std::min(machine->memory_bytes, limit);
    machine->memory_available_bytes = std::min(machine->memory_available_bytes, limit);
  }
}

// The first of `folders` that holds `file`, as a path; else empty.
std::string FindIn(const std::vector<std::string>& folders, const std::string& file) {
  for (const std::string& folder : folders) {
    std::string path = folder;
    path += "/";
    path += file;
    if (!folder.empty() && Exists(path)) return path;
  }
  return "";
}

std::vector<std::string> SplitPath(const std::string& root, const char* list) {
  std::vector<std::string> folders;
  std::string_view rest = list == nullptr ? "" : list;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    folders.push_back(root + std::string(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return folders;
}

// "13.0" out of the runtime's header, which says "#define CUDART_VERSION 13000".
std::string CudaVersion(const std::string& folder) {
  const std::string header = ContentOf(folder + "/include/cuda_runtime_api.h");
  const int64_t version = LeadingNumber(LineAfter(header, "#define CUDART_VERSION"));
  if (version <= 0) return "";
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

void InspectCuda(const std::string& root, MachineReport* machine) {
  // "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  ...": the first word with a dot.
  const std::string driver =
      LineAfter(ContentOf(root + "/proc/driver/nvidia/version"), "NVRM version");
  const size_t module = driver.find("Module");
  if (module != std::string::npos) {
    const std::string_view rest = Trim(std::string_view(driver).substr(module + 6));
    machine->nvidia_driver = std::string(rest.substr(0, rest.find(' ')));
  }
  while (Exists(root + "/dev/nvidia" + std::to_string(machine->nvidia_gpus))) {
    ++machine->nvidia_gpus;
  }
  std::vector<std::string> candidates = {root + "/usr/local/cuda"};
  if (const char* home = std::getenv("CUDA_HOME"); home != nullptr) {
    candidates.insert(candidates.begin(), root + home);
  }
  for (const std::string& folder : candidates) {
    if (!machine->cuda_folder.empty() || !Exists(folder + "/include/cuda_runtime_api.h")) continue;
    machine->cuda_folder = folder;
    machine->cuda_version = CudaVersion(folder);
  }
  std::vector<std::string> libraries = SplitPath(root, std::getenv("LD_LIBRARY_PATH"));
  libraries.push_back(root + "/usr/lib/x86_64-linux-gnu");
  libraries.push_back(root + "/usr/local/lib");
  if (!machine->cuda_folder.empty()) libraries.push_back(machine->cuda_folder + "/lib64");
  machine->nccl_library = FindIn(libraries, "libnccl.so.2");
  for (const char* name : {"libcublas.so.13", "libcublas.so.12", "libcublas.so"}) {
    if (machine->cublas_library.empty()) machine->cublas_library = FindIn(libraries, name);
  }
}

}  // namespace

MachineReport InspectMachine(const std::string& root) {
  MachineReport machine;
  machine.system = LineAfter(ContentOf(root + "/etc/os-release"), "PRETTY_NAME");
  utsname names{};
  if (uname(&names) == 0) machine.kernel = names.release;
  InspectProcessor(root, &machine);
  InspectMemory(root, &machine);
  InspectCuda(root, &machine);
  machine.mpirun = FindIn(SplitPath(root, std::getenv("PATH")), "mpirun");
  return machine;
}

}  // namespace tideline
