// Clusters as users name them:
//
//   dgx-a100-80g                       one node of the catalogue
//   4x dgx-a100-80g                    four of them, non-blocking fabric
//   dgx-a100-40g{gpus=1}               with overrides
//   emulated:4x256MiB                  one node of four emulated GPUs of 256 MiB each
//   2x emulated:4x64MiB{host_memory=2GiB}
//
// Files are read by LoadCluster (models/cluster/cluster_json.h).
//
// Override keys: gpus (of the first ones of a node), memory (per GPU), host_memory, host_cores,
// nics, nic_bandwidth (of one), nvlink_bandwidth (per direction: of a GPU's port, or of one link in
// a mesh). {gpus=1} keeps the whole host.
#ifndef TIDELINE_MODELS_CLUSTER_CLUSTER_TEXT_H_
#define TIDELINE_MODELS_CLUSTER_CLUSTER_TEXT_H_

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/cluster/cluster_spec.h"

namespace tideline {

// Reads text of the grammar above. The result has passed ValidateCluster and carries
// `text` as its name. Usage errors (exit 2): malformed text, unknown name or key with the valid
// ones and the nearest, a value out of range.
StatusOr<ClusterSpec> ParseCluster(std::string_view text);

// Applies "gpus=4,memory=2GiB" to a valid cluster. Usage errors (exit 2) as above.
Status OverrideCluster(std::string_view list, ClusterSpec* cluster);

// "dgx-v100-16g", ..., "emulated:GPUSxMEMORY".
std::vector<std::string> ClusterNames();

}  // namespace tideline

#endif  // TIDELINE_MODELS_CLUSTER_CLUSTER_TEXT_H_
