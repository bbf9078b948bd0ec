#include "models/cluster/cluster_text.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "models/cluster/catalogue.h"
#include "models/cluster/validate.h"

namespace tideline {
namespace {

TEST(CatalogueTest, EveryEntryIsValidAndFoundByName) {
  for (const CatalogueEntry& entry : Catalogue()) {
    const auto cluster = ParseCluster(entry.name);
    ASSERT_TRUE(cluster.ok()) << cluster.status().message();
    EXPECT_EQ(cluster->node, entry.node);
    EXPECT_EQ(cluster->device, entry.device);
    EXPECT_EQ(cluster->name, entry.name);
    EXPECT_EQ(cluster->nodes, 1);
    EXPECT_FALSE(cluster->emulated);
    EXPECT_GT(cluster->host.kernel_launch_s, 0);
    EXPECT_GT(cluster->device.runtime_reserve_bytes, 0);
  }
}

TEST(CatalogueTest, EachV100OfTheMeshHasSixLinks) {
  const auto cluster = ParseCluster("p3.16xlarge");
  for (const std::vector<int32_t>& row : cluster->node.links_between) {
    int32_t links = 0;
    for (const int32_t count : row) links += count;
    EXPECT_EQ(links, 6);
  }
}

TEST(ClusterTextTest, CountsNodes) {
  EXPECT_EQ(ParseCluster("4x dgx-a100-80g")->nodes, 4);
  EXPECT_EQ(ParseCluster(" 128x dgx-a100-80g ")->gpus(), 1024);
  EXPECT_EQ(ParseCluster("2xdgx-a100-80g")->gpus(), 16);
}

TEST(ClusterTextTest, OverridesReplaceFigures) {
  const auto cluster = ParseCluster(
      "dgx-a100-40g{gpus=1, memory=20GiB,host_memory=240GB,host_cores=8,nics=2,"
      "nic_bandwidth=100Gb/s,nvlink_bandwidth=600GB/s}");
  ASSERT_TRUE(cluster.ok()) << cluster.status().message();
  EXPECT_EQ(cluster->gpus(), 1);
  EXPECT_EQ(cluster->device.memory_bytes, 20 * kGiB);
  EXPECT_EQ(cluster->node.host_memory_bytes, 240'000'000'000);
  EXPECT_EQ(cluster->node.host_cores, 8);
  EXPECT_EQ(cluster->node.nics, 2);
  EXPECT_EQ(cluster->node.nic_bandwidth, 12.5e9);
  EXPECT_EQ(cluster->node.nvlink_bandwidth, 600e9);
}

TEST(ClusterTextTest, OneGpuKeepsTheWholeHost) {
  EXPECT_EQ(ParseCluster("dgx-a100-40g{gpus=1}")->node.host_memory_bytes, 1024 * kGiB);
}

TEST(ClusterTextTest, FewerGpusKeepTheirPartOfTheMesh) {
  const auto cluster = ParseCluster("dgx-v100-32g{gpus=4}");
  EXPECT_EQ(
      cluster->node.links_between,
      (std::vector<std::vector<int32_t>>{{0, 1, 1, 2}, {1, 0, 2, 1}, {1, 2, 0, 2}, {2, 1, 2, 0}}));
}

TEST(ClusterTextTest, EmulatedClusters) {
  const auto cluster = ParseCluster("emulated:4x256MiB");
  ASSERT_TRUE(cluster.ok()) << cluster.status().message();
  EXPECT_TRUE(cluster->emulated);
  EXPECT_EQ(cluster->nodes, 1);
  EXPECT_EQ(cluster->gpus(), 4);
  EXPECT_EQ(cluster->device.memory_bytes, 256 * kMiB);
  EXPECT_EQ(cluster->device.runtime_reserve_bytes, 0);
  EXPECT_FALSE(cluster->device.calibrated);
  const auto overridden = ParseCluster("2x emulated:2x64MiB{host_memory=2GiB}");
  EXPECT_EQ(overridden->gpus(), 4);
  EXPECT_EQ(overridden->node.host_memory_bytes, 2 * kGiB);
}

struct BadText {
  const char* text;
  const char* expected;
};

TEST(ClusterTextTest, BadTextSaysWhatIsWrong) {
  const BadText cases[] = {
      {"", "the name is missing; valid: dgx-v100-16g"},
      {"4x", "the name is missing"},
      {"dgx-a100-80", "did you mean `dgx-a100-80g`? valid: dgx-v100-16g, dgx-v100-32g"},
      {"h100", "unknown cluster `h100`; valid: "},
      {"0x dgx-a100-80g", "out of range; write a whole number from 1 to 65536"},
      {"99999999999999999999x dgx-a100-80g", "out of range"},
      {"4 dgx-a100-80g", "write for example 4x dgx-a100-80g"},
      {"65536x dgx-a100-80g{gpus=8}x", "must close at its end"},
      {"dgx-a100-80g{gpus=9}", "gpus: `9` is out of range; write a whole number from 1 to 8"},
      {"dgx-a100-80g{gpu=1}", "unknown key `gpu`; did you mean `gpus`? valid: gpus, memory"},
      {"dgx-a100-80g{gpus}", "has no value"},
      {"dgx-a100-80g{gpus=1,gpus=2}", "given twice"},
      {"dgx-a100-80g{memory=80}", "its unit is missing"},
      {"dgx-a100-80g{memory=1GiB}", "cluster field `runtime_reserve`"},
      {"dgx-a100-80g{memory=1000TiB}", "cluster field `memory`"},
      {"dgx-a100-80g{nic_bandwidth=0B/s}", "cluster field `nic_bandwidth`: 0 is out of range"},
      {"dgx-a100-80g{nics=0}", "nics: `0` is out of range"},
      {"dgx-a100-80g{host_memory=0}", "cluster field `host_memory`"},
      {"emulated:4", "write for example emulated:4x256MiB"},
      {"emulated:0x256MiB", "out of range"},
      {"emulated:4x0MiB", "cluster field `memory`"},
      {"emulated:4x256", "its unit is missing"},
      {"emulated", "did you mean"},
      {"2000x emulated:1024x1MiB", "cluster field `nodes * gpus`: 2048000 is out of range"},
      {"dgx\n\x1b[31m", "`dgx\\x0a\\x1b[31m`"},
  };
  for (const BadText& bad : cases) {
    const auto cluster = ParseCluster(bad.text);
    ASSERT_FALSE(cluster.ok()) << bad.text;
    EXPECT_EQ(ExitCode(cluster.status()), 2) << bad.text;
    EXPECT_NE(cluster.status().message().find(bad.expected), absl::string_view::npos)
        << bad.text << " -> " << cluster.status().message();
  }
}

}  // namespace
}  // namespace tideline
