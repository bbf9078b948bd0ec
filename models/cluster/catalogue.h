// Catalogue: the machines that Tideline knows by name, with the source of each figure.
//
// Figures are nominal (data sheets) unless a comment says that they were fitted to measurements.
// Bandwidths are per direction.
#ifndef TIDELINE_MODELS_CLUSTER_CATALOGUE_H_
#define TIDELINE_MODELS_CLUSTER_CATALOGUE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "models/cluster/cluster_spec.h"

namespace tideline {

struct CatalogueEntry {
  std::string name;      // "dgx-a100-80g"
  std::string sentence;  // for lists and help
  NodeSpec node;
  DeviceSpec device;
};

// All entries, in the order that lists show them.
std::vector<CatalogueEntry> Catalogue();

// Host costs of our own executor driving real GPUs.
HostProfile CudaHostProfile();

// One node of `gpus` emulated devices with `memory_bytes` each: listed nominal speeds, no runtime
// reserve, not calibrated.
ClusterSpec EmulatedCluster(int32_t gpus, int64_t memory_bytes);

}  // namespace tideline

#endif  // TIDELINE_MODELS_CLUSTER_CATALOGUE_H_
