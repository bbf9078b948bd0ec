#include "planner/techniques/checkpoint/lower.h"

#include <algorithm>
#include <vector>

#include "models/ops/autodiff.h"

namespace tideline {
namespace {

class Checkpoint {
 public:
  explicit Checkpoint(Draft& draft)
      : draft_(draft), graph_(draft.graph), by_block_(NodesByBlock(draft.graph)) {
    const size_t tensors = graph_.tensors.size();
    writers_.resize(tensors);
    saved_.assign(tensors, false);
    crosses_.assign(tensors, false);
    for (const TensorId storage : SavedStorages(graph_)) saved_[storage] = true;
    for (const std::vector<TensorId>& boundary : BlockBoundaries(graph_).activations) {
      for (const TensorId storage : boundary) crosses_[storage] = true;
    }
    for (NodeId id = 0; id < static_cast<NodeId>(graph_.nodes.size()); ++id) {
      if (graph_.nodes[id].phase != Phase::kForward) continue;
      for (const TensorId output : graph_.nodes[id].outputs) {
        writers_[Storage(graph_, output)].push_back(id);
      }
    }
  }

  void Run() {
    for (int32_t block = 1; block + 1 < graph_.blocks; ++block) {
      draft_.replay[block] = ReplayOf(block);
    }
  }

 private:
  bool MadeIn(TensorId storage, int32_t block) const {
    return !writers_[storage].empty() && graph_.nodes[writers_[storage].front()].layer == block;
  }

  bool Dropped(TensorId storage) const {
    if (!saved_[storage] || crosses_[storage] || writers_[storage].empty()) return false;
    return draft_.plan.recompute == Recompute::kFull ||
           MakesProbabilities(graph_.nodes[writers_[storage].front()]);
  }

  // The softmax, or the dropout behind it.
  bool MakesProbabilities(const Node& node) const {
    if (node.op != Op::kDropout) return node.op == Op::kCausalSoftmax;
    const NodeId before = graph_.tensors[node.inputs[0]].producer;
    return before != kNone && graph_.nodes[before].op == Op::kCausalSoftmax;
  }

  // True when backward finds the storage without a replay.
  bool Kept(TensorId storage, int32_t block) const {
    return !MadeIn(storage, block) || crosses_[storage] || (saved_[storage] && !Dropped(storage));
  }

  std::vector<NodeId> ReplayOf(int32_t block) const {
    std::vector<NodeId> replay;
    std::vector<TensorId> wanted;
    for (const NodeId id : by_block_.backward[block]) {
      for (const TensorId input : graph_.nodes[id].inputs) wanted.push_back(Storage(graph_, input));
    }
    while (!wanted.empty()) {
      const TensorId storage = wanted.back();
      wanted.pop_back();
      if (Kept(storage, block)) continue;
      for (const NodeId id : writers_[storage]) {
        if (std::find(replay.begin(), replay.end(), id) != replay.end()) continue;
        replay.push_back(id);
        for (const TensorId input : graph_.nodes[id].inputs) {
          wanted.push_back(Storage(graph_, input));
        }
      }
    }
    std::sort(replay.begin(), replay.end());
    return replay;
  }

  Draft& draft_;
  const Graph& graph_;
  const BlockNodes by_block_;
  std::vector<std::vector<NodeId>> writers_;  // forward nodes, by storage
  std::vector<bool> saved_;
  std::vector<bool> crosses_;  // read by later blocks
};

}  // namespace

bool UsesCheckpoint(const Plan& plan) { return plan.recompute != Recompute::kNone; }

Status LowerCheckpoint(Draft& draft) {
  Checkpoint(draft).Run();
  return absl::OkStatus();
}

}  // namespace tideline
