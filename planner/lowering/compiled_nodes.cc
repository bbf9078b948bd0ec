#include "planner/lowering/compiled_nodes.h"

#include "base/check.h"
#include "models/ops/op_table.h"

namespace tideline {
namespace {

class Compiler {
 public:
  Compiler(StageContext& context, bool dropping)
      : context_(context), graph_(context.graph()), dropping_(dropping) {}

  CompiledNodes Run() {
    result_.nodes.resize(graph_.nodes.size());
    for (size_t id = 0; id < graph_.nodes.size(); ++id) {
      if (context_.has_block(graph_.nodes[id].layer)) Compile(graph_.nodes[id], result_.nodes[id]);
    }
    return std::move(result_);
  }

 private:
  static bool IsCollective(Op op) {
    return op == Op::kAllReduce || op == Op::kAllGather || op == Op::kReduceScatter;
  }

  void Compile(const Node& node, CompiledNode& compiled) {
    compiled.operands_begin = static_cast<uint32_t>(result_.operands.size());
    if (IsCollective(node.op)) {
      CompileCollective(node, compiled);
    } else {
      CompileKernel(node, compiled);
    }
    compiled.operands_end = static_cast<uint32_t>(result_.operands.size());
    compiled.overwrite.layer = compiled.accumulate.layer = node.layer;
  }

  void CompileKernel(const Node& node, CompiledNode& compiled) {
    std::vector<OperandSpec> specs;
    for (const TensorId input : node.inputs) {
      const Tensor& tensor = graph_.tensors[input];
      specs.push_back({tensor.shape, tensor.dtype, Access::kRead});
      AddOperand(input, Access::kRead);
    }
    for (size_t output = 0; output < node.outputs.size(); ++output) {
      const Tensor& tensor = graph_.tensors[node.outputs[output]];
      const Access access = OutputAccess(node.op, node.attributes, static_cast<int>(output));
      specs.push_back({tensor.shape, tensor.dtype, access});
      AddOperand(node.outputs[output], access);
    }
    // The gradient of everything else is a multiple of the loss's.
    std::vector<uint32_t> scalars;
    if (node.op == Op::kCrossEntropyGrad && context_.gate.loss_scale != kNoId) {
      scalars = {context_.gate.loss_scale};
    }
    Attributes attributes = node.attributes;
    if (!dropping_) attributes.dropout = {};
    compiled.accumulate =
        context_.Compute(node.name, node.op, attributes, specs, node.phase, scalars);
    compiled.overwrite = compiled.accumulate;
    if (!attributes.accumulate) return;
    attributes.accumulate = false;
    for (size_t output = 0; output < node.outputs.size(); ++output) {
      specs[node.inputs.size() + output].access =
          OutputAccess(node.op, attributes, static_cast<int>(output));
    }
    compiled.overwrite = context_.Compute(node.name, node.op, attributes, specs, node.phase);
  }

  void CompileCollective(const Node& node, CompiledNode& compiled) {
    const Tensor& input = graph_.tensors[node.inputs[0]];
    const Tensor& output = graph_.tensors[node.outputs[0]];
    int64_t outer = 1;
    int64_t block = 1;
    CollectiveKind kind = CollectiveKind::kAllReduce;
    if (node.op == Op::kAllReduce) {
      block = Elements(input.shape);
    } else {
      const bool gathers = node.op == Op::kAllGather;
      kind = gathers ? CollectiveKind::kAllGather : CollectiveKind::kReduceScatter;
      const std::vector<int64_t>& shard = gathers ? input.shape : output.shape;
      for (size_t d = 0; d < shard.size(); ++d) {
        (static_cast<int32_t>(d) < node.attributes.dimension ? outer : block) *= shard[d];
      }
    }
    const Reduction reduction = node.attributes.maximum ? Reduction::kMaximum : Reduction::kSum;
    const bool over_data = node.attributes.axis == Axis::kData;
    compiled.overwrite = compiled.accumulate =
        context_.Communicate(node.name, kind, over_data ? context_.data_lane : context_.tensor_lane,
                             over_data ? context_.data_group : context_.tensor_group, input.dtype,
                             outer, block, reduction, node.phase);
    if (Storage(graph_, node.inputs[0]) == Storage(graph_, node.outputs[0])) {
      AddOperand(node.inputs[0], Access::kReadWrite);
    } else {
      AddOperand(node.inputs[0], Access::kRead);
      AddOperand(node.outputs[0], Access::kWrite);
    }
  }

  void AddOperand(TensorId id, Access access) {
    const Tensor& tensor = graph_.tensors[id];
    CompiledOperand operand{.tensor = id, .bytes = Bytes(tensor), .access = access};
    if (tensor.role == TensorRole::kParameterGradient) {
      TL_CHECK(tensor.alias_of == kNone, "gradients of parameters are whole storages");
      operand.kind = CompiledOperand::Kind::kGradient;
    } else {
      for (TensorId t = id; graph_.tensors[t].alias_of != kNone; t = graph_.tensors[t].alias_of) {
        operand.offset += graph_.tensors[t].alias_offset * SizeOf(tensor.dtype);
      }
      operand.tensor = Storage(graph_, id);
      if (tensor.role == TensorRole::kState) operand.kind = CompiledOperand::Kind::kState;
      if (tensor.role == TensorRole::kParameter) {
        operand.kind = CompiledOperand::Kind::kParameter;
        operand.offset += OffsetInBucket(operand.tensor) * SizeOf(tensor.dtype);
      }
    }
    result_.operands.push_back(operand);
  }

  int64_t OffsetInBucket(TensorId tensor) const {
    const StageParameters& parameters = context_.parameters;
    const int32_t bucket = parameters.bucket_of[tensor];
    TL_CHECK(bucket != kNone, "every parameter of the stage has a bucket");
    return parameters.buckets[bucket].slots[parameters.slot_of[tensor]].offset;
  }

  StageContext& context_;
  const Graph& graph_;
  const bool dropping_;
  CompiledNodes result_;
};

}  // namespace

CompiledNodes CompileNodes(StageContext& context, bool dropping) {
  return Compiler(context, dropping).Run();
}

}  // namespace tideline
