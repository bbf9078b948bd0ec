#include "models/ops/autodiff.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "models/ops/gradient_rules.h"
#include "models/ops/op_table.h"

namespace tideline {
namespace {

OperandSpec SpecOf(const Tensor& tensor) { return {tensor.shape, tensor.dtype}; }

// A contiguous part of a storage that nodes read as one operand, under one or more shapes.
struct Region {
  TensorId view = kNone;                // the tensor of the first use
  NodeId first_user = kNone;            // the node of the first use
  std::vector<TensorId> contributions;  // one per use, in forward order; kNone: none came
};

// Where a region lies: first element and number of elements within the storage.
using Place = std::pair<int64_t, int64_t>;

class Differentiator final : public GradientEmitter {
 public:
  Differentiator(const Graph& forward, float loss_scale, DType gradient_dtype)
      : graph_(forward),
        forward_nodes_(static_cast<NodeId>(forward.nodes.size())),
        loss_scale_(loss_scale),
        gradient_dtype_(gradient_dtype) {}

  StatusOr<Graph> Run() {
    TL_RETURN_IF_ERROR(CheckLoss());
    CollectUses();
    for (NodeId id = forward_nodes_ - 1; id >= 0; --id) {
      TL_RETURN_IF_ERROR(Annotate(DifferentiateNode(id), graph_.nodes[id].name));
    }
    return std::move(graph_);
  }

  // GradientEmitter.
  const Node& node() const override { return node_; }
  const Tensor& tensor(TensorId id) const override { return graph_.tensors[id]; }
  TensorId output_gradient() const override { return output_gradient_; }
  float loss_scale() const override { return loss_scale_; }
  Status Emit(Op op, Attributes attributes, std::vector<TensorId> inputs, std::vector<int> of,
              const std::string& suffix) override;
  StatusOr<TensorId> Intermediate(Op op, Attributes attributes, std::vector<TensorId> inputs,
                                  const std::string& suffix) override;
  void Pass(int of, TensorId gradient) override;

 private:
  Status CheckLoss() const;
  void CollectUses();
  Place PlaceOf(TensorId tensor) const;
  Status DifferentiateNode(NodeId id);
  Status AppendNode(Node node);
  void AddWorkspace(Node& node);

  TensorId AddTensor(const std::string& name, TensorId of);
  TensorId AddView(const std::string& name, TensorId of, TensorId storage, int64_t offset);
  TensorId NewGradient(int input, bool& is_parameter);
  void Contribute(int input, TensorId gradient);
  StatusOr<TensorId> SumRegion(const Region& region);
  StatusOr<TensorId> FinishStorage(TensorId storage);
  StatusOr<TensorId> JoinSlices(TensorId storage,
                                const std::vector<std::pair<Place, TensorId>>& sums);
  Status PutInto(TensorId whole, int64_t offset, TensorId part, const Region& region);

  Graph graph_;
  const NodeId forward_nodes_;
  const float loss_scale_;
  const DType gradient_dtype_;

  std::map<TensorId, std::map<Place, Region>> regions_;  // by storage
  std::map<std::pair<NodeId, int>, int> use_of_input_;   // number of a use, by (node, input)
  std::map<TensorId, int> parameter_uses_;               // how many
  std::vector<bool> trained_;   // by storage: a parameter, or made from one
  std::set<TensorId> movable_;  // gradients made by one node for one use: may become slices

