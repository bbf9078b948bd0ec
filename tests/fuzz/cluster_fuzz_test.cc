// Mutated cluster texts and files; ten seconds for the group.
#include <gtest/gtest.h>

#include "models/cluster/cluster_json.h"
#include "models/cluster/cluster_text.h"
#include "models/cluster/validate.h"
#include "tests/fuzz/mutate.h"

namespace tideline {
namespace {

// Whatever is accepted must be valid and survive being written and read.
Status CheckAccepted(const ClusterSpec& cluster) {
  if (!ValidateCluster(cluster).ok()) return InternalError("accepted but not valid");
  const StatusOr<ClusterSpec> read = ReadClusterJson(WriteClusterJson(cluster), "fuzz.json");
  if (!read.ok()) return InternalError(std::string(read.status().message()));
  ClusterSpec same_name = *read;
  same_name.name = cluster.name;  // bytes that are no UTF-8 are replaced when written
  if (!(same_name == cluster)) return InternalError("a cluster changes when written and read");
  return absl::OkStatus();
}

TEST(ClusterFuzzTest, Text) {
  const FuzzResult result =
      FuzzParser({"4x dgx-a100-80g", "dgx-a100-40g{gpus=1}", "emulated:4x256MiB",
                  "2x emulated:2x64MiB{host_memory=2GiB,host_cores=3}",
                  "p3.16xlarge{nics=2,nic_bandwidth=100Gb/s,nvlink_bandwidth=50GB/s,memory=15GiB}"},
                 [](std::string_view text) -> Status {
                   TL_ASSIGN_OR_RETURN(const ClusterSpec cluster, ParseCluster(text));
                   return CheckAccepted(cluster);
                 },
                 {.budget_s = 5,
                  .tokens = {"{", "}", ",", "=", "x ", "4x", "gpus=2", "memory=", "GiB", "GB/s",
                             "dgx-a100-80g", "emulated:", "nvlink_bandwidth=600GB/s"},
                  .exit_codes = {2}});
  EXPECT_GT(result.accepted, 100);
  EXPECT_GT(result.rejected, 1000);
}

TEST(ClusterFuzzTest, Json) {
  const FuzzResult result = FuzzParser(
      {WriteClusterJson(*ParseCluster("4x dgx-v100-32g")),
       WriteClusterJson(*ParseCluster("emulated:4x256MiB")),
       R"({"schema_version": 1, "base": "2x dgx-a100-80g", "node": {"nics": 2}, "fabric": {
          "leaf_sizes": [1, 1], "leaf_uplink_bandwidth": "50GB/s", "spine_latency": "1us"}})"},
      [](std::string_view text) -> Status {
        TL_ASSIGN_OR_RETURN(const ClusterSpec cluster, ReadClusterJson(text, "fuzz.json"));
        return CheckAccepted(cluster);
      },
      {.budget_s = 5,
       .tokens = {"{", "}", "[", "]", "null", "\"base\": \"dgx-a100-40g\",", "\"nodes\": 7,", "-1",
                  "\"1GiB\"", "\"5us\"", "1e300", "\"GB/s\""},
       .exit_codes = {5}});
  EXPECT_GT(result.accepted, 100);
  EXPECT_GT(result.rejected, 1000);
}

}  // namespace
}  // namespace tideline
