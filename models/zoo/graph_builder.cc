#include "models/zoo/graph_builder.h"

#include <utility>

#include "models/ops/op_table.h"

namespace tideline {

TensorId GraphBuilder::Append(Tensor tensor) {
  graph_.tensors.push_back(std::move(tensor));
  return static_cast<TensorId>(graph_.tensors.size()) - 1;
}

TensorId GraphBuilder::Tokens(const std::string& name) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = {graph_.batch, graph_.sequence};
  tensor.dtype = DType::kI32;
  tensor.role = TensorRole::kInput;
  tensor.batch_dim = 0;
  return Append(std::move(tensor));
}

TensorId GraphBuilder::Images(const std::string& name, std::vector<int64_t> extents) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = {graph_.batch};
  tensor.shape.insert(tensor.shape.end(), extents.begin(), extents.end());
  tensor.role = TensorRole::kInput;
  tensor.batch_dim = 0;
  return Append(std::move(tensor));
}

TensorId GraphBuilder::State(const std::string& name, std::vector<int64_t> shape, float value) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  tensor.role = TensorRole::kState;
  tensor.layer = layer_;
  tensor.init_value = value;
  return Append(std::move(tensor));
}

TensorId GraphBuilder::Parameter(const std::string& name, std::vector<int64_t> shape,
                                 const ParameterOptions& options) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  tensor.dtype = dtype_;
  tensor.role = TensorRole::kParameter;
  tensor.layer = layer_;
  tensor.init_stddev = options.stddev;
  tensor.init_value = options.value;
  tensor.decay = options.decay;
  tensor.tensor_parallel_dim = options.tensor_parallel_dim;
  tensor.valid_rows = options.valid_rows;
  return Append(std::move(tensor));
}

// The output dimension that carries the letter of an input's batch dimension.
int32_t GraphBuilder::BatchDimension(Op op, const Attributes& attributes,
                                     const std::vector<TensorId>& inputs, size_t output) const {
  std::vector<int> ranks;
  for (TensorId input : inputs) {
    ranks.push_back(static_cast<int>(graph_.tensors[input].shape.size()));
  }
  const StatusOr<IndexDescription> letters = Describe(op, attributes, ranks);
  if (!letters.ok()) return kNone;
  for (size_t input = 0; input < inputs.size(); ++input) {
    const int32_t batch_dim = graph_.tensors[inputs[input]].batch_dim;
    if (batch_dim == kNone) continue;
    const size_t found = letters->outputs[output].find(letters->inputs[input][batch_dim]);
    if (found != std::string::npos) return static_cast<int32_t>(found);
  }
  return kNone;
}

std::vector<TensorId> GraphBuilder::Apply(Op op, const Attributes& attributes,
                                          std::vector<TensorId> inputs,
                                          const std::vector<std::string>& names) {
  if (!status_.ok()) return std::vector<TensorId>(names.size(), 0);
  std::vector<OperandSpec> specs;
  for (TensorId input : inputs) {
    specs.push_back({graph_.tensors[input].shape, graph_.tensors[input].dtype});
  }
  const StatusOr<std::vector<OperandSpec>> outputs = InferOutputs(op, attributes, specs);
  if (!outputs.ok()) {
    status_ = Annotate(outputs.status(), names[0]);
    return std::vector<TensorId>(names.size(), 0);
  }
  Node node;
  node.name = names[0];
  node.op = op;
  node.attributes = attributes;
  node.layer = layer_;
  for (size_t output = 0; output < outputs->size(); ++output) {
    Tensor tensor;
    const bool workspace = output == names.size();
    tensor.name = workspace ? names[0] + ".workspace" : names[output];
    if (workspace) tensor.role = TensorRole::kWorkspace;
    tensor.shape = (*outputs)[output].shape;
    tensor.dtype = (*outputs)[output].dtype;
    tensor.producer = static_cast<NodeId>(graph_.nodes.size());
    if (!workspace) tensor.batch_dim = BatchDimension(op, attributes, inputs, output);
    node.outputs.push_back(Append(std::move(tensor)));
  }
  node.inputs = std::move(inputs);
  graph_.nodes.push_back(std::move(node));
  std::vector<TensorId> made = graph_.nodes.back().outputs;
  made.resize(names.size());
  return made;
}

void GraphBuilder::Update(Op op, const Attributes& attributes, std::vector<TensorId> inputs,
                          std::vector<TensorId> state, const std::string& name) {
  if (!status_.ok()) return;
  std::vector<OperandSpec> given, changed;
  for (TensorId input : inputs) {
    given.push_back({graph_.tensors[input].shape, graph_.tensors[input].dtype});
  }
  for (TensorId tensor : state) {
    changed.push_back(
        {graph_.tensors[tensor].shape, graph_.tensors[tensor].dtype, Access::kReadWrite});
  }
  const Status fits = CheckOperands(op, attributes, given, changed);
  if (!fits.ok()) {
    status_ = Annotate(fits, name);
    return;
  }
  Node node;
  node.name = name;
  node.op = op;
  node.attributes = attributes;
  node.inputs = std::move(inputs);
  node.outputs = std::move(state);
  node.layer = layer_;
  graph_.nodes.push_back(std::move(node));
}

TensorId GraphBuilder::Cast(const std::string& name, TensorId x) {
  const TensorId y = Apply(Op::kCast, {}, {x}, {name})[0];
  if (status_.ok()) graph_.tensors[y].dtype = dtype_;
  return y;
}

TensorId GraphBuilder::View(const std::string& name, TensorId of, std::vector<int64_t> shape,
                            int64_t offset, int32_t batch_dim) {
  Tensor tensor;
  tensor.name = name;
  tensor.shape = std::move(shape);
  tensor.dtype = graph_.tensors[of].dtype;
  tensor.role = graph_.tensors[of].role;
  tensor.producer = graph_.tensors[of].producer;
  tensor.alias_of = of;
  tensor.alias_offset = offset;
  tensor.batch_dim = batch_dim;
  return Append(std::move(tensor));
}

}  // namespace tideline