  NodeId node_id_ = kNone;
  Node node_;  // a copy: the vector of nodes grows while rules emit
  TensorId output_gradient_ = kNone;
};

Status Differentiator::CheckLoss() const {
  if (graph_.loss == kNone) {
    return InputError(absl::StrCat("graph '", graph_.name, "' has no loss to differentiate"));
  }
  const NodeId producer = graph_.tensors[graph_.loss].producer;
  if (producer == kNone || graph_.nodes[producer].op != Op::kCrossEntropy) {
    return InputError(absl::StrCat("graph '", graph_.name, "': the loss '",
                                   graph_.tensors[graph_.loss].name,
                                   "' is not made by a cross entropy"));
  }
  return absl::OkStatus();
}

Place Differentiator::PlaceOf(TensorId tensor) const {
  int64_t offset = 0;
  const int64_t elements = Elements(graph_.tensors[tensor].shape);
  for (; graph_.tensors[tensor].alias_of != kNone; tensor = graph_.tensors[tensor].alias_of) {
    offset += graph_.tensors[tensor].alias_offset;
  }
  return {offset, elements};
}

void Differentiator::CollectUses() {
  trained_.assign(graph_.tensors.size(), false);
  for (size_t id = 0; id < graph_.tensors.size(); ++id) {
    trained_[id] = graph_.tensors[id].role == TensorRole::kParameter;
  }
  for (NodeId id = 0; id < forward_nodes_; ++id) {
    const Node& node = graph_.nodes[id];
    const bool trained = std::any_of(node.inputs.begin(), node.inputs.end(), [&](TensorId input) {
      return trained_[Storage(graph_, input)];
    });
    for (const TensorId output : node.outputs) {
      const TensorId storage = Storage(graph_, output);
      trained_[storage] = trained_[storage] || trained;
    }
    for (int input = 0; input < static_cast<int>(node.inputs.size()); ++input) {
      const TensorId tensor = node.inputs[input];
      const TensorRole role = graph_.tensors[tensor].role;
      if (role == TensorRole::kParameter) {
        use_of_input_[{id, input}] = parameter_uses_[tensor]++;
      } else if (role == TensorRole::kActivation) {
        Region& region = regions_[Storage(graph_, tensor)][PlaceOf(tensor)];
        if (region.contributions.empty()) {
          region.view = tensor;
          region.first_user = id;
        }
        use_of_input_[{id, input}] = static_cast<int>(region.contributions.size());
        region.contributions.push_back(kNone);
      }
    }
  }
}

Status Differentiator::DifferentiateNode(NodeId id) {
  node_id_ = id;
  node_ = graph_.nodes[id];
  const bool seed = !node_.outputs.empty() && node_.outputs[0] == graph_.loss;
  output_gradient_ = kNone;
  if (!seed) {
    if (node_.outputs.empty()) return absl::OkStatus();
    TL_ASSIGN_OR_RETURN(output_gradient_, FinishStorage(node_.outputs[0]));
    // Nothing that leads to the loss reads this node.
    if (output_gradient_ == kNone) return absl::OkStatus();
  }
  const GradientRule rule = GradientRuleOf(node_.op);
  if (rule == nullptr) {
    return InputError(absl::StrCat("operator ", std::string(Name(node_.op)),
                                   " has no gradient; it cannot be trained through"));
  }
  return rule(*this);
}

TensorId Differentiator::AddTensor(const std::string& name, TensorId of) {
  const Tensor& forward = graph_.tensors[of];
  Tensor gradient;
  gradient.name = name;
  gradient.shape = forward.shape;
  gradient.dtype = forward.dtype;
  gradient.role = TensorRole::kGradient;
  gradient.batch_dim = forward.batch_dim;
  gradient.cut_by = forward.cut_by;
  gradient.gradient_of = of;
  graph_.tensors.push_back(std::move(gradient));
  return static_cast<TensorId>(graph_.tensors.size()) - 1;
}

TensorId Differentiator::AddView(const std::string& name, TensorId of, TensorId storage,
                                 int64_t offset) {
  const TensorId view = AddTensor(name, of);
  Tensor& tensor = graph_.tensors[view];
  tensor.dtype = graph_.tensors[storage].dtype;
  tensor.alias_of = storage;
  tensor.alias_offset = offset;
  tensor.producer = graph_.tensors[storage].producer;
  return view;
}

TensorId Differentiator::NewGradient(int input, bool& is_parameter) {
  const TensorId of = node_.inputs[input];
  const int use = use_of_input_.at({node_id_, input});
  is_parameter = graph_.tensors[of].role == TensorRole::kParameter;
  const int uses =
      is_parameter
          ? parameter_uses_.at(of)
          : static_cast<int>(regions_.at(Storage(graph_, of)).at(PlaceOf(of)).contributions.size());
  std::string name = graph_.tensors[of].name + ".grad";
  if (uses > 1) absl::StrAppend(&name, ".", use);
  const TensorId gradient = AddTensor(name, of);
  if (is_parameter) {
    const Tensor& parameter = graph_.tensors[of];
    Tensor& tensor = graph_.tensors[gradient];
    tensor.role = TensorRole::kParameterGradient;
    tensor.dtype = gradient_dtype_;
    tensor.layer = node_.layer;
    tensor.tensor_parallel_dim = parameter.tensor_parallel_dim;
    tensor.valid_rows = parameter.valid_rows;
  }
  return gradient;
}

void Differentiator::Contribute(int input, TensorId gradient) {
  const TensorId of = node_.inputs[input];
  Region& region = regions_.at(Storage(graph_, of)).at(PlaceOf(of));
  region.contributions[use_of_input_.at({node_id_, input})] = gradient;
}

Status Differentiator::AppendNode(Node node) {
  std::vector<OperandSpec> inputs, outputs;
  for (TensorId input : node.inputs) inputs.push_back(SpecOf(graph_.tensors[input]));
  for (TensorId output : node.outputs) outputs.push_back(SpecOf(graph_.tensors[output]));
  TL_RETURN_IF_ERROR(Annotate(CheckOperands(node.op, node.attributes, inputs, outputs), node.name));
  const NodeId id = static_cast<NodeId>(graph_.nodes.size());
  for (TensorId output : node.outputs) graph_.tensors[output].producer = id;
  graph_.nodes.push_back(std::move(node));
  return absl::OkStatus();
}

Status Differentiator::Emit(Op op, Attributes attributes, std::vector<TensorId> inputs,
                            std::vector<int> of, const std::string& suffix) {
  Node node;
  node.name = absl::StrCat("grad:", node_.name, ":", suffix);
  node.op = op;
  node.inputs = std::move(inputs);
  node.layer = node_.layer;
  node.phase = Phase::kBackward;
  node.forward_node = node_id_;
  const bool any_trained = std::any_of(of.begin(), of.end(), [&](int input) {
    return trained_[Storage(graph_, node_.inputs[input])];
  });
  if (!any_trained) return absl::OkStatus();
  for (int input : of) {
    bool is_parameter = false;
    const TensorId gradient = NewGradient(input, is_parameter);
    node.outputs.push_back(gradient);
    if (is_parameter) {
      attributes.accumulate = true;
    } else {
      movable_.insert(gradient);
      Contribute(input, gradient);
    }
  }
  node.attributes = std::move(attributes);
  AddWorkspace(node);
  return AppendNode(std::move(node));
}

StatusOr<TensorId> Differentiator::Intermediate(Op op, Attributes attributes,
                                                std::vector<TensorId> inputs,
                                                const std::string& suffix) {
  std::vector<OperandSpec> specs;
  for (const TensorId input : inputs) specs.push_back(SpecOf(graph_.tensors[input]));
  TL_ASSIGN_OR_RETURN(const std::vector<OperandSpec> outputs, InferOutputs(op, attributes, specs));
  Tensor tensor;
  tensor.name = absl::StrCat(node_.name, ".grad.", suffix);
  tensor.shape = outputs[0].shape;
  tensor.dtype = outputs[0].dtype;
  tensor.role = TensorRole::kGradient;
  graph_.tensors.push_back(std::move(tensor));
  const TensorId made = static_cast<TensorId>(graph_.tensors.size()) - 1;
  Node node;
  node.name = absl::StrCat("grad:", node_.name, ":", suffix);
  node.op = op;
  node.attributes = std::move(attributes);
  node.inputs = std::move(inputs);
  node.outputs = {made};
  node.layer = node_.layer;
  node.phase = Phase::kBackward;
  node.forward_node = node_id_;
  TL_RETURN_IF_ERROR(AppendNode(std::move(node)));
  return made;
}

// The scratch of the op, as its last output.
void Differentiator::AddWorkspace(Node& node) {
  std::vector<OperandSpec> operands;
  for (const TensorId input : node.inputs) operands.push_back(SpecOf(graph_.tensors[input]));
  for (const TensorId output : node.outputs) operands.push_back(SpecOf(graph_.tensors[output]));
  const std::optional<OperandSpec> workspace = WorkspaceOf(node.op, node.attributes, operands);
  if (!workspace) return;
  Tensor tensor;
  tensor.name = node.name + ".workspace";
  tensor.shape = workspace->shape;
  tensor.dtype = workspace->dtype;
  tensor.role = TensorRole::kWorkspace;
  graph_.tensors.push_back(std::move(tensor));
  node.outputs.push_back(static_cast<TensorId>(graph_.tensors.size()) - 1);
}

void Differentiator::Pass(int of, TensorId gradient) {
  movable_.erase(gradient);
  if (graph_.tensors[node_.inputs[of]].role == TensorRole::kActivation) Contribute(of, gradient);
}

// The gradient of one region, kNone when nothing contributed.
StatusOr<TensorId> Differentiator::SumRegion(const Region& region) {
  std::vector<TensorId> parts;
  for (TensorId part : region.contributions) {
    if (part != kNone) parts.push_back(part);
  }
  if (parts.empty()) return kNone;
  const std::string name = graph_.tensors[region.view].name;
  TensorId sum = parts[0];
  for (size_t part = 1; part < parts.size(); ++part) {
    const bool last = part + 1 == parts.size();
    const std::string index = last ? "" : absl::StrCat(".", part);
    TensorId left = sum;
    TensorId right = parts[part];
    for (TensorId* operand : {&left, &right}) {
      if (graph_.tensors[*operand].shape == graph_.tensors[region.view].shape) continue;
      const size_t number = operand == &left ? 0 : part;
      *operand = AddView(absl::StrCat(name, ".grad.view", number), region.view, *operand, 0);
    }
    sum = AddTensor(absl::StrCat(name, ".grad", last ? "" : ".sum", index), region.view);
    Node node;
    node.name = absl::StrCat("grad:", name, ":sum", index);
    node.op = Op::kAdd;
    node.inputs = {left, right};
    node.outputs = {sum};
    node.layer = graph_.nodes[region.first_user].layer;
    node.phase = Phase::kBackward;
    node.forward_node = region.first_user;
    TL_RETURN_IF_ERROR(AppendNode(std::move(node)));
    movable_.insert(sum);
  }
  return sum;
}

StatusOr<TensorId> Differentiator::FinishStorage(TensorId storage) {
  const auto found = regions_.find(storage);
  if (found == regions_.end()) return kNone;
  std::vector<std::pair<Place, TensorId>> sums;
  for (const auto& [place, region] : found->second) {
    TL_ASSIGN_OR_RETURN(const TensorId sum, SumRegion(region));
    if (sum != kNone) sums.emplace_back(place, sum);
  }
  if (sums.empty()) return kNone;
  const Tensor& tensor = graph_.tensors[storage];
  if (sums.size() > 1 || sums[0].first != Place{0, Elements(tensor.shape)}) {
    return JoinSlices(storage, sums);
  }
  const TensorId sum = sums[0].second;
  if (graph_.tensors[sum].shape == tensor.shape) return sum;
  return AddView(tensor.name + ".grad", storage, sum, 0);
}

// Gradients of slices become slices of one tensor.
StatusOr<TensorId> Differentiator::JoinSlices(TensorId storage,
                                              const std::vector<std::pair<Place, TensorId>>& sums) {
  const std::string name = graph_.tensors[storage].name;
  int64_t covered = 0;
  for (const auto& [place, sum] : sums) {
    if (place.first != covered) break;
    covered += place.second;
  }
  if (covered != Elements(graph_.tensors[storage].shape)) {
    return InternalError(absl::StrCat("the slices of '", name,
                                      "' that lead to the loss do not tile it; its gradient would "
                                      "have undefined parts"));
  }
  const TensorId whole = AddTensor(name + ".grad", storage);
  const std::map<Place, Region>& regions = regions_.at(storage);
  for (const auto& [place, sum] : sums) {
    TL_RETURN_IF_ERROR(PutInto(whole, place.first, sum, regions.at(place)));
  }
  return whole;
}

Status Differentiator::PutInto(TensorId whole, int64_t offset, TensorId part,
                               const Region& region) {
  if (movable_.erase(part) > 0) {
    Tensor& tensor = graph_.tensors[part];
    tensor.alias_of = whole;
    tensor.alias_offset = offset;
    graph_.tensors[whole].producer = std::max(graph_.tensors[whole].producer, tensor.producer);
    return absl::OkStatus();
  }
  // The tensor serves elsewhere as well: copy it into its place.
  const std::string name = graph_.tensors[region.view].name;
  if (graph_.tensors[part].shape != graph_.tensors[region.view].shape) {
    part = AddView(name + ".grad.view", region.view, part, 0);
  }
  Node node;
  node.name = absl::StrCat("grad:", name, ":copy");
  node.op = Op::kCast;
  node.inputs = {part};
  node.outputs = {AddView(name + ".grad.slice", region.view, whole, offset)};
  node.layer = graph_.nodes[region.first_user].layer;
  node.phase = Phase::kBackward;
  node.forward_node = region.first_user;
  graph_.tensors[whole].producer = static_cast<NodeId>(graph_.nodes.size());
  return AppendNode(std::move(node));
}

}  // namespace

StatusOr<Graph> Differentiate(const Graph& forward, float loss_scale, DType gradient_dtype) {
  return Differentiator(forward, loss_scale, gradient_dtype).Run();
}

std::vector<TensorId> SavedStorages(const Graph& training) {
  std::set<TensorId> saved;
  for (const Node& node : training.nodes) {
    if (node.phase != Phase::kBackward) continue;
    for (TensorId input : node.inputs) {
      const TensorId storage = Storage(training, input);
      const Tensor& tensor = training.tensors[storage];
      const bool forward =
          tensor.producer == kNone || training.nodes[tensor.producer].phase == Phase::kForward;
      const bool kept = tensor.role == TensorRole::kActivation || tensor.role == TensorRole::kInput;
      if (forward && kept) saved.insert(storage);
    }
  }
  return {saved.begin(), saved.end()};
}

}  // namespace tideline
