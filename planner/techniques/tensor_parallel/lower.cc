#include "planner/techniques/tensor_parallel/lower.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "models/ops/op_table.h"
#include "planner/techniques/tensor_parallel/local_graph.h"

namespace tideline {
namespace {

constexpr size_t kTensorIndex = static_cast<size_t>(Axis::kTensor);

// The letter along which one node is cut; 0: not at all.
struct Cut {
  char letter = 0;
  bool sequence = false;
};

class Rewriter {
 public:
  Rewriter(const Graph& whole, int32_t ranks, bool sequence_parallel)
      : whole_(whole), graph_(whole, ranks, sequence_parallel) {}

  Status Run() {
    for (NodeId id = 0; id < static_cast<NodeId>(whole_.nodes.size()); ++id) {
      const Status status = Rewrite(id);
      if (!status.ok()) return Annotate(status, whole_.nodes[id].name);
    }
    return absl::OkStatus();
  }

  LocalGraph& graph() { return graph_; }

 private:
  StatusOr<IndexDescription> Letters(const Node& node) const {
    std::vector<int> ranks;
    for (const TensorId input : node.inputs) {
      ranks.push_back(static_cast<int>(whole_.tensors[input].shape.size()));
    }
    return Describe(node.op, node.attributes, ranks);
  }

  // True when the node is linear in each input, so that parts of sums may flow through.
  StatusOr<bool> KeepsPartial(const Node& node) {
    if (node.op != Op::kAdd && node.op != Op::kCast) return false;
    for (const TensorId input : node.inputs) {
      TL_ASSIGN_OR_RETURN(const CutLayout layout, graph_.LayoutOf(input));
      if (!layout.partial) return false;
    }
    return true;
  }

  // The letter of the operands that cannot be gathered (parameters and what they cut), else of the
  // sequence shards when every operand with that letter is one.
  StatusOr<Cut> ChooseCut(const Node& node, const IndexDescription& letters) {
    char strong = 0;
    char sequence = 0;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      TL_ASSIGN_OR_RETURN(const CutLayout layout, graph_.LayoutOf(node.inputs[i]));
      if (layout.dim == kNone) continue;
      const char letter = letters.inputs[i][layout.dim];
      char& chosen = layout.sequence ? sequence : strong;
      if (chosen != 0 && chosen != letter) return Contradiction(chosen, letter);
      chosen = letter;
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Tensor& output = whole_.tensors[node.outputs[i]];
      if (output.role != TensorRole::kParameterGradient || output.tensor_parallel_dim == kNone) {
        continue;
      }
      const char letter = letters.outputs[i][output.tensor_parallel_dim];
      if (strong != 0 && strong != letter) return Contradiction(strong, letter);
      strong = letter;
    }
    if (strong != 0) return Cut{strong, false};
    if (sequence == 0 || letters.whole.find(sequence) != std::string::npos) return Cut{};
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      TL_ASSIGN_OR_RETURN(const CutLayout layout, graph_.LayoutOf(node.inputs[i]));
      const size_t at = letters.inputs[i].find(sequence);
      if (at != std::string::npos && layout.dim != static_cast<int32_t>(at)) return Cut{};
    }
    return Cut{sequence, true};
  }

  static Status Contradiction(char a, char b) {
    return InternalError(
        absl::StrCat("is cut along two letters, ", std::string(1, a), " and ", std::string(1, b)));
  }

  // The local input for a node cut along `cut`.
  StatusOr<TensorId> Input(const Node& node, size_t i, const IndexDescription& letters,
                           const Cut& cut) {
    const TensorId input = node.inputs[i];
    TL_ASSIGN_OR_RETURN(const CutLayout layout, graph_.LayoutOf(input));
    if (layout.dim == kNone) {
      if (cut.letter != 0 && letters.inputs[i].find(cut.letter) != std::string::npos) {
        return InternalError(
            absl::StrCat("reads '", whole_.tensors[input].name, "' whole where it is to be cut"));
      }
      return graph_.AsIs(input);
    }
    if (letters.inputs[i][layout.dim] == cut.letter && layout.sequence == cut.sequence) {
      return graph_.AsIs(input);
    }
    return graph_.Gathered(input, node);
  }

