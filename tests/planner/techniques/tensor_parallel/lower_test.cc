#include "planner/techniques/tensor_parallel/lower.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "models/ops/autodiff.h"
#include "models/ops/op_table.h"
#include "planner/plan/workload.h"
#include "planner/techniques/tensor_parallel/local_graph.h"
#include "tests/planner/lowering/fixture.h"

namespace tideline {
namespace {

Draft Lowered(const DecoderConfig& model, int32_t tp, bool sequence_parallel, DType dtype) {
  Plan plan = TestPlan(model, {.tp = tp});
  plan.dtype = plan.grad_dtype = dtype;
  plan.sequence_parallel = sequence_parallel;
  plan.graph_hash = *ModelHash(plan.model, plan.seq, plan.dtype);
  StatusOr<Draft> draft = MakeDraft(plan);
  EXPECT_TRUE(draft.ok()) << draft.status();
  const Status status = LowerTensorParallel(*draft);
  EXPECT_TRUE(status.ok()) << status;
  return *std::move(draft);
}

std::vector<DecoderConfig> Models() { return {TinyGpt(), TinyLlama(), TinyOpt()}; }

// Collectives of each kind in the forward or backward of one block.
std::map<Op, int> Collectives(const Graph& graph, int32_t block, Phase phase) {
  std::map<Op, int> counts;
  for (const Node& node : graph.nodes) {
    if (node.layer != block || node.phase != phase) continue;
    if (node.op == Op::kAllReduce || node.op == Op::kAllGather || node.op == Op::kReduceScatter) {
      ++counts[node.op];
    }
  }
  return counts;
}

// Every node of the rank's graph is well formed by the op table's own rules.
TEST(TensorParallelTest, LocalGraphsAreWellFormed) {
  for (const DecoderConfig& model : Models()) {
    for (const bool sequence : {false, true}) {
      const Draft draft = Lowered(model, 2, sequence, DType::kF32);
      const Graph& graph = draft.graph;
      EXPECT_TRUE(ValidateGraph(graph).ok()) << ValidateGraph(graph);
      std::set<std::string> names;
      for (const Tensor& tensor : graph.tensors) {
        EXPECT_TRUE(names.insert(tensor.name).second) << tensor.name;
      }
      for (const Node& node : graph.nodes) {
        std::vector<OperandSpec> inputs, outputs;
        for (const TensorId id : node.inputs) {
          inputs.push_back({graph.tensors[id].shape, graph.tensors[id].dtype});
        }
        for (const TensorId id : node.outputs) {
          outputs.push_back({graph.tensors[id].shape, graph.tensors[id].dtype});
        }
        const Status status = CheckOperands(node.op, node.attributes, inputs, outputs);
        EXPECT_TRUE(status.ok()) << model.name << " " << node.name << ": " << status;
      }
    }
  }
}

// Megatron-LM: two all-reduces forward and two backward per layer; one for the embedding; maximum
// and sums for the loss; one for the gradient of the head's input.
TEST(TensorParallelTest, CollectivesAreMegatrons) {
  for (const DecoderConfig& model : Models()) {
    const Graph graph = Lowered(model, 2, false, DType::kF32).graph;
    for (int32_t layer = 1; layer <= model.layers; ++layer) {
      EXPECT_EQ(Collectives(graph, layer, Phase::kForward),
                (std::map<Op, int>{{Op::kAllReduce, 2}}));
      EXPECT_EQ(Collectives(graph, layer, Phase::kBackward),
                (std::map<Op, int>{{Op::kAllReduce, 2}}));
    }
    EXPECT_EQ(Collectives(graph, 0, Phase::kForward), (std::map<Op, int>{{Op::kAllReduce, 1}}));
    EXPECT_EQ(Collectives(graph, 0, Phase::kBackward), (std::map<Op, int>{}));
    EXPECT_EQ(Collectives(graph, graph.blocks - 1, Phase::kForward),
              (std::map<Op, int>{{Op::kAllReduce, 2}}));
    EXPECT_EQ(Collectives(graph, graph.blocks - 1, Phase::kBackward),
              (std::map<Op, int>{{Op::kAllReduce, 1}}));
  }
}

// Sequence sharding: gather before and scatter after each of the two blocks; backward gathers the
// gradient and, again, the saved input, and scatters.
TEST(TensorParallelTest, SequenceShardingGathersAndScatters) {
  for (const DecoderConfig& model : Models()) {
    const Graph graph = Lowered(model, 2, true, DType::kF32).graph;
    for (int32_t layer = 1; layer <= model.layers; ++layer) {
      EXPECT_EQ(Collectives(graph, layer, Phase::kForward),
                (std::map<Op, int>{{Op::kAllGather, 2}, {Op::kReduceScatter, 2}}));
      EXPECT_EQ(Collectives(graph, layer, Phase::kBackward),
                (std::map<Op, int>{{Op::kAllGather, 4}, {Op::kReduceScatter, 2}}));
    }
    EXPECT_EQ(Collectives(graph, 0, Phase::kForward), (std::map<Op, int>{{Op::kReduceScatter, 1}}));
    EXPECT_EQ(Collectives(graph, 0, Phase::kBackward), (std::map<Op, int>{{Op::kAllGather, 1}}));
  }
}

// Whole parameters have whole gradients without sequence sharding; with it those of norms, biases
// of row-parallel products and positions are parts of sums.
TEST(TensorParallelTest, PartialGradients) {
  const DecoderConfig gpt = TinyGpt();
  EXPECT_TRUE(Lowered(gpt, 4, false, DType::kF32).partial_gradients.empty());
  const Draft draft = Lowered(gpt, 4, true, DType::kF32);
  // Per layer two norms (weight, bias) and two row biases; final norm; positions.
  EXPECT_EQ(draft.partial_gradients.size(), static_cast<size_t>(gpt.layers * 6 + 2 + 1));
}

// Saved bytes of one layer at 16 bit without dropout. tp: per layer 16sbh is whole or shared alike
// (inputs of the norms 4, norm outputs 4 in units of sbh; the rest is cut), see below.
//   whole graph: 2 norm inputs, 2 norm outputs (2sbh each) = 8sbh; q, k, v 6sbh, context 2sbh,
//   up 8sbh, activation 8sbh = 24sbh; probabilities 2as^2b; statistics of 2 norms 16sb bytes.
//   tp = t: 8sbh + 24sbh/t + 2as^2b/t + 16sb; with the sequence cut all of it is divided by t.
int64_t SavedBytesOfLayer(const Graph& graph, int32_t layer) {
  int64_t bytes = 0;
  for (const TensorId storage : SavedStorages(graph)) {
    const Tensor& tensor = graph.tensors[storage];
    if (tensor.producer == kNone || graph.nodes[tensor.producer].layer != layer) continue;
    bytes += Bytes(tensor);
  }
  return bytes;
}

TEST(TensorParallelTest, SavedBytesPerLayer) {
  const DecoderConfig gpt = TinyGpt();
  const int64_t s = 8, b = 2, h = gpt.hidden, a = gpt.heads;
  for (const int64_t t : {1, 2, 4}) {
    for (const bool sequence : {false, true}) {
      if (t == 1) continue;
      const Graph graph = Lowered(gpt, static_cast<int32_t>(t), sequence, DType::kBF16).graph;
      const int64_t cut = 24 * s * b * h + 2 * a * s * s * b;
      const int64_t shared = 8 * s * b * h + 16 * s * b;
      EXPECT_EQ(SavedBytesOfLayer(graph, 2), cut / t + shared / (sequence ? t : 1)) << t;
    }
  }
}

TEST(TensorParallelTest, OffsetsAdvanceWithTheRank) {
  const Draft draft = Lowered(TinyOpt(), 2, true, DType::kF32);
  const size_t tensor_axis = static_cast<size_t>(Axis::kTensor);
  int embeddings = 0, positions = 0, entropies = 0;
  for (const Node& node : draft.graph.nodes) {
    const Affine& row = node.attributes.row_offset;
    const Affine& position = node.attributes.position_offset;
    if (node.op == Op::kEmbedding || node.op == Op::kEmbeddingGrad) {
      ++embeddings;
      EXPECT_EQ(row.per_coordinate[tensor_axis], 31);  // 61 rows padded to 62
    }
    if (node.op == Op::kAddPosition || node.op == Op::kAddPositionGrad) {
      ++positions;
      EXPECT_EQ(position.base, 2);
      EXPECT_EQ(position.per_coordinate[tensor_axis], 4);
    }
    if (node.op == Op::kRowMax || node.op == Op::kCrossEntropyPartial ||
        node.op == Op::kCrossEntropyGrad) {
      ++entropies;
      EXPECT_EQ(row.per_coordinate[tensor_axis], 31);
      EXPECT_EQ(node.attributes.valid_columns, 61);
    }
  }
  EXPECT_EQ(embeddings, 2);
  EXPECT_EQ(positions, 2);
  EXPECT_EQ(entropies, 3);
}

TEST(CutOfViewTest, FollowsTheElements) {
  EXPECT_EQ(CutOfView({2, 8, 32}, 2, {2, 8, 4, 8}, 2), 2);       // heads of a projection
  EXPECT_EQ(CutOfView({3, 2, 8, 32}, 3, {2, 8, 4, 8}, 4), 2);    // of a fused one
  EXPECT_EQ(CutOfView({2, 8, 4, 8}, 2, {2, 8, 2, 2, 8}, 2), 2);  // groups
  EXPECT_EQ(CutOfView({2, 8, 4, 8}, 2, {2, 8, 2, 2, 8}, 4), kNone);
  EXPECT_EQ(CutOfView({2, 8, 4, 8}, 3, {2, 8, 32}, 2), kNone);  // inside a head
}

}  // namespace
}  // namespace tideline
