#include "sim/platform/platform.h"

#include <algorithm>

#include "base/check.h"

namespace tideline {
namespace {

int32_t LinksBetween(const NodeSpec& node, int32_t from, int32_t to) {
  return node.links_between[from][to];
}

}  // namespace

int32_t LeafOf(const ClusterSpec& cluster, int32_t node) {
  int32_t leaf = 0, first_beyond = 0;
  for (const int32_t size : cluster.fabric.leaf_sizes) {
    first_beyond += size;
    if (node < first_beyond) return leaf;
    ++leaf;
  }
  return 0;
}

RouteKind RouteBetween(const ClusterSpec& cluster, int32_t from, int32_t to) {
  TL_CHECK(from != to, "a route has two different ends");
  const int32_t from_node = from / cluster.node.gpus, to_node = to / cluster.node.gpus;
  if (from_node != to_node) {
    return LeafOf(cluster, from_node) == LeafOf(cluster, to_node) ? RouteKind::kNetwork
                                                                  : RouteKind::kAcrossLeafs;
  }
  switch (cluster.node.interconnect) {
    case Interconnect::kSwitch:
      return RouteKind::kSwitch;
    case Interconnect::kPcie:
      return RouteKind::kPcie;
    case Interconnect::kMesh:
      break;
  }
  const int32_t links =
      LinksBetween(cluster.node, from % cluster.node.gpus, to % cluster.node.gpus);
  return links > 0 ? RouteKind::kDirect : RouteKind::kPcie;
}

double RouteLatency(const ClusterSpec& cluster, RouteKind kind) {
  switch (kind) {
    case RouteKind::kSwitch:
    case RouteKind::kDirect:
      return cluster.node.nvlink_latency_s;
    case RouteKind::kPcie:
      return cluster.node.pcie_latency_s;
    case RouteKind::kNetwork:
      return cluster.node.nic_latency_s;
    case RouteKind::kAcrossLeafs:
      return cluster.node.nic_latency_s + cluster.fabric.spine_latency_s;
  }
  return 0;
}

bool SharesCores(const ClusterSpec& cluster) {
  return cluster.emulated && cluster.device.calibrated;
}

class Platform::Builder {
 public:
  Builder(const ClusterSpec& cluster, Engine& engine)
      : cluster_(cluster), engine_(engine), leafs_(cluster.fabric.leaf_sizes.size()) {}

  NodeEnds AddNode(int32_t node) {
    const NodeSpec& spec = cluster_.node;
    NodeEnds ends;
    ends.memory = AddMemory();
    if (SharesCores(cluster_)) {
      // A fat link holds each flow to its own bandwidth: one piece of work has one core.
      const double rate = std::max(1.0, spec.host_cores * spec.core_efficiency) * kCoreRate;
      const uint32_t one = engine_.AddLink(kCoreRate, Engine::Sharing::kFat);
      ends.cores = AddEnds({engine_.AddLink(rate), one}, {});
    }
    std::vector<Pair> nics;
    if (cluster_.nodes > 1) {
      for (int32_t nic = 0; nic < spec.nics; ++nic) nics.push_back(AddPair(spec.nic_bandwidth));
    }
    for (int32_t gpu = 0; gpu < spec.gpus; ++gpu) {
      const Pair* nic = nics.empty() ? nullptr : &nics[int64_t{gpu} * spec.nics / spec.gpus];
      ends.gpus.push_back(AddGpu(gpu, LeafOf(cluster_, node), nic));
    }
    return ends;
  }

 private:
  struct Pair {
    uint32_t up, down;
  };

  Pair AddPair(double bandwidth) {
    const uint32_t up = engine_.AddLink(bandwidth);
    return {up, engine_.AddLink(bandwidth)};
  }

  Ends AddEnds(const std::vector<uint32_t>& up, const std::vector<uint32_t>& down) {
    const uint32_t source = engine_.AddSource(up);
    return {source, engine_.AddSink(down)};
  }

  Ends AddMemory() {
    const uint32_t dram = engine_.AddLink(cluster_.node.dram_bandwidth);
    return AddEnds({dram}, {dram});
  }

