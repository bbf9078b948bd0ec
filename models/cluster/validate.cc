#include "models/cluster/validate.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace tideline {
namespace {

// So that no time becomes infinite.
constexpr double kLeastRate = 1;
constexpr double kLeastShare = 1e-6;
constexpr double kMostRate = 1e18;
constexpr double kMostSeconds = 1e3;
constexpr double kMostHalf = 1e9;
constexpr int32_t kMostLinks = 64;

// Collects the first error over a list of fields.
class FieldChecker {
 public:
  void Integer(const char* field, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most) return;
    Fail(field,
         absl::StrCat(value, " is out of range; write a whole number from ", least, " to ", most));
  }
  void Real(const char* field, double value, double least, double most) {
    if (value >= least && value <= most) return;
    Fail(field, absl::StrCat(ShortestReal(value), " is out of range; write a number from ",
                             ShortestReal(least), " to ", ShortestReal(most)));
  }
  void Rate(const char* field, double value) { Real(field, value, kLeastRate, kMostRate); }
  void Seconds(const char* field, double value) { Real(field, value, 0, kMostSeconds); }
  void Fraction(const char* field, double value) { Real(field, value, kLeastShare, 1); }
  void Fail(const std::string& field, const std::string& why) {
    if (status_.ok()) status_ = InputError(absl::StrCat("cluster field `", field, "`: ", why));
  }
  const Status& status() const { return status_; }

 private:
  Status status_;
};

void CheckDevice(const ClusterSpec& cluster, FieldChecker* check) {
  const DeviceSpec& device = cluster.device;
  check->Integer("memory", device.memory_bytes, 1, kMostMemoryBytes / cluster.node.gpus);
  check->Integer("runtime_reserve", device.runtime_reserve_bytes, 0, device.memory_bytes - 1);
  check->Rate("peak_fp32", device.peak_fp32_flops);
  check->Rate("peak_16bit", device.peak_16bit_flops);
  check->Rate("memory_bandwidth", device.memory_bandwidth);
  check->Seconds("kernel_overhead", device.kernel_overhead_s);
  check->Fraction("gemm_efficiency", device.gemm_efficiency);
  check->Real("half_m", device.half_m, 0, kMostHalf);
  check->Real("half_n", device.half_n, 0, kMostHalf);
  check->Real("half_k", device.half_k, 0, kMostHalf);
  check->Fraction("bandwidth_efficiency", device.bandwidth_efficiency);
  for (const auto& [op, share] : device.op_efficiency) {
    check->Fraction(absl::StrCat("op_efficiency.", op).c_str(), share);
  }
}

void CheckMesh(const NodeSpec& node, FieldChecker* check) {
  const auto gpus = static_cast<size_t>(node.gpus);
  if (node.links_between.size() != gpus) {
    check->Fail("links_between", absl::StrCat("it has ", node.links_between.size(), " rows for ",
                                              gpus, " GPUs; write one row per GPU"));
    return;
  }
  for (size_t row = 0; row < gpus; ++row) {
    if (node.links_between[row].size() != gpus) {
      check->Fail("links_between",
                  absl::StrCat("row ", row, " has ", node.links_between[row].size(),
                               " numbers for ", gpus, " GPUs; write one number per GPU"));
      return;
    }
  }
  for (size_t row = 0; row < gpus; ++row) {
    for (size_t column = 0; column < gpus; ++column) {
      const int32_t links = node.links_between[row][column];
      if (links < 0 || links > kMostLinks || (row == column && links != 0)) {
        check->Fail("links_between",
                    absl::StrCat("[", row, "][", column, "] is ", links, "; write 0 to ",
                                 kMostLinks, ", and 0 on the diagonal"));
      }
      if (links != node.links_between[column][row]) {
        check->Fail("links_between",
                    absl::StrCat("[", row, "][", column, "] is ", links, " but [", column, "][",
                                 row, "] is ", node.links_between[column][row],
                                 "; links run both ways, write the same number"));
      }
    }
  }
}

void CheckNode(const NodeSpec& node, FieldChecker* check) {
  if (node.interconnect != Interconnect::kPcie) {
    check->Rate("nvlink_bandwidth", node.nvlink_bandwidth);
  } else {
    check->Real("nvlink_bandwidth", node.nvlink_bandwidth, 0, kMostRate);
  }
  check->Seconds("nvlink_latency", node.nvlink_latency_s);
  check->Fraction("core_efficiency", node.core_efficiency);
  if (node.interconnect == Interconnect::kMesh) {
    CheckMesh(node, check);
  } else if (!node.links_between.empty()) {
    check->Fail("links_between", "it belongs to the interconnect `mesh` only; leave it out");
  }
  check->Rate("pcie_bandwidth", node.pcie_bandwidth);
  check->Seconds("pcie_latency", node.pcie_latency_s);
  check->Integer("nics", node.nics, 1, kMostNics);
  check->Rate("nic_bandwidth", node.nic_bandwidth);
  check->Seconds("nic_latency", node.nic_latency_s);
  check->Integer("host_memory", node.host_memory_bytes, 1, kMostMemoryBytes);
  check->Integer("host_cores", node.host_cores, 1, kMostHostCores);
  check->Rate("dram_bandwidth", node.dram_bandwidth);
}

void CheckFabric(const ClusterSpec& cluster, FieldChecker* check) {
  const FabricSpec& fabric = cluster.fabric;
  check->Seconds("spine_latency", fabric.spine_latency_s);
  if (fabric.leaf_sizes.empty()) {
    check->Real("leaf_uplink_bandwidth", fabric.leaf_uplink_bandwidth, 0, kMostRate);
    return;
  }
  check->Rate("leaf_uplink_bandwidth", fabric.leaf_uplink_bandwidth);
  int64_t nodes = 0;
  for (const int32_t size : fabric.leaf_sizes) {
    check->Integer("leaf_sizes", size, 1, kMostNodes);
    nodes += size;
  }
  if (nodes != cluster.nodes) {
    check->Fail("leaf_sizes", absl::StrCat("they add up to ", nodes, " nodes, the cluster has ",
                                           cluster.nodes, "; write sizes that add up"));
  }
}

void CheckHost(const HostProfile& host, FieldChecker* check) {
  check->Seconds("kernel_launch", host.kernel_launch_s);
  check->Seconds("collective_launch", host.collective_launch_s);
  check->Seconds("copy_launch", host.copy_launch_s);
  check->Seconds("host_task", host.host_task_s);
  check->Seconds("step", host.step_s);
}

}  // namespace

Status ValidateCluster(const ClusterSpec& cluster) {
  FieldChecker check;
  check.Integer("nodes", cluster.nodes, 1, kMostNodes);
  check.Integer("gpus", cluster.node.gpus, 1, kMostGpusPerNode);
  // The products below need the counts to be sane.
  TL_RETURN_IF_ERROR(check.status());
  check.Integer("nodes * gpus", int64_t{cluster.nodes} * cluster.node.gpus, 1, kMostGpus);
  CheckDevice(cluster, &check);
  CheckNode(cluster.node, &check);
  CheckFabric(cluster, &check);
  CheckHost(cluster.host, &check);
  return check.status();
}

}  // namespace tideline
