// Platform: a ClusterSpec as links and routes.
//
// Resources, each shared max-min fairly by the flows on it (bytes/s per direction):
//   NVLink port up and down of every GPU (kSwitch) | direct links per ordered pair of GPUs (kMesh)
//   PCIe port up and down of every GPU: traffic between GPUs of a kPcie node and pairs of a kMesh
//     node without a direct link, copies to and from the host, and all traffic to the network
//   DRAM of the node, both directions together, under copies
//   NICs up and down, NIC g * nics / gpus for GPU g
//   leaf uplinks up and down (FabricSpec)
// Switch cores and the spine do not block.
//
// Emulated devices that were calibrated (SharesCores) have no links of their own: a kernel, a
// collective, a message or a copy is work of one core of the node's, and the cores are what they
// contend for. Core work is a flow of nanoseconds over the node's cores, at most one second per
// second.
//
// Folding (sim/fold): only some nodes are built, and every other node is stood for by one of them.
// A flow then takes the ports of the ranks that stand for its ends, while its kind of route is that
// of its true ends: from a representative to another node of its own class it leaves through the
// representative's NIC and comes in through the same representative's NIC.
#ifndef TIDELINE_SIM_PLATFORM_PLATFORM_H_
#define TIDELINE_SIM_PLATFORM_PLATFORM_H_

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "models/cluster/cluster_spec.h"
#include "sim/engine/engine.h"

namespace tideline {

// How two different GPUs reach each other.
enum class RouteKind : uint8_t {
  kSwitch,      // NVLink ports of the same node
  kDirect,      // the pair's own NVLinks
  kPcie,        // PCIe ports of the same node
  kNetwork,     // NICs, within one leaf or in a fabric without leafs
  kAcrossLeafs  // NICs and leaf uplinks
};

// GPUs are numbered over the cluster. Precondition: from != to, both in range.
RouteKind RouteBetween(const ClusterSpec& cluster, int32_t from, int32_t to);

// Seconds before the first byte arrives.
double RouteLatency(const ClusterSpec& cluster, RouteKind kind);

// Whether the devices are emulated on the cores of their node and were measured there
// (tideline calibrate), so that they are simulated as sharing them.
bool SharesCores(const ClusterSpec& cluster);
inline constexpr double kCoreRate = 1e9;  // nanoseconds of work that one core does in a second

// Which leaf a node hangs on; 0 without leafs.
int32_t LeafOf(const ClusterSpec& cluster, int32_t node);

// The two ends a flow needs.
struct Route {
  uint32_t source = 0;
  uint32_t sink = 0;
};

class Platform {
 public:
  // Adds links, sources and sinks of `nodes` (ascending) to `engine`, and seals it. Precondition:
  // `cluster` has passed ValidateCluster (models/cluster/validate.h).
  static StatusOr<Platform> Build(const ClusterSpec& cluster, std::span<const int32_t> nodes,
                                  Engine& engine);

  // The route of a flow of kind `kind` whose ends are stood for by these GPUs, both on built nodes.
  // For kSwitch, kDirect and kPcie they are on one node.
  Route Between(RouteKind kind, int32_t from_gpu, int32_t to_gpu) const;

  // The cores that emulate a GPU. Precondition: SharesCores.
  Route Cores(int32_t gpu) const;

  // Between a GPU and its node's memory.
  Route ToDevice(int32_t gpu) const;
  Route ToHost(int32_t gpu) const;

 private:
  // Sources and sinks of one GPU; kAbsent where the cluster has none.
  static constexpr uint32_t kAbsent = UINT32_MAX;
  struct Ends {
    uint32_t source = kAbsent, sink = kAbsent;
  };
  struct GpuEnds {
    Ends port, pcie, network, across;
    std::vector<Ends> direct;  // kMesh: to each GPU of the node
  };
  struct NodeEnds {
    Ends memory;
    Ends cores;
    std::vector<GpuEnds> gpus;
  };

  class Builder;
  const NodeEnds& NodeOf(int32_t gpu) const { return nodes_[node_index_[gpu / gpus_per_node_]]; }
  const GpuEnds& EndsOf(int32_t gpu) const { return NodeOf(gpu).gpus[gpu % gpus_per_node_]; }

  int32_t gpus_per_node_ = 1;
  std::vector<uint32_t> node_index_;  // per node of the cluster: into nodes_
  std::vector<NodeEnds> nodes_;
};

}  // namespace tideline

#endif  // TIDELINE_SIM_PLATFORM_PLATFORM_H_
