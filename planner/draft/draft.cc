#include "planner/draft/draft.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "models/ops/autodiff.h"
#include "models/zoo/model.h"
#include "planner/plan/workload.h"

namespace tideline {

StatusOr<Graph> ForwardGraph(const Plan& plan) {
  return BuildModel(plan.model, {.batch = plan.micro_batch,
                                 .sequence = plan.seq,
                                 .dtype = plan.dtype,
                                 .vocab_multiple = plan.padded_vocab,
                                 .fused_attention = plan.attention == AttentionForm::kFused});
}

StatusOr<Draft> MakeDraft(const Plan& plan) {
  TL_ASSIGN_OR_RETURN(const std::string hash, ModelHash(plan.model, plan.seq, plan.dtype));
  if (hash != plan.graph_hash) {
    return InputError(absl::StrCat("field 'graph_hash' is ", plan.graph_hash,
                                   ", but the graph of model '", TraitsOf(plan.model).name, "' is ",
                                   hash, "; the plan was made for another graph: plan again"));
  }
  return StartDraft(plan);
}

StatusOr<Draft> StartDraft(const Plan& plan) {
  TL_ASSIGN_OR_RETURN(const Graph forward, ForwardGraph(plan));
  const double tokens = static_cast<double>(plan.global_batch) * static_cast<double>(plan.seq);
  Draft draft;
  draft.plan = plan;
  TL_ASSIGN_OR_RETURN(draft.graph,
                      Differentiate(forward, static_cast<float>(1.0 / tokens), plan.grad_dtype));
  draft.micro_batches = plan.global_batch / plan.micro_batch;
  draft.chunks = {{.stage = 0, .first_block = 0, .blocks = draft.graph.blocks}};
  draft.order = {SerialOrder(draft.micro_batches)};
  draft.replay.resize(draft.graph.blocks);
  draft.bucket_bytes = plan.bucket_bytes;
  return draft;
}

std::vector<ScheduleItem> SerialOrder(int64_t micro_batches) {
  std::vector<ScheduleItem> order;
  order.reserve(2 * micro_batches);
  for (int32_t m = 0; m < micro_batches; ++m) {
    for (const bool backward : {false, true}) {
      order.push_back({.kind = ScheduleItem::Kind::kRun,
                       .unit = {.backward = backward, .chunk = 0, .micro_batch = m}});
    }
  }
  return order;
}

BlockNodes NodesByBlock(const Graph& graph) {
  BlockNodes nodes;
  nodes.forward.resize(graph.blocks);
  nodes.backward.resize(graph.blocks);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
    const Node& node = graph.nodes[id];
    (node.phase == Phase::kForward ? nodes.forward : nodes.backward)[node.layer].push_back(id);
  }
  return nodes;
}

Boundaries BlockBoundaries(const Graph& graph) {
  struct Span {
    int32_t made = kNone;      // block of the (last) producer
    int32_t farthest = kNone;  // block of the reader farthest from it
    bool gradient = false;
  };
  std::vector<Span> spans(graph.tensors.size());
  for (const Node& node : graph.nodes) {
    for (const TensorId output : node.outputs) {
      Span& span = spans[Storage(graph, output)];
      span.gradient = node.phase == Phase::kBackward;
      span.made = span.farthest = node.layer;
    }
  }
  for (const Node& node : graph.nodes) {
    for (const TensorId input : node.inputs) {
      Span& span = spans[Storage(graph, input)];
      if (span.made == kNone) continue;
      span.farthest =
          span.gradient ? std::min(span.farthest, node.layer) : std::max(span.farthest, node.layer);
    }
  }
  Boundaries boundaries;
  boundaries.activations.resize(graph.blocks + 1);
  boundaries.gradients.resize(graph.blocks + 1);
  for (TensorId id = 0; id < static_cast<TensorId>(spans.size()); ++id) {
    const Span& span = spans[id];
    for (int32_t k = span.made + 1; !span.gradient && k <= span.farthest; ++k) {
      boundaries.activations[k].push_back(id);
    }
    for (int32_t k = span.made; span.gradient && k > span.farthest; --k) {
      boundaries.gradients[k].push_back(id);
    }
  }
  return boundaries;
}

}  // namespace tideline
