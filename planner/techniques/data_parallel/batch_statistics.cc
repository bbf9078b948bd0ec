#include "planner/techniques/data_parallel/batch_statistics.h"

#include <utility>
#include <vector>

namespace tideline {
namespace {

class Sharer {
 public:
  Sharer(Graph& graph, int32_t replicas) : graph_(graph), replicas_(replicas) {}

  void Run() {
    std::vector<Node> old = std::move(graph_.nodes);
    graph_.nodes.clear();
    const size_t tensors = graph_.tensors.size();
    new_id_.resize(old.size());
    shared_.assign(graph_.tensors.size(), kNone);
    for (size_t id = 0; id < old.size(); ++id) {
      Node& node = old[id];
      // The gradients of the norm's parameters are this replica's part.
      if (node.op != Op::kBatchNormParameterGrad) {
        for (TensorId& input : node.inputs) {
          if (shared_[input] != kNone) input = shared_[input];
        }
      }
      if (node.forward_node != kNone) node.forward_node = new_id_[node.forward_node];
      const NodeId at = new_id_[id] = static_cast<NodeId>(graph_.nodes.size());
      const Op op = node.op;
      graph_.nodes.push_back(std::move(node));
      if (op == Op::kBatchMoments) Append(Op::kAllGather, at);
      if (op == Op::kBatchNormSums) Append(Op::kAllReduce, at);
    }
    for (size_t id = 0; id < tensors; ++id) {
      NodeId& producer = graph_.tensors[id].producer;
      if (producer != kNone) producer = new_id_[producer];
    }
  }

 private:
  // The collective behind node `made`, of its only output.
  void Append(Op op, NodeId made) {
    const Node& source = graph_.nodes[made];
    const TensorId own = source.outputs[0];
    Tensor whole = graph_.tensors[own];
    whole.name += ".all";
    if (op == Op::kAllGather) whole.shape[0] *= replicas_;
    whole.producer = static_cast<NodeId>(graph_.nodes.size());
    Node node;
    node.name = source.name + ".all";
    node.op = op;
    node.attributes.axis = Axis::kData;
    node.inputs = {own};
    node.outputs = {static_cast<TensorId>(graph_.tensors.size())};
    node.layer = source.layer;
    node.phase = source.phase;
    node.forward_node = source.forward_node;
    shared_[own] = node.outputs[0];
    graph_.tensors.push_back(std::move(whole));
    shared_.push_back(kNone);
    graph_.nodes.push_back(std::move(node));
  }

  Graph& graph_;
  const int32_t replicas_;
  std::vector<NodeId> new_id_;    // by old node
  std::vector<TensorId> shared_;  // by tensor: the one that readers are to read instead
};

}  // namespace

void ShareBatchStatistics(Graph& graph, int32_t replicas) { Sharer(graph, replicas).Run(); }

}  // namespace tideline
