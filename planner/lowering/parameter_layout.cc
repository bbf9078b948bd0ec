#include "planner/lowering/parameter_layout.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/check.h"

namespace tideline {
namespace {

// What one parameter is to the stages.
struct Uses {
  std::vector<int32_t> blocks;                         // that read it in forward, ascending
  std::vector<std::pair<NodeId, TensorId>> gradients;  // by forward node: order of use
};

std::map<TensorId, Uses> FindUses(const Graph& graph) {
  std::map<TensorId, Uses> uses;
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kForward) continue;
    for (const TensorId input : node.inputs) {
      if (graph.tensors[input].role != TensorRole::kParameter) continue;
      std::vector<int32_t>& blocks = uses[Storage(graph, input)].blocks;
      if (blocks.empty() || blocks.back() != node.layer) blocks.push_back(node.layer);
    }
  }
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kBackward) continue;
    for (const TensorId output : node.outputs) {
      const Tensor& tensor = graph.tensors[output];
      if (tensor.role != TensorRole::kParameterGradient) continue;
      uses[tensor.gradient_of].gradients.emplace_back(node.forward_node, output);
    }
  }
  for (auto& [parameter, use] : uses) {
    std::sort(use.blocks.begin(), use.blocks.end());
    use.blocks.erase(std::unique(use.blocks.begin(), use.blocks.end()), use.blocks.end());
    std::sort(use.gradients.begin(), use.gradients.end());
  }
  return uses;
}

std::vector<int32_t> StageOfBlock(const Draft& draft) {
  std::vector<int32_t> stage_of(draft.graph.blocks, 0);
  for (const StageChunk& chunk : draft.chunks) {
    std::fill_n(stage_of.begin() + chunk.first_block, chunk.blocks, chunk.stage);
  }
  return stage_of;
}

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// One parameter of the stage, before it has a bucket.
struct Candidate {
  ParameterSlot slot;
  bool partial = false;
  std::vector<int32_t> stages;
  std::vector<int32_t> blocks;
  bool tied() const { return slot.gradients.size() > 1 || !stages.empty(); }
};

std::vector<Candidate> Candidates(const Draft& draft, int32_t stage) {
  const Graph& graph = draft.graph;
  const std::vector<int32_t> stage_of = StageOfBlock(draft);
  std::vector<Candidate> candidates;
  for (const auto& [parameter, use] : FindUses(graph)) {
    Candidate candidate;
    candidate.slot.parameter = parameter;
    candidate.slot.elements = Elements(graph.tensors[parameter].shape);
    for (const int32_t block : use.blocks) {
      const int32_t owner = stage_of[block];
      if (owner == stage) candidate.blocks.push_back(block);
      if (candidate.stages.empty() || candidate.stages.back() != owner) {
        candidate.stages.push_back(owner);
      }
    }
    if (candidate.blocks.empty()) continue;
    if (candidate.stages.size() == 1) candidate.stages.clear();
    TL_CHECK(candidate.stages.size() <= 2 ||
                 std::is_sorted(candidate.stages.begin(), candidate.stages.end()),
             "a shared parameter is used on ascending stages");
    for (const auto& [forward_node, gradient] : use.gradients) {
      if (stage_of[graph.nodes[forward_node].layer] != stage) continue;
      candidate.slot.gradients.push_back(gradient);
      candidate.partial |= std::binary_search(draft.partial_gradients.begin(),
                                              draft.partial_gradients.end(), gradient);
    }
    candidates.push_back(std::move(candidate));
  }
  // Backward runs the blocks from the last to the first and finishes a parameter with its first
  // block.
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     return std::tuple(-a.blocks.front(), -a.slot.parameter) <
                            std::tuple(-b.blocks.front(), -b.slot.parameter);
                   });
  return candidates;
}

}  // namespace

int32_t EffectiveZero(const Draft& draft) { return draft.size(Axis::kData) > 1 ? draft.zero : 0; }