  // Attributes of one rank's part of a node.
  Attributes Local(const Node& node, const IndexDescription& letters, const Cut& cut) const {
    Attributes attributes = node.attributes;
    if (cut.letter == 0) return attributes;
    const auto extent = [&]() -> int64_t {
      for (size_t i = 0; i < letters.inputs.size(); ++i) {
        const size_t at = letters.inputs[i].find(cut.letter);
        if (at != std::string::npos) return whole_.tensors[node.inputs[i]].shape[at];
      }
      for (size_t i = 0; i < letters.outputs.size(); ++i) {
        const size_t at = letters.outputs[i].find(cut.letter);
        if (at != std::string::npos) return whole_.tensors[node.outputs[i]].shape[at];
      }
      return 0;
    };
    if (letters.positional.find(cut.letter) != std::string::npos) {
      attributes.position_offset.per_coordinate[kTensorIndex] += extent() / graph_.ranks();
    }
    if (letters.gathered.find(cut.letter) != std::string::npos) {
      attributes.row_offset.per_coordinate[kTensorIndex] += extent() / graph_.ranks();
    }
    return attributes;
  }

  Status Rewrite(NodeId id) {
    const Node& node = whole_.nodes[id];
    TL_ASSIGN_OR_RETURN(const bool keeps_partial, KeepsPartial(node));
    if (!keeps_partial) {
      for (const TensorId input : node.inputs) {
        TL_RETURN_IF_ERROR(graph_.Summed(input).status());
      }
    }
    if (node.op == Op::kCrossEntropy) {
      TL_ASSIGN_OR_RETURN(const CutLayout logits, graph_.LayoutOf(node.inputs[0]));
      if (logits.dim == 2) return SplitCrossEntropy(id);
    }
    TL_ASSIGN_OR_RETURN(const IndexDescription letters, Letters(node));
    TL_ASSIGN_OR_RETURN(const Cut cut, ChooseCut(node, letters));

    Node local = node;
    local.attributes = Local(node, letters, cut);
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      TL_ASSIGN_OR_RETURN(local.inputs[i], Input(node, i, letters, cut));
    }
    if (node.op == Op::kEinsum && node.inputs.size() == 3 && cut.letter != 0 &&
        letters.outputs[0].find(cut.letter) == std::string::npos) {
      return SplitBias(id, std::move(local));
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      CutLayout layout{.partial = keeps_partial};
      if (cut.letter != 0) {
        const size_t at = letters.outputs[i].find(cut.letter);
        if (at == std::string::npos) {
          layout.partial = true;
        } else {
          layout = {.dim = static_cast<int32_t>(at), .sequence = cut.sequence};
        }
      }
      TL_ASSIGN_OR_RETURN(local.outputs[i], graph_.Make(node.outputs[i], layout));
    }
    graph_.StandsFor(id, graph_.Append(std::move(local)));
    return absl::OkStatus();
  }

  // A row-parallel product: the bias is added once, to the finished sum.
  Status SplitBias(NodeId id, Node product) {
    const Node& node = whole_.nodes[id];
    const TensorId bias = product.inputs.back();
    product.inputs.pop_back();
    std::string& equation = product.attributes.equation;
    const size_t arrow = equation.find("->");
    equation = equation.substr(0, equation.rfind(',', arrow)) + equation.substr(arrow);
    product.name += ".product";
    TL_ASSIGN_OR_RETURN(product.outputs[0], graph_.Make(node.outputs[0], {.partial = true}));
    graph_.StandsFor(id, graph_.Append(product));
    TL_ASSIGN_OR_RETURN(const TensorId sum, graph_.Summed(node.outputs[0]));
    TL_ASSIGN_OR_RETURN(const CutLayout layout, graph_.LayoutOf(node.outputs[0]));
    Node add;
    add.name = node.name;
    add.op = Op::kAddBias;
    add.inputs = {sum, bias};
    add.layer = node.layer;
    add.phase = node.phase;
    // What the whole graph calls by the output's name has its bias.
    graph_.Rename(product.outputs[0], whole_.tensors[node.outputs[0]].name + ".product");
    TL_ASSIGN_OR_RETURN(const TensorId output, graph_.Make(node.outputs[0], layout));
    add.outputs = {output};
    graph_.Append(std::move(add));
    return absl::OkStatus();
  }

  // Cross entropy of logits cut along the vocabulary: maximum, then sums of exponentials and the
  // target's logit, then the loss, all of [batch, sequence] only.
  Status SplitCrossEntropy(NodeId id) {
    const Node& node = whole_.nodes[id];
    TL_ASSIGN_OR_RETURN(const TensorId logits, graph_.AsIs(node.inputs[0]));
    TL_ASSIGN_OR_RETURN(const TensorId targets, graph_.AsIs(node.inputs[1]));
    Attributes attributes = node.attributes;
    attributes.row_offset.per_coordinate[kTensorIndex] +=
        whole_.tensors[node.inputs[0]].shape[2] / graph_.ranks();

    const auto append = [&](Op op, const std::string& suffix, std::vector<TensorId> inputs,
                            std::vector<TensorId> outputs) {
      Node part;
      part.name = node.name + suffix;
      part.op = op;
      part.attributes = attributes;
      part.inputs = std::move(inputs);
      part.outputs = std::move(outputs);
      part.layer = node.layer;
      part.phase = node.phase;
      return graph_.Append(std::move(part));
    };
    const auto statistic = [&](const std::string& suffix, std::vector<int64_t> shape) {
      Tensor tensor;
      tensor.name = node.name + suffix;
      tensor.shape = std::move(shape);
      tensor.dtype = DType::kF32;
      tensor.role = TensorRole::kActivation;
      tensor.cut_by.assign(tensor.shape.size(), kNone);
      return graph_.MakeExtra(std::move(tensor));
    };
    const std::vector<int64_t> rows = whole_.tensors[node.outputs[0]].shape;
    const TensorId own_max = statistic(".max", rows);
    append(Op::kRowMax, ".max", {logits}, {own_max});
    const TensorId max = graph_.AllReduce(own_max, /*maximum=*/true, node, node.name + ".max.all");
    const TensorId own_sums = statistic(".sums", {2, rows[0], rows[1]});
    append(Op::kCrossEntropyPartial, ".sums", {logits, targets, max}, {own_sums});
    const TensorId sums =
        graph_.AllReduce(own_sums, /*maximum=*/false, node, node.name + ".sums.all");
    std::vector<TensorId> outputs;
    for (const TensorId output : node.outputs) {
      TL_ASSIGN_OR_RETURN(outputs.emplace_back(), graph_.Make(output, {}));
    }
    graph_.StandsFor(id, append(Op::kCrossEntropyFinish, "", {max, sums}, outputs));
    return absl::OkStatus();
  }

  const Graph& whole_;
  LocalGraph graph_;
};

}  // namespace

bool UsesTensorParallel(const Plan& plan) { return plan.tp > 1; }

Status LowerTensorParallel(Draft& draft) {
  Rewriter rewriter(draft.graph, draft.plan.tp, draft.plan.sequence_parallel);
  TL_RETURN_IF_ERROR(rewriter.Run());
  std::vector<TensorId> partial = rewriter.graph().partial_gradients();
  draft.graph = rewriter.graph().Take();
  draft.partial_gradients = std::move(partial);
  draft.mesh[kTensorIndex] = draft.plan.tp;
  return absl::OkStatus();
}

}  // namespace tideline
