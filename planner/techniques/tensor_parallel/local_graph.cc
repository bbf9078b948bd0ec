#include "planner/techniques/tensor_parallel/local_graph.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace tideline {
namespace {

constexpr int8_t kTensorAxis = static_cast<int8_t>(Axis::kTensor);

// Elements of one step along the dimension before `dim`.
int64_t SuffixElements(const std::vector<int64_t>& shape, int32_t dim) {
  int64_t elements = 1;
  for (size_t d = dim; d < shape.size(); ++d) elements *= shape[d];
  return elements;
}

}  // namespace

int32_t CutOfView(const std::vector<int64_t>& from, int32_t dim, const std::vector<int64_t>& to,
                  int32_t ranks) {
  const int64_t step = SuffixElements(from, dim);
  for (int32_t d = static_cast<int32_t>(to.size()) - 1; d >= 0; --d) {
    if (SuffixElements(to, d) == step && to[d] % ranks == 0) return d;
  }
  return kNone;
}

LocalGraph::LocalGraph(const Graph& whole, int32_t ranks, bool sequence_parallel)
    : whole_(whole),
      ranks_(ranks),
      sequence_parallel_(sequence_parallel),
      local_of_(whole.tensors.size(), kNone),
      layout_of_(whole.tensors.size()),
      node_of_(whole.nodes.size(), kNone) {
  local_.name = whole.name;
  local_.blocks = whole.blocks;
  local_.batch = whole.batch;
  local_.sequence = whole.sequence;
}

// Tensors that no node makes come into being when first asked for.
StatusOr<CutLayout> LocalGraph::LayoutOf(TensorId whole) {
  TL_RETURN_IF_ERROR(AsIs(whole).status());
  return layout_of_[whole];
}

StatusOr<TensorId> LocalGraph::AsIs(TensorId whole) {
  if (local_of_[whole] != kNone) return local_of_[whole];
  const Tensor& tensor = whole_.tensors[whole];
  if (tensor.alias_of != kNone) return MakeView(whole);
  if (tensor.role != TensorRole::kParameter && tensor.role != TensorRole::kInput) {
    return InternalError(absl::StrCat("tensor '", tensor.name, "' is read before it is made"));
  }
  const bool cut = tensor.role == TensorRole::kParameter && tensor.tensor_parallel_dim != kNone;
  return Make(whole, {.dim = cut ? tensor.tensor_parallel_dim : kNone});
}

StatusOr<Tensor> LocalGraph::LocalTensor(TensorId whole, const CutLayout& layout) const {
  Tensor tensor = whole_.tensors[whole];
  tensor.producer = kNone;
  tensor.alias_of = kNone;
  tensor.alias_offset = 0;
  tensor.cut_by.assign(tensor.shape.size(), kNone);
  if (tensor.gradient_of != kNone) tensor.gradient_of = local_of_[tensor.gradient_of];
  if (layout.dim == kNone) return tensor;
  int64_t& extent = tensor.shape[layout.dim];
  if (extent % ranks_ != 0) {
    return InputError(absl::StrCat("dimension ", layout.dim, " of '", tensor.name, "' is ", extent,
                                   ", which does not divide by tp = ", ranks_));
  }
  extent /= ranks_;
  tensor.cut_by[layout.dim] = kTensorAxis;
  return tensor;
}

// A slice that is read: cut as the tensor it is a part of.
StatusOr<TensorId> LocalGraph::MakeView(TensorId whole) {
  const TensorId base = whole_.tensors[whole].alias_of;
  TL_ASSIGN_OR_RETURN(const TensorId local_base, AsIs(base));
  CutLayout layout = layout_of_[base];
  const std::vector<int64_t>& base_shape = whole_.tensors[base].shape;
  int64_t offset = whole_.tensors[whole].alias_offset;
  if (layout.dim != kNone) {
    const int64_t step = SuffixElements(base_shape, layout.dim);
    layout.dim = CutOfView(base_shape, layout.dim, whole_.tensors[whole].shape, ranks_);
    if (layout.dim == kNone || offset % step != 0) {
      return InputError(absl::StrCat(
          "the slice '", whole_.tensors[whole].name, "' of '", whole_.tensors[base].name,
          "' cannot be cut over tp = ", ranks_, " where its storage is cut"));
    }
    offset /= ranks_;
  }
  TL_ASSIGN_OR_RETURN(Tensor tensor, LocalTensor(whole, layout));
  tensor.alias_of = local_base;
  tensor.alias_offset = offset;
  tensor.producer = local_.tensors[local_base].producer;
  local_.tensors.push_back(std::move(tensor));
  layout_of_[whole] = layout;
  return local_of_[whole] = static_cast<TensorId>(local_.tensors.size()) - 1;
}

// A slice that a node makes: the tensor it is a part of is cut alike.
StatusOr<TensorId> LocalGraph::MakeSlice(TensorId whole, const CutLayout& layout) {
  const Tensor& slice = whole_.tensors[whole];
  const TensorId base = slice.alias_of;
  CutLayout base_layout = layout;
  if (layout.dim != kNone) {
    base_layout.dim = CutOfView(slice.shape, layout.dim, whole_.tensors[base].shape, ranks_);
  }
  if (local_of_[base] == kNone) TL_RETURN_IF_ERROR(Make(base, base_layout).status());
  if (layout_of_[base] != base_layout) {
    return InternalError(
        absl::StrCat("the slices of '", whole_.tensors[base].name, "' lie differently over tp"));
  }
  return MakeView(whole);
}

