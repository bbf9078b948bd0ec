#include "models/cluster/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "models/cluster/cluster_text.h"

namespace tideline {
namespace {

struct Damage {
  const char* field;
  std::function<void(ClusterSpec*)> apply;
};

// Each damage must be refused by the name of its field.
TEST(ValidateClusterTest, NamesTheFieldThatIsOutOfRange) {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  const Damage damages[] = {
      {"nodes", [](ClusterSpec* c) { c->nodes = 0; }},
      {"nodes", [](ClusterSpec* c) { c->nodes = 1 << 30; }},
      {"gpus", [](ClusterSpec* c) { c->node.gpus = -1; }},
      {"nodes * gpus", [](ClusterSpec* c) { c->nodes = 65536, c->node.gpus = 1024; }},
      {"memory", [](ClusterSpec* c) { c->device.memory_bytes = 0; }},
      {"memory", [](ClusterSpec* c) { c->device.memory_bytes = int64_t{1} << 62; }},
      {"runtime_reserve", [](ClusterSpec* c) { c->device.runtime_reserve_bytes = -1; }},
      {"runtime_reserve",
       [](ClusterSpec* c) { c->device.runtime_reserve_bytes = c->device.memory_bytes; }},
      {"peak_fp32", [=](ClusterSpec* c) { c->device.peak_fp32_flops = nan; }},
      {"peak_16bit", [](ClusterSpec* c) { c->device.peak_16bit_flops = 0; }},
      {"memory_bandwidth", [=](ClusterSpec* c) { c->device.memory_bandwidth = infinity; }},
      {"kernel_overhead", [](ClusterSpec* c) { c->device.kernel_overhead_s = -1e-6; }},
      {"gemm_efficiency", [](ClusterSpec* c) { c->device.gemm_efficiency = 1.01; }},
      {"gemm_efficiency", [](ClusterSpec* c) { c->device.gemm_efficiency = 0; }},
      {"half_m", [=](ClusterSpec* c) { c->device.half_m = nan; }},
      {"half_n", [](ClusterSpec* c) { c->device.half_n = -1; }},
      {"half_k", [=](ClusterSpec* c) { c->device.half_k = infinity; }},
      {"bandwidth_efficiency", [=](ClusterSpec* c) { c->device.bandwidth_efficiency = nan; }},
      {"nvlink_bandwidth", [](ClusterSpec* c) { c->node.nvlink_bandwidth = 0; }},
      {"nvlink_latency", [](ClusterSpec* c) { c->node.nvlink_latency_s = 1e4; }},
      {"links_between", [](ClusterSpec* c) { c->node.links_between.pop_back(); }},
      {"links_between", [](ClusterSpec* c) { c->node.links_between[3].pop_back(); }},
      {"links_between", [](ClusterSpec* c) { c->node.links_between[3][3] = 1; }},
      {"links_between", [](ClusterSpec* c) { c->node.links_between[3][2] = 5; }},
      {"links_between",
       [](ClusterSpec* c) {
         c->node.links_between[3][2] = -1;
         c->node.links_between[2][3] = -1;
       }},
      {"links_between", [](ClusterSpec* c) { c->node.interconnect = Interconnect::kSwitch; }},
      {"pcie_bandwidth", [=](ClusterSpec* c) { c->node.pcie_bandwidth = nan; }},
      {"pcie_latency", [=](ClusterSpec* c) { c->node.pcie_latency_s = nan; }},
      {"nics", [](ClusterSpec* c) { c->node.nics = 0; }},
      {"nic_bandwidth", [](ClusterSpec* c) { c->node.nic_bandwidth = -1; }},
      {"nic_latency", [=](ClusterSpec* c) { c->node.nic_latency_s = infinity; }},
      {"host_memory", [](ClusterSpec* c) { c->node.host_memory_bytes = -1; }},
      {"host_cores", [](ClusterSpec* c) { c->node.host_cores = 0; }},
      {"dram_bandwidth", [](ClusterSpec* c) { c->node.dram_bandwidth = 0; }},
      {"spine_latency", [=](ClusterSpec* c) { c->fabric.spine_latency_s = nan; }},
      {"leaf_uplink_bandwidth",
       [](ClusterSpec* c) {
         c->fabric.leaf_sizes = {2, 2};
       }},
      {"leaf_sizes",
       [](ClusterSpec* c) {
         c->fabric.leaf_sizes = {2, 3};
         c->fabric.leaf_uplink_bandwidth = 1e9;
       }},
      {"leaf_sizes",
       [](ClusterSpec* c) {
         c->fabric.leaf_sizes = {4, 0};
         c->fabric.leaf_uplink_bandwidth = 1e9;
       }},
      {"kernel_launch", [=](ClusterSpec* c) { c->host.kernel_launch_s = nan; }},
      {"collective_launch", [](ClusterSpec* c) { c->host.collective_launch_s = -1; }},
      {"copy_launch", [](ClusterSpec* c) { c->host.copy_launch_s = -1; }},
      {"host_task", [](ClusterSpec* c) { c->host.host_task_s = -1; }},
      {"step", [](ClusterSpec* c) { c->host.step_s = -1; }},
  };
  const auto valid = ParseCluster("4x dgx-v100-32g");
  ASSERT_TRUE(ValidateCluster(*valid).ok());
  for (const Damage& damage : damages) {
    ClusterSpec cluster = *valid;
    damage.apply(&cluster);
    const Status status = ValidateCluster(cluster);
    ASSERT_FALSE(status.ok()) << damage.field;
    EXPECT_EQ(ExitCode(status), 5);
    EXPECT_NE(status.message().find(std::string("`") + damage.field + "`"), absl::string_view::npos)
        << damage.field << " -> " << status.message();
  }
}

TEST(ValidateClusterTest, UnevenLeafsThatAddUpAreLegal) {
  auto cluster = ParseCluster("5x dgx-a100-80g");
  cluster->fabric.leaf_sizes = {3, 2};
  cluster->fabric.leaf_uplink_bandwidth = 100e9;
  EXPECT_TRUE(ValidateCluster(*cluster).ok());
}

TEST(ValidateClusterTest, PcieNodesNeedNoNvlink) {
  auto cluster = ParseCluster("dgx-a100-80g");
  cluster->node.interconnect = Interconnect::kPcie;
  cluster->node.nvlink_bandwidth = 0;
  EXPECT_TRUE(ValidateCluster(*cluster).ok());
}

}  // namespace
}  // namespace tideline
