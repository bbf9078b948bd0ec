#include "models/ir/graph.h"

#include <gtest/gtest.h>

#include <functional>

namespace tideline {
namespace {

// ids -> x -> y with a parameter of six rows, two of them padding; `slice` is the second half of y.
Graph SmallGraph() {
  Graph graph;
  graph.name = "small";
  graph.blocks = 2;
  graph.batch = 2;
  graph.sequence = 3;
  Tensor ids{.name = "ids", .shape = {2, 3}, .dtype = DType::kI32, .role = TensorRole::kInput};
  ids.batch_dim = 0;
  Tensor table{.name = "table", .shape = {6, 5}, .role = TensorRole::kParameter};
  table.valid_rows = 4;
  Tensor x{.name = "x", .shape = {2, 3, 5}, .dtype = DType::kF32, .producer = 0};
  x.batch_dim = 0;
  Tensor y{.name = "y", .shape = {2, 2, 3, 5}, .dtype = DType::kF32, .producer = 1};
  y.batch_dim = 1;
  Tensor slice{.name = "slice", .shape = {2, 3, 5}, .producer = 1};
  slice.alias_of = 3;
  slice.alias_offset = 2 * 3 * 5;
  slice.batch_dim = 0;
  graph.tensors = {ids, table, x, y, slice};
  graph.nodes.resize(2);
  graph.nodes[0] = {.name = "embedding", .op = Op::kEmbedding, .inputs = {0, 1}, .outputs = {2}};
  graph.nodes[1] = {.name = "copy", .op = Op::kCast, .inputs = {2}, .outputs = {3}, .layer = 1};
  return graph;
}

TEST(GraphTest, SizesOfShapes) {
  EXPECT_EQ(Elements({}), 1);
  EXPECT_EQ(Elements({2, 3, 5}), 30);
  EXPECT_EQ(Bytes({.name = "t", .shape = {3, 5}, .dtype = DType::kBF16}), 30);
  EXPECT_EQ(Bytes({.name = "t", .shape = {3, 5}, .dtype = DType::kI32}), 60);
}

TEST(GraphTest, StorageFollowsAliases) {
  Graph graph = SmallGraph();
  Tensor inner{.name = "inner", .shape = {5}};
  inner.alias_of = 4;
  graph.tensors.push_back(inner);
  EXPECT_EQ(Storage(graph, 5), 3);
  EXPECT_EQ(Storage(graph, 3), 3);
}

TEST(GraphTest, ParametersAreCountedWithoutPadding) {
  EXPECT_EQ(ParameterCount(SmallGraph()), 4 * 5);
}

TEST(GraphTest, WithBatchScalesBatchDimensionsAndSliceOffsets) {
  const Graph graph = WithBatch(SmallGraph(), 7);
  EXPECT_EQ(graph.batch, 7);
  EXPECT_EQ(graph.tensors[0].shape, (std::vector<int64_t>{7, 3}));
  EXPECT_EQ(graph.tensors[1].shape, (std::vector<int64_t>{6, 5}));
  EXPECT_EQ(graph.tensors[3].shape, (std::vector<int64_t>{2, 7, 3, 5}));
  EXPECT_EQ(graph.tensors[4].alias_offset, 7 * 3 * 5);
  EXPECT_TRUE(ValidateGraph(graph).ok());
}

TEST(GraphTest, HashIsOfTheGraphAtBatchOneAndOfEveryField) {
  const std::string hash = GraphHash(SmallGraph());
  EXPECT_EQ(hash.size(), 64u);
  EXPECT_EQ(GraphHash(WithBatch(SmallGraph(), 8)), hash);
  const std::vector<std::function<void(Graph&)>> changes = {
      [](Graph& graph) { graph.name = "other"; },
      [](Graph& graph) { graph.tensors[1].valid_rows = 5; },
      [](Graph& graph) { graph.tensors[1].decay = true; },
      [](Graph& graph) { graph.tensors[2].dtype = DType::kBF16; },
      [](Graph& graph) { graph.tensors[1].init_stddev = 0.02f; },
      [](Graph& graph) { graph.nodes[0].attributes.epsilon = 1e-5f; },
      [](Graph& graph) { graph.nodes[1].attributes.equation = "ab->a"; },
      [](Graph& graph) { graph.nodes[1].attributes.rotary.theta = 5e5; },
      [](Graph& graph) { graph.nodes[1].attributes.adam.warmup_steps = 1; },
      [](Graph& graph) { graph.nodes[1].attributes.adam.schedule = RateSchedule::kLinear; },
      [](Graph& graph) { graph.nodes[1].layer = 0; },
      [](Graph& graph) { graph.nodes[1].attributes.causal = true; },
  };
  for (size_t change = 0; change < changes.size(); ++change) {
    Graph graph = SmallGraph();
    changes[change](graph);
    EXPECT_NE(GraphHash(graph), hash) << "change " << change;
  }
}

TEST(GraphTest, ValidGraphPasses) { EXPECT_TRUE(ValidateGraph(SmallGraph()).ok()); }

TEST(GraphTest, EachDefectIsNamed) {
  struct Defect {
    std::function<void(Graph&)> make;
    std::string message;
  };
  const std::vector<Defect> defects = {
      {[](Graph& graph) { graph.tensors[2].name = "ids"; }, "'ids' appears twice"},
      {[](Graph& graph) { graph.nodes[1].name = "embedding"; }, "'embedding' appears twice"},
      {[](Graph& graph) { graph.tensors[2].shape[1] = 0; }, "'x' has extent 0"},
      {[](Graph& graph) {
         graph.tensors[2].shape = {int64_t{1} << 40, int64_t{1} << 40};
       },
       "more than 2^60 bytes"},
      {[](Graph& graph) { graph.tensors[4].alias_offset = 31; }, "'slice' lies outside 'y'"},
      {[](Graph& graph) { graph.tensors[4].alias_of = 4; }, "'slice'"},
      {[](Graph& graph) { graph.tensors[4].dtype = DType::kBF16; }, "another data type"},
      {[](Graph& graph) { graph.tensors[0].batch_dim = 2; }, "batch_dim 2 of 2"},
      {[](Graph& graph) { graph.tensors[1].cut_by = {-1}; }, "1 cuts for 2"},
      {[](Graph& graph) { graph.nodes[0].inputs[0] = 9; }, "reads tensor 9"},
      {[](Graph& graph) { graph.nodes[1].outputs[0] = -2; }, "writes tensor -2"},
      {[](Graph& graph) { graph.nodes[0].inputs[0] = 3; }, "reads 'y' before it is made"},
      {[](Graph& graph) { graph.nodes[1].layer = 2; }, "block 2 of 2"},
      {[](Graph& graph) { graph.nodes[1].forward_node = 1; }, "not before it"},
      {[](Graph& graph) { graph.loss = 12; }, "loss is tensor 12"},
  };
  for (const Defect& defect : defects) {
    Graph graph = SmallGraph();
    defect.make(graph);
    const Status status = ValidateGraph(graph);
    EXPECT_EQ(ExitCode(status), 5) << defect.message;
    EXPECT_NE(std::string(status.message()).find(defect.message), std::string::npos)
        << status.message();
  }
}

TEST(DTypeTest, NamesRoundTrip) {
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kI32}) {
    EXPECT_EQ(ParseDType(Name(dtype)).value(), dtype);
  }
  const Status status = ParseDType("fp64").status();
  EXPECT_EQ(ExitCode(status), 2);
  EXPECT_NE(std::string(status.message()).find("bf16"), std::string::npos);
}

}  // namespace
}  // namespace tideline
