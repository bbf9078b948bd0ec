// ValidateCluster: the one place that says which ClusterSpecs are legal. Inner code may then assume
// finite, positive figures and products that do not overflow.
#ifndef TIDELINE_MODELS_CLUSTER_VALIDATE_H_
#define TIDELINE_MODELS_CLUSTER_VALIDATE_H_

#include <cstdint>

#include "base/status.h"
#include "models/cluster/cluster_spec.h"

namespace tideline {

inline constexpr int32_t kMostNodes = 65536;
inline constexpr int32_t kMostGpusPerNode = 1024;
// Above every cluster there is. Step time and memory tide of this many GPUs were simulated in half
// a minute; programs and platforms grow with it.
inline constexpr int32_t kMostGpus = 1 << 17;
inline constexpr int32_t kMostNics = 1024;
inline constexpr int32_t kMostHostCores = 65536;
inline constexpr int64_t kMostMemoryBytes = int64_t{1} << 50;  // of one node, all GPUs together

// Input error (exit 5) naming the first field that is out of range and what to write:
// counts 1..the limits above; rates and speeds 1..1e18; latencies and overheads 0..1e3 s;
// efficiencies 1e-6..1; runtime reserve < memory; a mesh matrix that is square, symmetric, with a
// zero diagonal; leaf sizes that add up to the nodes. Fields that an interconnect does not use
// (nvlink figures of kPcie) may be 0.
Status ValidateCluster(const ClusterSpec& cluster);

}  // namespace tideline

#endif  // TIDELINE_MODELS_CLUSTER_VALIDATE_H_
