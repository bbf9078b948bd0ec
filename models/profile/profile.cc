#include "models/profile/profile.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "models/ops/autodiff.h"
#include "models/ops/op_table.h"

namespace tideline {
namespace {

// First and last access of a storage, as node indices; kNone: never.
struct Uses {
  NodeId first_write = kNone;
  NodeId last_access = kNone;
  bool read_forward = false;
  bool saved = false;
};

bool IsHeld(TensorRole role) {
  return role == TensorRole::kActivation || role == TensorRole::kInput ||
         role == TensorRole::kGradient || role == TensorRole::kWorkspace;
}

int64_t Pair(int32_t first, int32_t second) {
  return (static_cast<int64_t>(first) << 32) | static_cast<uint32_t>(second);
}

class Profiler {
 public:
  explicit Profiler(const Graph& graph) : graph_(graph), uses_(graph.tensors.size()) {
    storages_.reserve(graph.tensors.size());
    for (size_t id = 0; id < graph.tensors.size(); ++id) {
      storages_.push_back(Storage(graph, static_cast<TensorId>(id)));
    }
    FindUses();
  }

  Profile Run() {
    profile_.parameters = ParameterCount(graph_);
    for (NodeId id = 0; id < Nodes(); ++id) {
      if (graph_.nodes[id].phase != Phase::kForward) continue;
      slot_of_node_[id] = profile_.nodes.size();
      profile_.nodes.push_back({.node = id});
      ProfileForward(id, profile_.nodes.back());
    }
    AttributeSaved();
    CountWork();
    WalkBackward();
    FindPeak();
    for (const NodeProfile& node : profile_.nodes) {
      profile_.flops_forward += node.flops_forward;
      profile_.flops_backward += node.flops_backward;
      profile_.executed_flops_forward += node.executed_flops_forward;
      profile_.executed_flops_backward += node.executed_flops_backward;
      profile_.saved_activation_bytes += node.saved_bytes;
    }
    Group();
    return std::move(profile_);
  }

 private:
  NodeId Nodes() const { return static_cast<NodeId>(graph_.nodes.size()); }
  const Tensor& StorageOf(TensorId tensor) const { return graph_.tensors[storages_[tensor]]; }
  Uses& UsesOf(TensorId tensor) { return uses_[storages_[tensor]]; }

  // Calls body(storage) for each distinct storage among `tensors`.
  template <typename Body>
  void EachStorage(const std::vector<TensorId>& tensors, const Body& body) {
    for (size_t position = 0; position < tensors.size(); ++position) {
      const TensorId storage = storages_[tensors[position]];
      bool seen = false;
      for (size_t earlier = 0; earlier < position; ++earlier) {
        seen = seen || storages_[tensors[earlier]] == storage;
      }
      if (!seen) body(storage);
    }
  }

  void FindUses() {
    for (NodeId id = 0; id < Nodes(); ++id) {
      const Node& node = graph_.nodes[id];
      for (TensorId input : node.inputs) {
        UsesOf(input).last_access = id;
        if (node.phase == Phase::kForward) UsesOf(input).read_forward = true;
      }
      for (TensorId output : node.outputs) {
        Uses& uses = UsesOf(output);
        if (uses.first_write == kNone) uses.first_write = id;
        uses.last_access = id;
      }
    }
    for (TensorId storage : SavedStorages(graph_)) uses_[storage].saved = true;
  }

  void ProfileForward(NodeId id, NodeProfile& profile) {
    const Node& node = graph_.nodes[id];
    EachStorage(node.outputs, [&](TensorId storage) {
      if (!IsHeld(graph_.tensors[storage].role)) return;
      const int64_t bytes = Bytes(graph_.tensors[storage]);
      const Uses& uses = uses_[storage];
      if (uses.read_forward || storage == graph_.loss) {
        profile.fwd_out_bytes += bytes;
      } else if (uses.saved) {
        profile.fwd_tmp_bytes += bytes;
      }
      if (!uses.saved) profile.fwd_transient_bytes += bytes;
    });
    EachStorage(node.inputs, [&](TensorId storage) {
      const Tensor& tensor = graph_.tensors[storage];
      if (tensor.role == TensorRole::kActivation && !uses_[storage].saved) {
        profile.fwd_transient_bytes += Bytes(tensor);
      }
    });
  }

