#include "models/cluster/catalogue.h"

#include "base/units.h"

namespace tideline {
namespace {

// The sustained share of memory bandwidth: BabelStream add and triad reach 1.70 of 2.039 TB/s on an
// A100-80 (Azure AI-benchmarking-guide).
constexpr double kStreamEfficiency = 0.83;

// Latency of one ring step, Simple protocol, as NCCL's own tuning tables have it
// (nccl src/graph/tuning.cc, hwLat, v2.8 to v2.12).
constexpr double kNvlinkLatency = 3.4e-6;
constexpr double kPcieLatency = 5.7e-6;
constexpr double kNicLatency = 9.6e-6;

constexpr double kPcieGen3 = 15.75e9;  // x16: 8 GT/s, 128b/130b
constexpr double kPcieGen4 = 31.5e9;   // x16: 16 GT/s, 128b/130b
constexpr double kNvlinkLink = 25e9;   // NVLink 2 and 3, one link

// NVIDIA V100 data sheet (SXM2): 15.7 TFLOP/s fp32, 125 TFLOP/s in fp16 tensor cores, 900 GB/s.
DeviceSpec V100(const std::string& name, int64_t memory_bytes) {
  DeviceSpec device;
  device.name = name;
  device.memory_bytes = memory_bytes;
  // Estimate: 0.25 GiB that the driver keeps (nvidia-smi shows 16160 of 16384 MiB), context and
  // library handles 0.35 GiB, NCCL channels 0.4 GiB.
  device.runtime_reserve_bytes = kGiB;
  device.peak_fp32_flops = 15.7e12;
  device.peak_16bit_flops = 125e12;
  device.memory_bandwidth = 900e9;
  device.kernel_overhead_s = 4.4e-6;
  // No public table of V100 operator times was at hand: the A100's saturation sizes and share of
  // peak are taken over, so the device is not calibrated.
  device.gemm_efficiency = 0.84;
  device.half_m = 104;
  device.half_n = 227;
  device.half_k = 81;
  device.bandwidth_efficiency = kStreamEfficiency;
  device.calibrated = false;
  return device;
}

// NVIDIA A100 data sheet (SXM4): 19.5 TFLOP/s fp32, 312 TFLOP/s dense in bf16 and fp16.
DeviceSpec A100(const std::string& name, int64_t memory_bytes, double memory_bandwidth) {
  DeviceSpec device;
  device.name = name;
  device.memory_bytes = memory_bytes;
  // Estimate: 0.45 GiB that the driver keeps (nvidia-smi shows 40536 of 40960 MiB), context and
  // library handles 0.5 GiB, NCCL channels 0.5 GiB.
  device.runtime_reserve_bytes = 3 * kGiB / 2;
  device.peak_fp32_flops = 19.5e12;
  device.peak_16bit_flops = 312e12;
  device.memory_bandwidth = memory_bandwidth;
  // Five constants fitted to the median times of 824 fp16 products of linear layers that
  // microsoft/vidur (data/profiling) measured on an A100, m 1..4096, n 1536..27648, k 512..13824:
  // mean absolute error 7 %, 6 % for m >= 1024.
  device.kernel_overhead_s = 4.4e-6;
  device.gemm_efficiency = 0.84;
  device.half_m = 104;
  device.half_n = 227;
  device.half_k = 81;
  device.bandwidth_efficiency = kStreamEfficiency;
  device.calibrated = true;
  return device;
}

// The hybrid cube mesh of DGX-1V and p3.16xlarge: links between each pair (nvidia-smi topo -m; six
// links per GPU). Pairs without a link go over PCIe.
std::vector<std::vector<int32_t>> HybridCubeMesh() {
  return {{0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0}, {1, 2, 0, 2, 0, 0, 1, 0},
          {2, 1, 2, 0, 0, 0, 0, 1}, {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
          {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}};
}

// NVIDIA DGX-1 with V100, system guide: 2 x Xeon E5-2698 v4 (20 cores each, 4 channels of
// DDR4-2400), 512 GB, 4 x EDR InfiniBand (100 Gb/s).
NodeSpec DgxV100() {
  NodeSpec node;
  node.gpus = 8;
  node.interconnect = Interconnect::kMesh;
  node.nvlink_bandwidth = kNvlinkLink;
  node.nvlink_latency_s = kNvlinkLatency;
  node.links_between = HybridCubeMesh();
  node.pcie_bandwidth = kPcieGen3;
  node.pcie_latency_s = kPcieLatency;
  node.nics = 4;
  node.nic_bandwidth = 12.5e9;
  node.nic_latency_s = kNicLatency;
  node.host_memory_bytes = 512 * kGiB;
  node.host_cores = 40;
  node.dram_bandwidth = 153.6e9;
  return node;
}

// Amazon EC2 p3.16xlarge: 64 virtual CPUs (32 cores), 488 GiB, one 25 Gb/s network card.
NodeSpec AmazonP3() {
  NodeSpec node = DgxV100();
  node.nics = 1;
  node.nic_bandwidth = 3.125e9;
  node.host_memory_bytes = 488 * kGiB;
  node.host_cores = 32;
  return node;
}

// NVIDIA DGX A100, system guide: 6 NVSwitches, 12 links per GPU, 2 x EPYC 7742 (64 cores each, 8
// channels of DDR4-3200), 8 x HDR InfiniBand (200 Gb/s) for compute.
NodeSpec DgxA100(int64_t host_memory_bytes) {
  NodeSpec node;
  node.gpus = 8;
  node.interconnect = Interconnect::kSwitch;
  node.nvlink_bandwidth = 12 * kNvlinkLink;
  node.nvlink_latency_s = kNvlinkLatency;
  node.pcie_bandwidth = kPcieGen4;
  node.pcie_latency_s = kPcieLatency;
  node.nics = 8;
  node.nic_bandwidth = 25e9;
  node.nic_latency_s = kNicLatency;
  node.host_memory_bytes = host_memory_bytes;
  node.host_cores = 128;
  node.dram_bandwidth = 409.6e9;
  return node;
}

}  // namespace

std::vector<CatalogueEntry> Catalogue() {
  return {
      {"dgx-v100-16g", "DGX-1: 8 x V100 16 GB, NVLink mesh, 4 x 100 Gb/s", DgxV100(),
       V100("v100-16g", 16 * kGiB)},
      {"dgx-v100-32g", "DGX-1: 8 x V100 32 GB, NVLink mesh, 4 x 100 Gb/s", DgxV100(),
       V100("v100-32g", 32 * kGiB)},
      {"p3.16xlarge", "Amazon EC2: 8 x V100 16 GB, NVLink mesh, 25 Gb/s", AmazonP3(),
       V100("v100-16g", 16 * kGiB)},
      {"dgx-a100-40g", "DGX A100: 8 x A100 40 GB, NVSwitch, 8 x 200 Gb/s", DgxA100(1024 * kGiB),
       A100("a100-40g", 40 * kGiB, 1555e9)},
      {"dgx-a100-80g", "DGX A100: 8 x A100 80 GB, NVSwitch, 8 x 200 Gb/s", DgxA100(2048 * kGiB),
       A100("a100-80g", 80 * kGiB, 2039e9)},
  };
}

// Kernels: back-to-back launches of short kernels cost about 3.8 us each (NVIDIA technical blog,
// "Getting Started with CUDA Graphs", V100). Collectives: the base latency that NCCL's tuning
// tables add once per ring collective (baseLat, Simple, 8.4 us). Copies: as kernels. The task per
// micro-batch (fetching and handing over a few KiB of tokens) and the work per step are estimates.
HostProfile CudaHostProfile() {
  HostProfile host;
  host.name = "tideline-cuda";
  host.kernel_launch_s = 3.8e-6;
  host.collective_launch_s = 8.4e-6;
  host.copy_launch_s = 3.8e-6;
  host.host_task_s = 50e-6;
  host.step_s = 100e-6;
  return host;
}

// Round listed figures of the size that one processor core per device reaches.
ClusterSpec EmulatedCluster(int32_t gpus, int64_t memory_bytes) {
  ClusterSpec cluster;
  cluster.emulated = true;
  cluster.device.name = "emulated";
  cluster.device.memory_bytes = memory_bytes;
  cluster.device.peak_fp32_flops = 20e9;
  cluster.device.peak_16bit_flops = 20e9;
  cluster.device.memory_bandwidth = 10e9;
  cluster.device.kernel_overhead_s = 2e-6;
  NodeSpec& node = cluster.node;
  node.gpus = gpus;
  node.interconnect = Interconnect::kSwitch;
  node.nvlink_bandwidth = 5e9;
  node.nvlink_latency_s = 5e-6;
  node.pcie_bandwidth = 5e9;
  node.pcie_latency_s = 5e-6;
  node.nics = 1;
  node.nic_bandwidth = 1e9;
  node.nic_latency_s = 20e-6;
  node.host_memory_bytes = 4 * kGiB;
  node.host_cores = gpus;
  node.dram_bandwidth = 10e9;
  HostProfile& host = cluster.host;
  host.name = "tideline-emulated";
  host.kernel_launch_s = 2e-6;
  host.collective_launch_s = 5e-6;
  host.copy_launch_s = 2e-6;
  host.host_task_s = 20e-6;
  host.step_s = 50e-6;
  return cluster;
}

}  // namespace tideline