StageParameters LayOutParameters(const Draft& draft, int32_t stage) {
  const int32_t zero = EffectiveZero(draft);
  const int64_t gradient_size = SizeOf(draft.plan.grad_dtype);
  StageParameters result;
  std::array<int32_t, 2> open = {kNone, kNone};  // bucket being filled, by `partial`
  for (Candidate& candidate : Candidates(draft, stage)) {
    int32_t& current = open[candidate.partial];
    bool fresh = current == kNone || candidate.tied();
    if (!fresh) {
      const Bucket& bucket = result.buckets[current];
      fresh = zero == 3 ? bucket.blocks.front() != candidate.blocks.front()
                        : bucket.elements * gradient_size >= draft.bucket_bytes;
    }
    if (fresh) {
      result.buckets.emplace_back();
      result.buckets.back().tensor_partial = candidate.partial;
      result.buckets.back().stages = candidate.stages;
      if (!candidate.tied()) current = static_cast<int32_t>(result.buckets.size()) - 1;
    }
    Bucket& bucket = candidate.tied() ? result.buckets.back() : result.buckets[current];
    candidate.slot.offset = bucket.elements;
    bucket.elements += candidate.slot.elements;
    bucket.blocks.insert(bucket.blocks.end(), candidate.blocks.begin(), candidate.blocks.end());
    std::sort(bucket.blocks.begin(), bucket.blocks.end());
    bucket.blocks.erase(std::unique(bucket.blocks.begin(), bucket.blocks.end()),
                        bucket.blocks.end());
    bucket.slots.push_back(std::move(candidate.slot));
  }

  const size_t tensors = draft.graph.tensors.size();
  result.bucket_of.assign(tensors, kNone);
  result.slot_of.assign(tensors, kNone);
  result.use_of.assign(tensors, kNone);
  const int64_t ranks = zero > 0 ? draft.size(Axis::kData) : 1;
  for (size_t b = 0; b < result.buckets.size(); ++b) {
    Bucket& bucket = result.buckets[b];
    bucket.padded =
        zero > 0 ? RoundUp(bucket.elements, ranks * kShardAlignmentElements) : bucket.elements;
    bucket.shard = bucket.padded / ranks;
    for (size_t s = 0; s < bucket.slots.size(); ++s) {
      const auto place = [&](TensorId tensor, int32_t use) {
        result.bucket_of[tensor] = static_cast<int32_t>(b);
        result.slot_of[tensor] = static_cast<int32_t>(s);
        result.use_of[tensor] = use;
      };
      place(bucket.slots[s].parameter, kNone);
      for (size_t use = 0; use < bucket.slots[s].gradients.size(); ++use) {
        place(bucket.slots[s].gradients[use], static_cast<int32_t>(use));
      }
    }
  }
  return result;
}

StateFigures StateOf(const Draft& draft, const StageParameters& parameters) {
  const int32_t zero = EffectiveZero(draft);
  const int64_t parameter_size = SizeOf(draft.plan.dtype);
  const int64_t gradient_size = SizeOf(draft.plan.grad_dtype);
  const int64_t optimizer_size = draft.plan.dtype == DType::kF32 ? 8 : 12;
  StateFigures figures;
  for (const Bucket& bucket : parameters.buckets) {
    figures.parameter_bytes += (zero == 3 ? bucket.shard : bucket.padded) * parameter_size;
    figures.gradient_bytes += (zero >= 2 ? bucket.shard : bucket.padded) * gradient_size;
    figures.optimizer_bytes += bucket.shard * optimizer_size;
    for (const ParameterSlot& slot : bucket.slots) {
      const int64_t more_uses = static_cast<int64_t>(slot.gradients.size()) - 1;
      if (more_uses > 0) figures.gradient_bytes += more_uses * slot.elements * gradient_size;
    }
  }
  return figures;
}

}  // namespace tideline