  // Saved storages go to their makers, tokens to their first readers; the loss is kept too.
  void AttributeSaved() {
    std::vector<bool> counted(graph_.tensors.size(), false);
    for (NodeProfile& profile : profile_.nodes) {
      const Node& node = graph_.nodes[profile.node];
      const auto count = [&](TensorId storage) {
        const bool kept = uses_[storage].saved || storage == graph_.loss;
        if (!kept || counted[storage]) return;
        counted[storage] = true;
        profile.saved_bytes += Bytes(graph_.tensors[storage]);
      };
      for (TensorId output : node.outputs) count(storages_[output]);
      for (TensorId input : node.inputs) {
        if (StorageOf(input).role == TensorRole::kInput) count(storages_[input]);
      }
    }
  }

  // The share of a product's FLOPs that people quote when vocabulary rows are padding.
  double ValidShare(NodeId forward) const {
    for (TensorId input : graph_.nodes[forward].inputs) {
      const Tensor& tensor = graph_.tensors[input];
      if (tensor.role == TensorRole::kParameter && tensor.valid_rows > 0) {
        return static_cast<double>(tensor.valid_rows) / static_cast<double>(tensor.shape[0]);
      }
    }
    return 1.0;
  }

  void CountWork() {
    std::vector<OperandSpec> operands;
    for (const Node& node : graph_.nodes) {
      operands.clear();
      for (TensorId input : node.inputs) {
        operands.push_back({graph_.tensors[input].shape, graph_.tensors[input].dtype});
      }
      for (size_t output = 0; output < node.outputs.size(); ++output) {
        const Tensor& tensor = graph_.tensors[node.outputs[output]];
        operands.push_back({tensor.shape, tensor.dtype,
                            OutputAccess(node.op, node.attributes, static_cast<int>(output))});
      }
      const Work work = WorkOf(node.op, node.attributes, operands);
      const bool forward = node.phase == Phase::kForward;
      const NodeId owner =
          forward ? static_cast<NodeId>(&node - graph_.nodes.data()) : node.forward_node;
      NodeProfile& profile = profile_.nodes[slot_of_node_.at(owner)];
      const double model_flops = work.model_flops * ValidShare(owner);
      (forward ? profile.flops_forward : profile.flops_backward) += model_flops;
      (forward ? profile.executed_flops_forward : profile.executed_flops_backward) += work.flops;
      (forward ? profile.bytes_forward : profile.bytes_backward) +=
          work.bytes_read + work.bytes_written;
    }
  }

  // The backward nodes of one forward node stand together; the level is followed through them.
  void WalkBackward() {
    std::unordered_map<NodeId, int64_t> levels;
    for (NodeId id = 0; id < Nodes(); ++id) {
      const Node& node = graph_.nodes[id];
      if (node.phase != Phase::kBackward) continue;
      NodeProfile& profile = profile_.nodes[slot_of_node_.at(node.forward_node)];
      int64_t& level = levels[node.forward_node];
      EachStorage(node.outputs, [&](TensorId storage) {
        const Tensor& tensor = graph_.tensors[storage];
        const int64_t bytes = Bytes(tensor);
        if (tensor.role == TensorRole::kParameterGradient) {
          profile.parameter_gradient_bytes += bytes;
        } else if (uses_[storage].first_write == id) {
          level += bytes;
        }
      });
      for (TensorId output : node.outputs) {
        const Tensor& tensor = graph_.tensors[output];
        if (tensor.role != TensorRole::kGradient) continue;
        // A sum of contributions is the gradient of the same input.
        if (!counted_gradients_.insert(Pair(node.forward_node, tensor.gradient_of)).second)
          continue;
        profile.bwd_out_bytes += Bytes(tensor);
      }
      profile.bwd_transient_bytes = std::max(profile.bwd_transient_bytes, level);
      EachStorage(node.inputs, [&](TensorId storage) {
        const Tensor& tensor = graph_.tensors[storage];
        if (IsHeld(tensor.role) && uses_[storage].last_access == id) level -= Bytes(tensor);
      });
      for (TensorId input : node.inputs) AddForwardInput(node, input, profile);
    }
  }

