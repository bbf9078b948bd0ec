#include "sim/platform/platform.h"

#include <memory>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sim/synthetic_program.h"

namespace tideline {
namespace {

// Seconds until the last of some flows has arrived.
class Stopwatch : public Engine::Listener {
 public:
  void OnFlow(uint32_t) override { end_s = engine->Now(); }
  void OnTimer(uint32_t) override {}
  Engine* engine = nullptr;
  double end_s = 0;
};

struct Message {
  int32_t from = 0, to = 0;  // GPUs; kHost: the node of the other end
};
constexpr int32_t kHost = -1;

// All messages of 1e9 B at once.
double SecondsOf(const ClusterSpec& cluster, const std::vector<Message>& messages) {
  StatusOr<std::unique_ptr<Engine>> engine = Engine::Make();
  EXPECT_TRUE(engine.ok()) << engine.status();
  std::vector<int32_t> nodes(cluster.nodes);
  std::iota(nodes.begin(), nodes.end(), 0);
  const StatusOr<Platform> platform = Platform::Build(cluster, nodes, **engine);
  EXPECT_TRUE(platform.ok()) << platform.status();
  for (const Message& message : messages) {
    Route route;
    if (message.from == kHost) {
      route = platform->ToDevice(message.to);
    } else if (message.to == kHost) {
      route = platform->ToHost(message.from);
    } else {
      const RouteKind kind = RouteBetween(cluster, message.from, message.to);
      route = platform->Between(kind, message.from, message.to);
    }
    (*engine)->StartFlow(route.source, route.sink, 1000000000, 0);
  }
  Stopwatch stopwatch;
  stopwatch.engine = engine->get();
  EXPECT_TRUE((*engine)->Run(stopwatch).ok());
  return stopwatch.end_s;
}

constexpr double kTight = 1e-9;

// TestCluster: NVLink ports 100e9, PCIe 50e9, NICs 10e9 B/s.
TEST(PlatformTest, SwitchPortsAreSharedPerDirection) {
  const ClusterSpec cluster = TestCluster(1, 4);
  EXPECT_NEAR(SecondsOf(cluster, {{0, 1}}), 0.01, kTight);
  EXPECT_NEAR(SecondsOf(cluster, {{0, 1}, {1, 0}}), 0.01, kTight);  // one direction each
  EXPECT_NEAR(SecondsOf(cluster, {{0, 1}, {2, 3}}), 0.01, kTight);  // the core does not block
  EXPECT_NEAR(SecondsOf(cluster, {{0, 1}, {0, 2}}), 0.02, kTight);  // out of one port
  EXPECT_NEAR(SecondsOf(cluster, {{0, 1}, {2, 1}}), 0.02, kTight);  // into one port
}

TEST(PlatformTest, PcieNodesAndHostCopiesUseThePcieport) {
  ClusterSpec cluster = TestCluster(1, 4);
  cluster.node.interconnect = Interconnect::kPcie;
  EXPECT_EQ(RouteBetween(cluster, 0, 3), RouteKind::kPcie);
  EXPECT_NEAR(SecondsOf(cluster, {{0, 1}}), 0.02, kTight);
  EXPECT_NEAR(SecondsOf(cluster, {{0, 1}, {0, kHost}}), 0.04, kTight);
  EXPECT_NEAR(SecondsOf(cluster, {{0, 1}, {kHost, 0}}), 0.02, kTight);
  cluster.node.interconnect = Interconnect::kSwitch;
  EXPECT_NEAR(SecondsOf(cluster, {{0, 1}, {0, kHost}}), 0.02, kTight);
}

// A pair with two links has 200e9 B/s of its own; a pair without uses PCIe.
TEST(PlatformTest, MeshPairsHaveTheirOwnLinks) {
  ClusterSpec cluster = TestCluster(1, 3);
  cluster.node.interconnect = Interconnect::kMesh;
  cluster.node.links_between = {{0, 2, 1}, {2, 0, 0}, {1, 0, 0}};
  EXPECT_EQ(RouteBetween(cluster, 0, 1), RouteKind::kDirect);
  EXPECT_EQ(RouteBetween(cluster, 1, 2), RouteKind::kPcie);
  EXPECT_NEAR(SecondsOf(cluster, {{0, 1}}), 0.005, kTight);
  EXPECT_NEAR(SecondsOf(cluster, {{0, 1}, {0, 2}}), 0.01, kTight);
  EXPECT_NEAR(SecondsOf(cluster, {{1, 2}}), 0.02, kTight);
}

// GPU g uses NIC g * nics / gpus: with 2 NICs for 4 GPUs, 0 and 1 share one, 2 and 3 the other.
TEST(PlatformTest, GpusShareNics) {
  ClusterSpec cluster = TestCluster(2, 4);
  cluster.node.nics = 2;
  EXPECT_NEAR(SecondsOf(cluster, {{0, 4}}), 0.1, kTight);
  EXPECT_NEAR(SecondsOf(cluster, {{0, 4}, {1, 7}}), 0.2, kTight);
  EXPECT_NEAR(SecondsOf(cluster, {{0, 4}, {2, 7}}), 0.1, kTight);
  EXPECT_NEAR(SecondsOf(cluster, {{0, 4}, {2, 5}}), 0.2, kTight);  // into NIC 0 of node 1
  cluster.node.nics = 4;
  EXPECT_NEAR(SecondsOf(cluster, {{0, 4}, {1, 7}}), 0.1, kTight);
}

// A slow PCIe port bounds what a GPU sends to the network, and copies compete with it.
TEST(PlatformTest, NetworkTrafficCrossesThePciePort) {
  ClusterSpec cluster = TestCluster(2, 1);
  cluster.node.pcie_bandwidth = 5e9;
  EXPECT_NEAR(SecondsOf(cluster, {{0, 1}}), 0.2, kTight);
  EXPECT_NEAR(SecondsOf(cluster, {{0, 1}, {0, kHost}}), 0.4, kTight);
}

// Leafs of 3 and 1 nodes: inside a leaf only NICs count; three nodes share the uplink of 10e9 B/s.
TEST(PlatformTest, LeafsShareTheirUplink) {
  ClusterSpec cluster = TestCluster(4, 1);
  cluster.node.nic_latency_s = 1e-5;
  cluster.fabric.leaf_sizes = {3, 1};
  cluster.fabric.leaf_uplink_bandwidth = 10e9;
  cluster.fabric.spine_latency_s = 2e-6;
  EXPECT_EQ(LeafOf(cluster, 2), 0);
  EXPECT_EQ(LeafOf(cluster, 3), 1);
  EXPECT_EQ(RouteBetween(cluster, 0, 2), RouteKind::kNetwork);
  EXPECT_EQ(RouteBetween(cluster, 2, 3), RouteKind::kAcrossLeafs);
  EXPECT_DOUBLE_EQ(RouteLatency(cluster, RouteKind::kNetwork), 1e-5);
  EXPECT_DOUBLE_EQ(RouteLatency(cluster, RouteKind::kAcrossLeafs), 1.2e-5);
  EXPECT_NEAR(SecondsOf(cluster, {{0, 1}, {1, 2}, {2, 0}}), 0.1, kTight);
  EXPECT_NEAR(SecondsOf(cluster, {{0, 3}}), 0.1, kTight);
  cluster.node.nic_bandwidth = 40e9;
  EXPECT_NEAR(SecondsOf(cluster, {{0, 3}, {1, 3}, {2, 3}}), 0.3, kTight);
  EXPECT_NEAR(SecondsOf(cluster, {{0, 3}, {3, 0}}), 0.1, kTight);
}

}  // namespace
}  // namespace tideline
