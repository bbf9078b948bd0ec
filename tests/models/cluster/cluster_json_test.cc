#include "models/cluster/cluster_json.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "models/cluster/cluster_text.h"

namespace tideline {
namespace {

TEST(ClusterJsonTest, WhatIsWrittenReadsBackEqual) {
  for (const char* text :
       {"dgx-v100-16g", "4x dgx-a100-80g{nics=3}", "p3.16xlarge{gpus=3}", "2x emulated:4x256MiB"}) {
    ClusterSpec cluster = *ParseCluster(text);
    cluster.device.kernel_overhead_s = 1.0 / 3 * 1e-6;
    cluster.node.nic_bandwidth = 1e10 / 3;
    const std::string json = WriteClusterJson(cluster);
    const auto read = ReadClusterJson(json, "c.json");
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(*read, cluster);
    EXPECT_EQ(WriteClusterJson(*read), json);
  }
}

TEST(ClusterJsonTest, LeafsSurvive) {
  ClusterSpec cluster = *ParseCluster("5x dgx-a100-80g");
  cluster.fabric = {.leaf_sizes = {3, 2}, .leaf_uplink_bandwidth = 5e10, .spine_latency_s = 2e-6};
  EXPECT_EQ(*ReadClusterJson(WriteClusterJson(cluster), "c.json"), cluster);
}

TEST(ClusterJsonTest, ABaseNeedsOnlyWhatDiffers) {
  const auto cluster = ReadClusterJson(R"({
    "schema_version": 1,
    "name": "ours",
    "base": "4x dgx-a100-80g",
    "node": {"nics": 2, "nic_bandwidth": "100Gb/s"},
    "fabric": {"leaf_sizes": [2, 2], "leaf_uplink_bandwidth": "50GB/s"}
  })",
                                       "c.json");
  ASSERT_TRUE(cluster.ok()) << cluster.status().message();
  ClusterSpec expected = *ParseCluster("4x dgx-a100-80g");
  expected.name = "ours";
  expected.node.nics = 2;
  expected.node.nic_bandwidth = 12.5e9;
  expected.fabric.leaf_sizes = {2, 2};
  expected.fabric.leaf_uplink_bandwidth = 50e9;
  EXPECT_EQ(*cluster, expected);
}

struct BadDocument {
  const char* text;
  const char* expected;
};

TEST(ClusterJsonTest, ErrorsNameFileAndField) {
  const BadDocument cases[] = {
      {"", "c.json: it is no valid JSON"},
      {"[]", "c.json: it is an array; write an object"},
      {"{}", "c.json: the field `schema_version` is missing"},
      {R"({"schema_version": 2})", "field `schema_version`: 2 is out of range"},
      {R"({"schema_version": 1})", "the field `node` is missing"},
      {R"({"schema_version": 1, "node": {}})", "field `node`: the field `gpus` is missing"},
      {R"({"schema_version": 1, "base": "dgx"})", "field `base`: cluster `dgx`: unknown cluster"},
      {R"({"schema_version": 1, "base": "dgx-a100-80g", "node": {"nic": 2}})",
       "field `node`: unknown field `nic`; did you mean `nics`?"},
      {R"({"schema_version": 1, "base": "dgx-a100-80g", "nodess": 2})",
       "c.json: unknown field `nodess`; did you mean `nodes`?"},
      {R"({"schema_version": 1, "base": "dgx-a100-80g", "device": {"memory": 80}})",
       "field `device.memory`: it is a whole number; write a text"},
      {R"({"schema_version": 1, "base": "dgx-a100-80g", "device": {"memory": "80"}})",
       "field `device.memory`: `80` is no size"},
      {R"({"schema_version": 1, "base": "dgx-a100-80g", "node": {"nics": 0}})",
       "c.json: cluster field `nics`: 0 is out of range"},
      {R"({"schema_version": 1, "base": "dgx-a100-80g", "node": {"interconnect": "swich"}})",
       "field `node.interconnect`: unknown interconnect `swich`; did you mean `switch`?"},
      {R"({"schema_version": 1, "base": "dgx-v100-32g", "node": {"links_between": [[0, 1.5]]}})",
       "field `node.links_between[0][1]`: it is a number with a fraction"},
      {R"({"schema_version": 1, "base": "dgx-v100-32g", "node": {"links_between": [[0]]}})",
       "cluster field `links_between`: it has 1 rows for 8 GPUs"},
  };
  for (const BadDocument& bad : cases) {
    const auto cluster = ReadClusterJson(bad.text, "c.json");
    ASSERT_FALSE(cluster.ok()) << bad.text;
    EXPECT_EQ(ExitCode(cluster.status()), 5) << bad.text;
    EXPECT_NE(cluster.status().message().find(bad.expected), absl::string_view::npos)
        << bad.text << " -> " << cluster.status().message();
  }
}

TEST(LoadClusterTest, ReadsFilesAndTexts) {
  const ClusterSpec cluster = *ParseCluster("2x dgx-a100-40g");
  const std::string path = ::testing::TempDir() + "/cluster.json";
  ASSERT_TRUE(WriteFileAtomically(path, WriteClusterJson(cluster)).ok());
  EXPECT_EQ(*LoadCluster(path), cluster);
  EXPECT_EQ(*LoadCluster("2x dgx-a100-40g"), cluster);
  EXPECT_EQ(ExitCode(LoadCluster("missing.json").status()), 5);
  EXPECT_EQ(ExitCode(LoadCluster("missing").status()), 2);
}

}  // namespace
}  // namespace tideline