StatusOr<TensorId> LocalGraph::Make(TensorId whole, const CutLayout& layout) {
  if (whole_.tensors[whole].alias_of != kNone) return MakeSlice(whole, layout);
  TL_ASSIGN_OR_RETURN(Tensor tensor, LocalTensor(whole, layout));
  const TensorId id = static_cast<TensorId>(local_.tensors.size());
  if (layout.partial && tensor.role == TensorRole::kParameterGradient) {
    partial_gradients_.push_back(id);
  }
  local_.tensors.push_back(std::move(tensor));
  layout_of_[whole] = layout;
  return local_of_[whole] = id;
}

TensorId LocalGraph::MakeExtra(Tensor tensor) {
  local_.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(local_.tensors.size()) - 1;
}

NodeId LocalGraph::Append(Node node) {
  const NodeId id = static_cast<NodeId>(local_.nodes.size());
  if (node.forward_node != kNone) node.forward_node = node_of_[node.forward_node];
  for (const TensorId output : node.outputs) {
    for (TensorId t = output; t != kNone; t = local_.tensors[t].alias_of) {
      local_.tensors[t].producer = id;
    }
  }
  local_.nodes.push_back(std::move(node));
  return id;
}

TensorId LocalGraph::AllReduce(TensorId local, bool maximum, const Node& like,
                               const std::string& name) {
  Tensor sum = local_.tensors[local];
  sum.name = name;
  sum.alias_of = local;
  sum.alias_offset = 0;
  const TensorId output = MakeExtra(std::move(sum));
  Node node;
  node.name = absl::StrCat("all_reduce:", name);
  node.op = Op::kAllReduce;
  node.attributes.maximum = maximum;
  node.inputs = {local};
  node.outputs = {output};
  node.layer = like.layer;
  node.phase = like.phase;
  node.forward_node = like.forward_node;
  // `like` is a node of the local graph or of the whole one; neither is renumbered here.
  const NodeId id = static_cast<NodeId>(local_.nodes.size());
  local_.tensors[output].producer = id;
  local_.nodes.push_back(std::move(node));
  return output;
}

// With sequence sharding sums of residual activations are scattered over the sequence; a gradient
// lies as its forward tensor does.
bool LocalGraph::ScattersSum(TensorId whole) const {
  const Tensor& tensor = whole_.tensors[whole];
  if (!sequence_parallel_) return false;
  if (tensor.role == TensorRole::kGradient) return layout_of_[tensor.gradient_of].sequence;
  return tensor.batch_dim == 0 && tensor.shape.size() == 3;
}

StatusOr<TensorId> LocalGraph::Summed(TensorId whole) {
  TL_ASSIGN_OR_RETURN(const TensorId partial, AsIs(whole));
  if (!layout_of_[whole].partial) return partial;
  const Node producer = local_.nodes[local_.tensors[partial].producer];
  const std::string name = absl::StrCat(whole_.tensors[whole].name, ".sum");
  if (!ScattersSum(whole)) {
    layout_of_[whole] = {};
    return local_of_[whole] = AllReduce(partial, /*maximum=*/false, producer, name);
  }
  const CutLayout layout{.dim = 1, .sequence = true};
  TL_ASSIGN_OR_RETURN(Tensor shard, LocalTensor(whole, layout));
  shard.name = name;
  const TensorId output = MakeExtra(std::move(shard));
  Node node;
  node.name = absl::StrCat("reduce_scatter:", name);
  node.op = Op::kReduceScatter;
  node.attributes.dimension = layout.dim;
  node.inputs = {partial};
  node.outputs = {output};
  node.layer = producer.layer;
  node.phase = producer.phase;
  node.forward_node = producer.forward_node;
  local_.tensors[output].producer = static_cast<NodeId>(local_.nodes.size());
  local_.nodes.push_back(std::move(node));
  layout_of_[whole] = layout;
  return local_of_[whole] = output;
}

StatusOr<TensorId> LocalGraph::Gathered(TensorId whole, const Node& reader) {
  TL_ASSIGN_OR_RETURN(const TensorId shard, AsIs(whole));
  const CutLayout layout = layout_of_[whole];
  TL_CHECK(layout.sequence, "only sequence shards are gathered");
  TensorId& gathered =
      gathered_.try_emplace({whole, reader.phase, reader.layer}, kNone).first->second;
  if (gathered != kNone) return gathered;
  TL_ASSIGN_OR_RETURN(Tensor tensor, LocalTensor(whole, {}));
  absl::StrAppend(&tensor.name, ".whole.", reader.phase == Phase::kForward ? "forward" : "backward",
                  ".", reader.layer);
  Node node;
  node.name = absl::StrCat("all_gather:", tensor.name);
  node.op = Op::kAllGather;
  node.attributes.dimension = layout.dim;
  node.inputs = {shard};
  node.layer = reader.layer;
  node.phase = reader.phase;
  node.forward_node = reader.forward_node;
  gathered = MakeExtra(std::move(tensor));
  node.outputs = {gathered};
  Append(std::move(node));
  return gathered;
}

Graph LocalGraph::Take() {
  local_.loss = local_of_[whole_.loss];
  std::sort(partial_gradients_.begin(), partial_gradients_.end());
  return std::move(local_);
}

}  // namespace tideline
