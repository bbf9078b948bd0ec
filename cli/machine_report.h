// What this machine offers, read from the system's files only: no library is loaded and no device
// opened, so looking never fails and changes nothing.
#ifndef TIDELINE_CLI_MACHINE_REPORT_H_
#define TIDELINE_CLI_MACHINE_REPORT_H_

#include <cstdint>
#include <string>

namespace tideline {

struct MachineReport {
  std::string system;  // "Debian GNU/Linux 12 (bookworm)"
  std::string kernel;  // "6.1.0-13-amd64"
  std::string cpu_model;
  int32_t cpu_cores = 0;  // that this process may use
  bool avx2 = false;
  bool fma = false;
  int64_t memory_bytes = 0;  // of the machine, or of the control group when that allows less
  int64_t memory_available_bytes = 0;

  // Empty texts: not found.
  std::string nvidia_driver;  // version of the kernel driver
  int32_t nvidia_gpus = 0;    // device files
  std::string cuda_folder;
  std::string cuda_version;
  std::string nccl_library;
  std::string cublas_library;
  std::string mpirun;
};

// `root` is put before every absolute path, so that tests can lay out a machine in a folder; ""
// is this machine.
MachineReport InspectMachine(const std::string& root = "");

}  // namespace tideline

#endif  // TIDELINE_CLI_MACHINE_REPORT_H_
