#include "cli/machine_report.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace tideline {
namespace {

void Write(const std::string& path, const std::string& content) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << content;
}

TEST(MachineReportTest, ReadsALaidOutMachine) {
  const std::string root = ::testing::TempDir() + "/machine";
  std::filesystem::remove_all(root);
  Write(root + "/etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
  Write(root + "/proc/cpuinfo",
        "processor\t: 0\nmodel name\t: EPYC 7742\nflags\t\t: fpu avx avx2 fma\n\n");
  Write(root + "/proc/meminfo",
        "MemTotal:       16000000 kB\nMemFree: 1 kB\nMemAvailable:  8000000 kB\n");
  Write(root + "/sys/fs/cgroup/memory.max", "4294967296\n");
  Write(root + "/proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27\nGCC version: 12\n");
  Write(root + "/dev/nvidia0", "");
  Write(root + "/dev/nvidia1", "");
  Write(root + "/usr/local/cuda/include/cuda_runtime_api.h",
        "#if 1\n#define CUDART_VERSION  12080\n#endif\n");
  Write(root + "/usr/local/cuda/lib64/libcublas.so.13", "");
  Write(root + "/usr/lib/x86_64-linux-gnu/libnccl.so.2", "");
  Write(root + "/opt/mpi/bin/mpirun", "");
  setenv("PATH", "/none:/opt/mpi/bin", 1);
  unsetenv("CUDA_HOME");
  unsetenv("LD_LIBRARY_PATH");
  const MachineReport machine = InspectMachine(root);
  EXPECT_EQ(machine.system, "Debian GNU/Linux 12 (bookworm)");
  EXPECT_EQ(machine.cpu_model, "EPYC 7742");
  EXPECT_TRUE(machine.avx2);
  EXPECT_TRUE(machine.fma);
  EXPECT_EQ(machine.memory_bytes, 4294967296);
  EXPECT_EQ(machine.memory_available_bytes, 4294967296);
  EXPECT_EQ(machine.nvidia_driver, "580.65.06");
  EXPECT_EQ(machine.nvidia_gpus, 2);
  EXPECT_EQ(machine.cuda_folder, root + "/usr/local/cuda");
  EXPECT_EQ(machine.cuda_version, "12.8");
  EXPECT_EQ(machine.cublas_library, root + "/usr/local/cuda/lib64/libcublas.so.13");
  EXPECT_EQ(machine.nccl_library, root + "/usr/lib/x86_64-linux-gnu/libnccl.so.2");
  EXPECT_EQ(machine.mpirun, root + "/opt/mpi/bin/mpirun");
}

TEST(MachineReportTest, ABareMachineIsReportedEmpty) {
  const std::string root = ::testing::TempDir() + "/bare";
  std::filesystem::create_directories(root);
  const MachineReport machine = InspectMachine(root);
  EXPECT_EQ(machine.system, "");
  EXPECT_FALSE(machine.avx2);
  EXPECT_EQ(machine.memory_bytes, 0);
  EXPECT_EQ(machine.nvidia_gpus, 0);
  EXPECT_EQ(machine.cuda_folder, "");
  EXPECT_EQ(machine.nccl_library, "");
  EXPECT_GE(machine.cpu_cores, 1);
}

TEST(MachineReportTest, ThisMachineHasMemory) {
  const MachineReport machine = InspectMachine();
  EXPECT_GT(machine.memory_bytes, 0);
  EXPECT_GT(machine.memory_available_bytes, 0);
}

}  // namespace
}  // namespace tideline
