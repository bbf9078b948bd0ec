#include "sim/fold/fold.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "sim/simulate.h"
#include "tests/sim/synthetic_program.h"

namespace tideline {
namespace {

Folding FoldOf(const Program& program, const ClusterSpec& cluster,
               const std::vector<double>& slowdown) {
  return Fold(program, Communicators(program), cluster, slowdown);
}

Folding FoldOf(const Program& program, const ClusterSpec& cluster) {
  return FoldOf(program, cluster, std::vector<double>(program.ranks.size(), 1.0));
}

// The shape of gpt3-175b on 128 nodes: tp in the node, a pipeline over 8 nodes, 16 replicas. Nodes
// of one stage do the same: 8 classes.
TEST(FoldTest, ReplicasOfAStageAreOneClass) {
  TrainingShape shape{.tp = 8, .pp = 8, .dp = 16, .micro_batches = 8};
  const Program program = SyntheticTraining(shape);
  const Folding folding = FoldOf(program, TestCluster(128, 8));
  EXPECT_EQ(folding.nodes.size(), 8u);
  EXPECT_EQ(folding.ranks.size(), 64u);
  for (int32_t rank = 0; rank < 1024; ++rank) {
    const int32_t stands_for = folding.stands_for[rank];
    EXPECT_EQ(stands_for % 8, rank % 8);  // the same GPU of its node
    EXPECT_EQ(program.ranks[stands_for].role, program.ranks[rank].role);
  }
}

// Data parallelism alone, over nodes: every node is like every other.
TEST(FoldTest, PlainDataParallelismIsOneNode) {
  const Program program = SyntheticTraining({.dp = 32});
  EXPECT_EQ(FoldOf(program, TestCluster(4, 8)).nodes, std::vector<int32_t>{0});
}

// A straggler makes its node different, and in a ring the nodes at each distance from it on either
// side: 8 nodes all differ, because "next" and "previous" tell left from right.
TEST(FoldTest, AStragglerSplitsItsRing) {
  const Program program = SyntheticTraining({.tp = 4, .dp = 8});
  std::vector<double> slowdown(32, 1.0);
  slowdown[5] = 1.5;
  EXPECT_EQ(FoldOf(program, TestCluster(8, 4), slowdown).nodes.size(), 8u);
}

// Two straggling nodes opposite each other: distances 0..3 repeat, 4 classes.
TEST(FoldTest, SymmetryThatIsLeftIsUsed) {
  const Program program = SyntheticTraining({.tp = 4, .dp = 8});
  std::vector<double> slowdown(32, 1.0);
  slowdown[5] = slowdown[21] = 1.5;
  const Folding folding = FoldOf(program, TestCluster(8, 4), slowdown);
  EXPECT_EQ(folding.nodes, (std::vector<int32_t>{0, 1, 2, 3}));
  EXPECT_EQ(folding.stands_for[21], 5);
}

// With contended uplinks whole leafs fold: leafs of 2, 2, 3 nodes under dp over all nodes. The ring
// runs through all three, so no leaf is like another.
TEST(FoldTest, LeafsFoldAsAWhole) {
  ClusterSpec cluster = TestCluster(6, 2);
  cluster.fabric.leaf_uplink_bandwidth = 20e9;
  cluster.fabric.leaf_sizes = {2, 2, 2};
  const Program program = SyntheticTraining({.tp = 2, .dp = 6});
  EXPECT_EQ(FoldOf(program, cluster).nodes, (std::vector<int32_t>{0, 1}));
  cluster.fabric.leaf_sizes = {3, 2, 1};
  EXPECT_EQ(FoldOf(program, cluster).nodes.size(), 6u);
}

// ---- Folded and unfolded agree ----

void ExpectEqual(double folded, double unfolded, double scale, const std::string& what) {
  EXPECT_NEAR(folded, unfolded, 1e-9 * scale) << what;
}

// Both simulations of a placement; returns how many nodes folding saved.
int32_t Compare(const Program& program, const ClusterSpec& cluster, SimulationOptions options,
                const std::string& what) {
  options.fold = true;
  const StatusOr<SimulationResult> folded = Simulate(program, cluster, options, nullptr);
  options.fold = false;
  const StatusOr<SimulationResult> unfolded = Simulate(program, cluster, options, nullptr);
  EXPECT_TRUE(folded.ok()) << what << folded.status();
  EXPECT_TRUE(unfolded.ok()) << what << unfolded.status();
  if (!folded.ok() || !unfolded.ok()) return 0;
  const double step_s = unfolded->step_time_s;
  EXPECT_GT(step_s, 0) << what;
  EXPECT_EQ(folded->bodies_played, unfolded->bodies_played) << what;
  ExpectEqual(folded->step_time_s, step_s, step_s, what + "step");
  for (size_t rank = 0; rank < unfolded->ranks.size(); ++rank) {
    const RankResult& a = folded->ranks[rank];
    const RankResult& b = unfolded->ranks[rank];
    const std::string where = what + "rank " + std::to_string(rank);
    ExpectEqual(a.step_s, b.step_s, step_s, where);
    ExpectEqual(a.split.compute, b.split.compute, step_s, where + " compute");
    ExpectEqual(a.split.host, b.split.host, step_s, where + " host");
    ExpectEqual(a.split.exposed_comm, b.split.exposed_comm, step_s, where + " exposed");
    ExpectEqual(a.split.bubble, b.split.bubble, step_s, where + " bubble");
    ExpectEqual(a.split.stall, b.split.stall, step_s, where + " stall");
    EXPECT_EQ(a.live_peak_bytes, b.live_peak_bytes) << where;
    EXPECT_EQ(a.node_bytes_sent, b.node_bytes_sent) << where;
    EXPECT_EQ(a.network_bytes_sent, b.network_bytes_sent) << where;
    EXPECT_EQ(a.host_bytes_copied, b.host_bytes_copied) << where;
  }
  return unfolded->node_classes - folded->node_classes;
}

using Generator = std::mt19937;

int32_t Pick(Generator& generator, const std::vector<int32_t>& values) {
  return values[generator() % values.size()];
}

// Up to 64 GPUs: tp 1 to 8 on nodes of 4 or 8 GPUs, any mesh order, NICs shared by 1 to 8 GPUs,
// switch, mesh and PCIe nodes, leafs of equal and uneven sizes, stragglers.
ClusterSpec RandomCluster(Generator& generator, int32_t ranks) {
  const int32_t gpus = Pick(generator, {4, 8});
  const int32_t nodes = std::max(2, (ranks + gpus - 1) / gpus);
  ClusterSpec cluster = TestCluster(nodes, gpus);
  NodeSpec& node = cluster.node;
  node.nics = Pick(generator, {1, 2, gpus});
  node.nvlink_latency_s = 2e-6;
  node.pcie_latency_s = 5e-6;
  node.nic_latency_s = 1e-5;
  node.interconnect = static_cast<Interconnect>(Pick(generator, {0, 0, 1, 2}));
  if (node.interconnect == Interconnect::kMesh) {
    for (int32_t from = 0; from < gpus; ++from) {
      node.links_between.emplace_back(gpus, 0);
      for (int32_t to = 0; to < gpus; ++to) {
        // A ring of double links and single diagonals; other pairs use PCIe.
        const int32_t distance = std::min((from - to + gpus) % gpus, (to - from + gpus) % gpus);
        node.links_between[from][to] = distance == 1 ? 2 : (distance == gpus / 2 ? 1 : 0);
      }
    }
  }
  cluster.host.kernel_launch_s = Pick(generator, {0, 5, 60}) * 1e-6;
  cluster.host.collective_launch_s = 1e-5;
  cluster.host.host_task_s = 1e-5;
  if (generator() % 3 == 0) {
    cluster.fabric.leaf_uplink_bandwidth = Pick(generator, {5, 20, 80}) * 1e9;
    cluster.fabric.spine_latency_s = 3e-6;
    int32_t left = nodes;
    while (left > 0) {
      const int32_t size = std::min(left, Pick(generator, {1, 2, 2, 3, 4}));
      cluster.fabric.leaf_sizes.push_back(size);
      left -= size;
    }
  }
  return cluster;
}

TrainingShape RandomShape(Generator& generator) {
  TrainingShape shape;
  do {
    shape.tp = Pick(generator, {1, 2, 4, 4, 8});
    shape.pp = Pick(generator, {1, 2, 2, 4, 8});
    shape.dp = Pick(generator, {1, 2, 3, 4, 4, 8, 8, 16});
  } while (shape.tp * shape.pp * shape.dp > 64 || shape.tp * shape.pp * shape.dp < 6);
  if (generator() % 3 == 0) {
    std::shuffle(shape.mesh_order.begin(), shape.mesh_order.end(), generator);
  }
  shape.layers_per_stage = Pick(generator, {1, 2, 3});
  shape.micro_batches = Pick(generator, {1, 3, 8});
  shape.kernels = Pick(generator, {1, 3});
  shape.message_bytes = Pick(generator, {1, 16, 64}) << 20;  // from hidden to all that matters
  shape.gradient_bytes = Pick(generator, {4, 64}) << 20;
  shape.recompute = generator() % 2 == 0;
  shape.offload = generator() % 3 == 0;
  shape.gradient_algorithm = static_cast<CollectiveAlgorithm>(Pick(generator, {0, 0, 1, 2}));
  return shape;
}

TEST(FoldTest, FoldedEqualsUnfoldedOnRandomPlacements) {
  int32_t saved = 0, folding = 0;
  for (uint32_t seed = 0; seed < 60; ++seed) {
    Generator generator(seed);
    const TrainingShape shape = RandomShape(generator);
    const Program program = SyntheticTraining(shape);
    const ClusterSpec cluster =
        RandomCluster(generator, static_cast<int32_t>(program.ranks.size()));
    SimulationOptions options;
    options.explicit_steps = generator() % 8 == 0;
    if (generator() % 6 == 0) {
      options.slow[static_cast<int32_t>(generator() % program.ranks.size())] = 1.3;
    }
    const int32_t here = Compare(program, cluster, options, "seed " + std::to_string(seed) + ": ");
    saved += here;
    folding += here > 0;
  }
  // Otherwise there was little to compare.
  EXPECT_GE(folding, 15);
  EXPECT_GE(saved, 50);
}

// tp 4 on nodes of 8, two groups of different stages on one node, sharing NICs: folding roles or
// replicas instead of nodes would give each its own NIC.
TEST(FoldTest, TwoStagesOnANodeShareItsNics) {
  const Program program =
      SyntheticTraining({.tp = 4, .pp = 4, .dp = 4, .layers_per_stage = 2, .micro_batches = 6});
  ClusterSpec cluster = TestCluster(8, 8);
  for (const int32_t nics : {1, 2, 8}) {
    cluster.node.nics = nics;
    EXPECT_EQ(Compare(program, cluster, {}, "nics " + std::to_string(nics)), 6);
  }
}

// The mirror matters. Nodes, one GPU each: stages 0 and 1 of replica 0, then of replica 1; two
// classes. Stage 0 sends 10e9 B to stage 1, whose replicas all-reduce 10e9 B at the same time (10e9
// B over each edge of a ring of two). Both flows come in over stage 1's NIC of 10e9 B/s: 2 s. A
// message that came in over the sender's own NIC, or over a NIC of its own, would take 1 s.
TEST(FoldTest, IngressIsThatOfTheDestination) {
  Program program;
  ProgramBuilder build(&program);
  build.AddRole("sends");
  build.AddRole("receives");
  SetMesh(program, /*dp=*/2, /*pp=*/2, /*tp=*/1, /*role_per_stage=*/true);
  Hand(&program, &build, 0).Send(Axis::kPipeline, 1, 10000000000);
  Hand second(&program, &build, 1);
  second.Receive(Axis::kPipeline, -1, 10000000000);
  second.AllReduce(Axis::kData, 10000000000);
  const ClusterSpec cluster = TestCluster(4, 1);
  EXPECT_EQ(Compare(program, cluster, {}, ""), 2);
  const StatusOr<SimulationResult> result = Simulate(program, cluster, {}, nullptr);
  ASSERT_TRUE(result.ok());
  EXPECT_NEAR(result->step_time_s, 2, 1e-9);
}

// And so does the egress: stage 0 all-reduces beside its sends, over its own NIC.
TEST(FoldTest, EgressIsThatOfTheRepresentative) {
  Program program;
  ProgramBuilder build(&program);
  build.AddRole("sends");
  build.AddRole("receives");
  SetMesh(program, /*dp=*/2, /*pp=*/2, /*tp=*/1, /*role_per_stage=*/true);
  Hand first(&program, &build, 0);
  first.Send(Axis::kPipeline, 1, 10000000000);
  first.AllReduce(Axis::kData, 10000000000);
  Hand(&program, &build, 1).Receive(Axis::kPipeline, -1, 10000000000);
  const ClusterSpec cluster = TestCluster(4, 1);
  EXPECT_EQ(Compare(program, cluster, {}, ""), 2);
  const StatusOr<SimulationResult> result = Simulate(program, cluster, {}, nullptr);
  ASSERT_TRUE(result.ok());
  EXPECT_NEAR(result->step_time_s, 2, 1e-9);
}

}  // namespace
}  // namespace tideline