  // fwd_in: inputs of the forward node that its backward nodes read, each once.
  void AddForwardInput(const Node& backward, TensorId input, NodeProfile& profile) {
    const TensorId storage = storages_[input];
    const TensorRole role = graph_.tensors[storage].role;
    if (role != TensorRole::kActivation && role != TensorRole::kInput) return;
    bool is_input = false;
    for (TensorId given : graph_.nodes[backward.forward_node].inputs) {
      is_input = is_input || storages_[given] == storage;
    }
    if (!is_input) return;
    if (!counted_inputs_.insert(Pair(backward.forward_node, storage)).second) return;
    profile.fwd_in_bytes += Bytes(graph_.tensors[storage]);
  }

  void FindPeak() {
    int64_t level = 0;
    for (size_t id = 0; id < graph_.tensors.size(); ++id) {
      const Tensor& tensor = graph_.tensors[id];
      if (tensor.role == TensorRole::kInput && tensor.alias_of == kNone) level += Bytes(tensor);
    }
    profile_.peak_activation_bytes = level;
    for (NodeId id = 0; id < Nodes(); ++id) {
      const Node& node = graph_.nodes[id];
      std::vector<TensorId> touched = node.outputs;
      EachStorage(node.outputs, [&](TensorId storage) {
        const Tensor& tensor = graph_.tensors[storage];
        if (IsHeld(tensor.role) && uses_[storage].first_write == id) level += Bytes(tensor);
      });
      profile_.peak_activation_bytes = std::max(profile_.peak_activation_bytes, level);
      touched.insert(touched.end(), node.inputs.begin(), node.inputs.end());
      EachStorage(touched, [&](TensorId storage) {
        const Tensor& tensor = graph_.tensors[storage];
        const bool last = uses_[storage].last_access == id && storage != graph_.loss;
        if (IsHeld(tensor.role) && last) level -= Bytes(tensor);
      });
    }
  }

  static ProfileGroup& GroupNamed(std::vector<ProfileGroup>& groups, std::string_view name) {
    for (ProfileGroup& group : groups) {
      if (group.name == name) return group;
    }
    groups.push_back({.name = std::string(name)});
    return groups.back();
  }

  void Group() {
    for (const NodeProfile& node : profile_.nodes) {
      const Node& source = graph_.nodes[node.node];
      for (ProfileGroup* group : {&GroupNamed(profile_.by_op, Name(source.op)),
                                  &GroupNamed(profile_.by_module, ModuleOf(source.name))}) {
        ++group->nodes;
        group->flops_forward += node.flops_forward;
        group->flops_backward += node.flops_backward;
        group->bytes_forward += node.bytes_forward;
        group->bytes_backward += node.bytes_backward;
        group->saved_bytes += node.saved_bytes;
      }
    }
    for (const Tensor& tensor : graph_.tensors) {
      if (tensor.role != TensorRole::kParameter || tensor.alias_of != kNone) continue;
      const int64_t rows = tensor.valid_rows > 0 ? tensor.valid_rows : tensor.shape[0];
      GroupNamed(profile_.by_module, ModuleOf(tensor.name)).parameters +=
          Elements(tensor.shape) / tensor.shape[0] * rows;
    }
  }

  const Graph& graph_;
  std::vector<TensorId> storages_;
  std::vector<Uses> uses_;
  std::unordered_map<NodeId, size_t> slot_of_node_;
  std::unordered_set<int64_t> counted_inputs_;     // (forward node, storage)
  std::unordered_set<int64_t> counted_gradients_;  // (forward node, tensor it is the gradient of)
  Profile profile_;
};

}  // namespace

std::string ModuleOf(const std::string& name) {
  std::string_view rest = name;
  constexpr std::string_view kLayers = "layers.";
  if (rest.starts_with(kLayers)) {
    const size_t dot = rest.find('.', kLayers.size());
    if (dot != std::string_view::npos) rest.remove_prefix(dot + 1);
  }
  return std::string(rest.substr(0, rest.find('.')));
}

Profile ProfileGraph(const Graph& training) { return Profiler(training).Run(); }

StatusOr<Profile> ProfileModel(const ModelConfig& model, const ModelShape& shape) {
  TL_ASSIGN_OR_RETURN(const Graph forward, BuildModel(model, shape));
  TL_ASSIGN_OR_RETURN(const Graph training, Differentiate(forward, 1.0f, DType::kF32));
  return ProfileGraph(training);
}

}  // namespace tideline
