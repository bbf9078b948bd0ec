// ClusterSpec: the machines, as data. Bandwidths are bytes/s per direction, latencies and times
// seconds.
#ifndef TIDELINE_MODELS_CLUSTER_CLUSTER_SPEC_H_
#define TIDELINE_MODELS_CLUSTER_CLUSTER_SPEC_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "models/ir/dtype.h"

namespace tideline {

// One kind of GPU. Sources of the figures stand in the catalogue.
struct DeviceSpec {
  std::string name;                   // "a100-80g"
  int64_t memory_bytes = 0;           // nominal
  int64_t runtime_reserve_bytes = 0;  // context and communication channels: category `runtime`
  double peak_fp32_flops = 0;         // per second, dense
  double peak_16bit_flops =
      0;  // bf16 and fp16 matrix units; devices without bf16 emulate it at this rate
  double memory_bandwidth = 0;
  double kernel_overhead_s = 0;  // smallest time of a kernel on the device
  // Matrix efficiency: fraction of peak = gemm_efficiency * m/(m+half_m) * n/(n+half_n) *
  // k/(k+half_k).
  double gemm_efficiency = 1.0;
  double half_m = 0, half_n = 0, half_k = 0;
  double bandwidth_efficiency = 1.0;  // achieved share of memory_bandwidth in element-wise kernels
  // By op name ("gelu"), where an op was measured by itself: its share instead.
  std::map<std::string, double> op_efficiency;
  bool calibrated = false;  // false: nominal figures only
  bool operator==(const DeviceSpec&) const = default;
};

// What the program that drives the GPUs costs on the host (the host lane).
struct HostProfile {
  std::string name;  // framework profile
  double kernel_launch_s = 0;
  double collective_launch_s = 0;
  double copy_launch_s = 0;
  double host_task_s = 0;  // e.g. fetching one micro-batch
  double step_s = 0;       // once per step
  bool operator==(const HostProfile&) const = default;
};

enum class Interconnect : uint8_t {
  kSwitch,  // every GPU has one port of nvlink_bandwidth into a non-blocking switch (NVSwitch,
            // emulated)
  kMesh,  // direct links: nvlink_bandwidth is one link's; links_between gives their number per pair
  kPcie,  // all traffic between GPUs crosses their PCIe ports
};

struct NodeSpec {
  int32_t gpus = 1;
  Interconnect interconnect = Interconnect::kSwitch;
  double nvlink_bandwidth = 0;
  double nvlink_latency_s = 0;
  std::vector<std::vector<int32_t>> links_between;  // kMesh; pairs with 0 use PCIe
  double pcie_bandwidth = 0;
  double pcie_latency_s = 0;
  int32_t nics = 1;          // GPU g uses NIC g * nics / gpus
  double nic_bandwidth = 0;  // of one NIC
  double nic_latency_s = 0;
  int64_t host_memory_bytes = 0;
  int32_t host_cores = 1;
  double dram_bandwidth = 0;
  // Of devices that are emulated on the cores: what all cores do at once, as a share of what they
  // do one at a time.
  double core_efficiency = 1.0;
  bool operator==(const NodeSpec&) const = default;
};

// Between nodes. Without leafs the fabric is non-blocking and NICs are the only contended part.
struct FabricSpec {
  std::vector<int32_t>
      leaf_sizes;  // nodes per leaf switch, in node order; empty: one non-blocking fabric
  double leaf_uplink_bandwidth = 0;  // of a leaf's whole bundle towards the (non-blocking) spine
  double spine_latency_s = 0;        // added once on paths between leafs
  bool operator==(const FabricSpec&) const = default;
};

struct ClusterSpec {
  std::string name;  // what the user wrote
  int32_t nodes = 1;
  NodeSpec node;
  DeviceSpec device;
  FabricSpec fabric;
  HostProfile host;
  bool emulated = false;
  int32_t gpus() const { return nodes * node.gpus; }
  bool operator==(const ClusterSpec&) const = default;
};

}  // namespace tideline

#endif  // TIDELINE_MODELS_CLUSTER_CLUSTER_SPEC_H_