  GpuEnds AddGpu(int32_t gpu, int32_t leaf, const Pair* nic) {
    const NodeSpec& spec = cluster_.node;
    GpuEnds ends;
    const Pair pcie = AddPair(spec.pcie_bandwidth);
    std::vector<uint32_t> up = {pcie.up}, down = {pcie.down};  // towards the network and back
    ends.pcie = AddEnds(up, down);
    if (spec.gpus > 1 && spec.interconnect == Interconnect::kSwitch) {
      const Pair port = AddPair(spec.nvlink_bandwidth);
      ends.port = AddEnds({port.up}, {port.down});
    }
    if (spec.gpus > 1 && spec.interconnect == Interconnect::kMesh) {
      for (int32_t other = 0; other < spec.gpus; ++other) {
        const int32_t links = other == gpu ? 0 : LinksBetween(spec, gpu, other);
        ends.direct.push_back(
            links == 0 ? Ends{} : AddEnds({engine_.AddLink(spec.nvlink_bandwidth * links)}, {}));
      }
    }
    if (nic == nullptr) return ends;
    up.push_back(nic->up);
    down.push_back(nic->down);
    ends.network = AddEnds(up, down);
    if (cluster_.fabric.leaf_sizes.size() > 1) {
      up.push_back(LeafLinks(leaf).up);
      down.push_back(LeafLinks(leaf).down);
      ends.across = AddEnds(up, down);
    }
    return ends;
  }

  const Pair& LeafLinks(int32_t leaf) {
    std::vector<Pair>& links = leafs_[leaf];
    if (links.empty()) links.push_back(AddPair(cluster_.fabric.leaf_uplink_bandwidth));
    return links.front();
  }

  const ClusterSpec& cluster_;
  Engine& engine_;
  std::vector<std::vector<Pair>> leafs_;  // empty until a node of that leaf is built
};

StatusOr<Platform> Platform::Build(const ClusterSpec& cluster, std::span<const int32_t> nodes,
                                   Engine& engine) {
  Platform platform;
  platform.gpus_per_node_ = cluster.node.gpus;
  platform.node_index_.assign(cluster.nodes, UINT32_MAX);
  Builder builder(cluster, engine);
  for (const int32_t node : nodes) {
    TL_CHECK(node >= 0 && node < cluster.nodes, "built nodes are nodes of the cluster");
    platform.node_index_[node] = static_cast<uint32_t>(platform.nodes_.size());
    platform.nodes_.push_back(builder.AddNode(node));
  }
  TL_RETURN_IF_ERROR(engine.Seal());
  return platform;
}

Route Platform::Between(RouteKind kind, int32_t from_gpu, int32_t to_gpu) const {
  const GpuEnds& from = EndsOf(from_gpu);
  const GpuEnds& to = EndsOf(to_gpu);
  Route route;
  switch (kind) {
    case RouteKind::kSwitch:
      route = {from.port.source, to.port.sink};
      break;
    case RouteKind::kDirect: {
      const Ends& ends = from.direct[to_gpu % gpus_per_node_];
      route = {ends.source, ends.sink};
      break;
    }
    case RouteKind::kPcie:
      route = {from.pcie.source, to.pcie.sink};
      break;
    case RouteKind::kNetwork:
      route = {from.network.source, to.network.sink};
      break;
    case RouteKind::kAcrossLeafs:
      route = {from.across.source, to.across.sink};
      break;
  }
  TL_CHECK(route.source != kAbsent && route.sink != kAbsent,
           "the cluster has a route of this kind");
  return route;
}

Route Platform::Cores(int32_t gpu) const {
  const Ends& cores = NodeOf(gpu).cores;
  TL_CHECK(cores.source != kAbsent, "the devices share cores");
  return {cores.source, cores.sink};
}

Route Platform::ToDevice(int32_t gpu) const {
  return {NodeOf(gpu).memory.source, EndsOf(gpu).pcie.sink};
}

Route Platform::ToHost(int32_t gpu) const {
  return {EndsOf(gpu).pcie.source, NodeOf(gpu).memory.sink};
}

}  // namespace tideline
