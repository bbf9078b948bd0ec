// LocalGraph: the graph of one tp rank while it is being made from the whole graph.
//
// It keeps, for every tensor of the whole graph, the local tensor that holds its value now and how:
// whole, cut along one dimension, or as this rank's part of a sum. Collective nodes are appended
// when a value is needed in another layout.
#ifndef TIDELINE_PLANNER_TECHNIQUES_TENSOR_PARALLEL_LOCAL_GRAPH_H_
#define TIDELINE_PLANNER_TECHNIQUES_TENSOR_PARALLEL_LOCAL_GRAPH_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/status.h"
#include "models/ir/graph.h"

namespace tideline {

// How a tensor lies over the tp ranks. At most one dimension is cut.
struct CutLayout {
  int32_t dim = kNone;    // the cut dimension; kNone: whole, or a partial sum
  bool partial = false;   // each rank holds its part of a sum
  bool sequence = false;  // the cut is that of sequence sharding, which gathers undo
  bool operator==(const CutLayout&) const = default;
};

// The dimension of `to` that is cut when dimension `dim` of a contiguous tensor of shape `from` is
// and both are views of the same elements: the one that begins where `dim` begins. kNone when there
// is none that `ranks` divides.
int32_t CutOfView(const std::vector<int64_t>& from, int32_t dim, const std::vector<int64_t>& to,
                  int32_t ranks);

class LocalGraph {
 public:
  // `whole` must outlive this.
  LocalGraph(const Graph& whole, int32_t ranks, bool sequence_parallel);

  // The layout in which the value of a whole tensor is at hand now.
  StatusOr<CutLayout> LayoutOf(TensorId whole);

  // Local tensors of the value: as it is; with its sum done (reduced where it was made; in place,
  // or scattered over the sequence); whole again (gathered for the block and phase of `reader`).
  StatusOr<TensorId> AsIs(TensorId whole);
  StatusOr<TensorId> Summed(TensorId whole);
  StatusOr<TensorId> Gathered(TensorId whole, const Node& reader);

  // A new local tensor for a value about to be made in `layout`.
  StatusOr<TensorId> Make(TensorId whole, const CutLayout& layout);
  // Gives a local tensor another name, so that its own is free again.
  void Rename(TensorId local, std::string name) { local_.tensors[local].name = std::move(name); }
  // A local tensor that no whole tensor stands for.
  TensorId MakeExtra(Tensor tensor);

  // Appends a node; its operands are local tensors. forward_node counts whole nodes.
  NodeId Append(Node node);
  // Says that local node `local` stands for `whole` in Node::forward_node.
  void StandsFor(NodeId whole, NodeId local) { node_of_[whole] = local; }
  // All-reduce in place of a local tensor.
  TensorId AllReduce(TensorId local, bool maximum, const Node& like, const std::string& name);

  // Local tensors of gradients of parameters that are partial sums.
  const std::vector<TensorId>& partial_gradients() const { return partial_gradients_; }

  // The finished graph. Call once.
  Graph Take();

  int32_t ranks() const { return ranks_; }
  const Graph& whole() const { return whole_; }
  const Graph& local() const { return local_; }

 private:
  StatusOr<TensorId> MakeView(TensorId whole);
  StatusOr<TensorId> MakeSlice(TensorId whole, const CutLayout& layout);
  StatusOr<Tensor> LocalTensor(TensorId whole, const CutLayout& layout) const;
  bool ScattersSum(TensorId whole) const;

  const Graph& whole_;
  const int32_t ranks_;
  const bool sequence_parallel_;
  Graph local_;
  std::vector<TensorId> local_of_;    // per whole tensor; kNone: not made yet
  std::vector<CutLayout> layout_of_;  // per whole tensor
  std::vector<NodeId> node_of_;       // per whole node
  std::map<std::tuple<TensorId, Phase, int32_t>, TensorId> gathered_;
  std::vector<TensorId> partial_gradients_;
};

}  // namespace tideline

#endif  // TIDELINE_PLANNER_TECHNIQUES_TENSOR_PARALLEL_LOCAL_GRAPH_H_
