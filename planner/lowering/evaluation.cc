#include "planner/lowering/evaluation.h"

#include <map>
#include <utility>
#include <vector>

#include "base/check.h"

namespace tideline {
namespace {

// What makes or keeps the statistics of a batch.
bool MakesStatistics(const Graph& graph, const Node& node) {
  if (node.op == Op::kBatchMoments || node.op == Op::kBatchNormTrack) return true;
  if (node.op != Op::kAllGather) return false;
  const NodeId producer = graph.tensors[node.inputs[0]].producer;
  return producer != kNone && graph.nodes[producer].op == Op::kBatchMoments;
}

}  // namespace

Draft ForEvaluation(const Draft& draft) {
  Draft evaluation = draft;
  const Graph& graph = draft.graph;
  std::map<TensorId, std::vector<TensorId>> state_of;  // by moments: mean, variance
  for (const Node& node : graph.nodes) {
    if (node.op == Op::kBatchNormTrack) state_of[node.inputs[0]] = node.outputs;
  }
  if (state_of.empty()) return evaluation;
  std::vector<NodeId> new_id(graph.nodes.size(), kNone);
  std::vector<Node> kept;
  for (size_t id = 0; id < graph.nodes.size(); ++id) {
    Node node = graph.nodes[id];
    if (node.phase != Phase::kForward || MakesStatistics(graph, node)) continue;
    if (node.op == Op::kBatchNorm) {
      const auto state = state_of.find(node.inputs[1]);
      TL_CHECK(state != state_of.end(), "every batch norm keeps running statistics");
      node.op = Op::kBatchNormFixed;
      node.inputs = {node.inputs[0], state->second[0], state->second[1], node.inputs[2],
                     node.inputs[3]};
      node.outputs.resize(1);
    }
    new_id[id] = static_cast<NodeId>(kept.size());
    kept.push_back(std::move(node));
  }
  evaluation.graph.nodes = std::move(kept);
  for (Tensor& tensor : evaluation.graph.tensors) {
    if (tensor.producer != kNone) tensor.producer = new_id[tensor.producer];
  }
  evaluation.replay.assign(graph.blocks, {});
  return evaluation;
}

}  // namespace tideline
