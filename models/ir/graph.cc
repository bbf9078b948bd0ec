#include "models/ir/graph.h"

#include <limits>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/check.h"

namespace tideline {
namespace {

// No storage may need more: far beyond any machine, far from overflow.
constexpr int64_t kMaxBytes = int64_t{1} << 60;

bool InRange(int32_t id, size_t count) { return id >= 0 && static_cast<size_t>(id) < count; }

Status Invalid(const std::string& what, const std::string& name, const std::string& why) {
  return InputError(absl::StrCat("graph: ", what, " '", name, "' ", why));
}

Status ValidateShape(const Tensor& tensor) {
  int64_t bytes = SizeOf(tensor.dtype);
  for (int64_t extent : tensor.shape) {
    if (extent < 1) {
      return Invalid("tensor", tensor.name,
                     absl::StrCat("has extent ", extent, " in [", absl::StrJoin(tensor.shape, ","),
                                  "]; extents are at least 1"));
    }
    if (extent > kMaxBytes / bytes) {
      return Invalid("tensor", tensor.name,
                     absl::StrCat("of shape [", absl::StrJoin(tensor.shape, ","),
                                  "] needs more than 2^60 bytes"));
    }
    bytes *= extent;
  }
  const int rank = static_cast<int>(tensor.shape.size());
  if (tensor.batch_dim != kNone && !InRange(tensor.batch_dim, tensor.shape.size())) {
    return Invalid("tensor", tensor.name,
                   absl::StrCat("has batch_dim ", tensor.batch_dim, " of ", rank, " dimensions"));
  }
  if (tensor.tensor_parallel_dim != kNone &&
      !InRange(tensor.tensor_parallel_dim, tensor.shape.size())) {
    return Invalid("tensor", tensor.name,
                   absl::StrCat("has tensor_parallel_dim ", tensor.tensor_parallel_dim, " of ",
                                rank, " dimensions"));
  }
  if (!tensor.cut_by.empty() && tensor.cut_by.size() != tensor.shape.size()) {
    return Invalid("tensor", tensor.name,
                   absl::StrCat("has ", tensor.cut_by.size(), " cuts for ", rank, " dimensions"));
  }
  return absl::OkStatus();
}

Status ValidateAlias(const Graph& graph, const Tensor& tensor) {
  if (tensor.alias_of == kNone) return absl::OkStatus();
  TensorId root = tensor.alias_of;
  int64_t begin = tensor.alias_offset;
  for (size_t steps = 0; root != kNone; ++steps) {
    if (!InRange(root, graph.tensors.size()) || steps > graph.tensors.size()) {
      return Invalid("tensor", tensor.name, "aliases a tensor that is not there, or itself");
    }
    const Tensor& owner = graph.tensors[root];
    if (begin < 0 || begin > Elements(owner.shape) - Elements(tensor.shape)) {
      return Invalid("tensor", tensor.name,
                     absl::StrCat("lies outside '", owner.name, "', which it aliases"));
    }
    if (owner.dtype != tensor.dtype) {
      return Invalid("tensor", tensor.name,
                     absl::StrCat("aliases '", owner.name, "' of another data type"));
    }
    begin += owner.alias_offset;
    root = owner.alias_of;
  }
  return absl::OkStatus();
}

// True when some tensor on the alias chain of `id` is made by a node before `node`, or is given
// (inputs, parameters, state).
bool MadeBefore(const Graph& graph, TensorId id, NodeId node) {
  for (; id != kNone; id = graph.tensors[id].alias_of) {
    const Tensor& tensor = graph.tensors[id];
    if (tensor.producer != kNone) return tensor.producer < node;
    if (tensor.role == TensorRole::kInput || tensor.role == TensorRole::kParameter ||
        tensor.role == TensorRole::kState) {
      return true;
    }
  }
  return false;
}

Status ValidateNode(const Graph& graph, NodeId id) {
  const Node& node = graph.nodes[id];
  if (node.op >= Op::kCount) return Invalid("node", node.name, "has an unknown operator");
  if (node.layer < 0 || node.layer >= graph.blocks) {
    return Invalid("node", node.name,
                   absl::StrCat("is in block ", node.layer, " of ", graph.blocks));
  }
  if (node.forward_node != kNone && (node.forward_node < 0 || node.forward_node >= id)) {
    return Invalid("node", node.name, "belongs to a forward node that is not before it");
  }
  for (TensorId input : node.inputs) {
    if (!InRange(input, graph.tensors.size())) {
      return Invalid("node", node.name, absl::StrCat("reads tensor ", input, ", not there"));
    }
    if (!MadeBefore(graph, input, id)) {
      return Invalid("node", node.name,
                     absl::StrCat("reads '", graph.tensors[input].name, "' before it is made"));
    }
  }
  for (TensorId output : node.outputs) {
    if (!InRange(output, graph.tensors.size())) {
      return Invalid("node", node.name, absl::StrCat("writes tensor ", output, ", not there"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int64_t Elements(const std::vector<int64_t>& shape) {
  int64_t elements = 1;
  for (int64_t extent : shape) elements *= extent;
  return elements;
}

int64_t Bytes(const Tensor& tensor) { return Elements(tensor.shape) * SizeOf(tensor.dtype); }

TensorId Storage(const Graph& graph, TensorId tensor) {
  while (graph.tensors[tensor].alias_of != kNone) tensor = graph.tensors[tensor].alias_of;
  return tensor;
}

int64_t ParameterCount(const Graph& graph) {
  int64_t count = 0;
  for (const Tensor& tensor : graph.tensors) {
    if (tensor.role != TensorRole::kParameter || tensor.alias_of != kNone) continue;
    int64_t elements = Elements(tensor.shape);
    if (tensor.valid_rows > 0) elements = elements / tensor.shape[0] * tensor.valid_rows;
    count += elements;
  }
  return count;
}

Graph WithBatch(const Graph& graph, int64_t batch) {
  TL_CHECK(batch >= 1, "a batch has at least one sample");
  Graph result = graph;
  result.batch = batch;
  for (Tensor& tensor : result.tensors) {
    if (tensor.batch_dim == kNone) continue;
    int64_t& extent = tensor.shape[tensor.batch_dim];
    extent = extent / graph.batch * batch;
    // A slice along a dimension outside the batch starts after whole batches.
    tensor.alias_offset = tensor.alias_offset / graph.batch * batch;
  }
  return result;
}

Status ValidateGraph(const Graph& graph) {
  std::unordered_set<std::string> names;
  for (const Tensor& tensor : graph.tensors) {
    if (!names.insert(tensor.name).second) {
      return Invalid("tensor", tensor.name, "appears twice; names are unique");
    }
    TL_RETURN_IF_ERROR(ValidateShape(tensor));
  }
  for (const Tensor& tensor : graph.tensors) {
    TL_RETURN_IF_ERROR(ValidateAlias(graph, tensor));
    if (tensor.producer != kNone && !InRange(tensor.producer, graph.nodes.size())) {
      return Invalid("tensor", tensor.name, "is made by a node that is not there");
    }
  }
  names.clear();
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    if (!names.insert(graph.nodes[id].name).second) {
      return Invalid("node", graph.nodes[id].name, "appears twice; names are unique");
    }
    TL_RETURN_IF_ERROR(ValidateNode(graph, id));
  }
  if (graph.loss != kNone && !InRange(graph.loss, graph.tensors.size())) {
    return InputError(absl::StrCat("graph: the loss is tensor ", graph.loss, ", not there"));
  }
  return absl::OkStatus();
}

}  // namespace tideline
