// ClusterSpec as a JSON file that a person can write: sizes, rates and times are texts with units.
//
//   {
//     "schema_version": 1,
//     "name": "four nodes of ours",
//     "nodes": 4,
//     "base": "dgx-a100-80g",
//     "node": {"nics": 2, "nic_bandwidth": "100Gb/s"},
//     "fabric": {"leaf_sizes": [2, 2], "leaf_uplink_bandwidth": "50GB/s"}
//   }
//
// `base` (optional) is any cluster text; fields that are given replace its figures. Without it
// every field that ValidateCluster needs must be there. Unknown fields, wrong kinds and values out
// of range are input errors (exit 5) naming file and field. WriteClusterJson writes every field and
// no base; reading it gives an equal ClusterSpec.
#ifndef TIDELINE_MODELS_CLUSTER_CLUSTER_JSON_H_
#define TIDELINE_MODELS_CLUSTER_CLUSTER_JSON_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "models/cluster/cluster_spec.h"

namespace tideline {

// `file` only serves messages.
StatusOr<ClusterSpec> ReadClusterJson(std::string_view text, const std::string& file);

// The cluster that a user names: a file when `text` ends in ".json", also with overrides
// ("ours.json{gpus=4}"), else ParseCluster.
StatusOr<ClusterSpec> LoadCluster(const std::string& text);

std::string WriteClusterJson(const ClusterSpec& cluster);

}  // namespace tideline

#endif  // TIDELINE_MODELS_CLUSTER_CLUSTER_JSON_H_
