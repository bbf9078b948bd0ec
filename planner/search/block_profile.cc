#include "planner/search/block_profile.h"

#include <algorithm>
#include <vector>

#include "models/cluster/cost_model.h"
#include "models/ops/op_table.h"
#include "planner/draft/draft.h"
#include "planner/techniques/checkpoint/lower.h"
#include "planner/techniques/tensor_parallel/lower.h"

namespace tideline {
namespace {

// A rank's graph of one layer, with the replays of each way to recompute.
class Profiler {
 public:
  Profiler(const Plan& plan, const Draft& draft)
      : plan_(plan),
        graph_(draft.graph),
        by_block_(NodesByBlock(draft.graph)),
        link_(LinkOf(plan.cluster, plan.tp, 1)) {}

  void SetReplay(Recompute recompute, std::vector<std::vector<NodeId>> replay) {
    replay_[static_cast<size_t>(recompute)] = std::move(replay);
  }

  BlockProfile ProfileBlock(int32_t block) const {
    BlockProfile profile;
    const std::vector<NodeId>& forward = by_block_.forward[block];
    const std::vector<NodeId>& backward = by_block_.backward[block];
    profile.forward_s = Seconds(forward);
    profile.forward_peak = Peak(forward);
    profile.nodes = static_cast<int64_t>(forward.size() + backward.size());
    for (int i = 0; i < kRecomputes; ++i) {
      std::vector<NodeId> list = replay_[i][block];
      profile.kept_bytes[i] = KeptBytes(block, list);
      list.insert(list.end(), backward.begin(), backward.end());
      profile.backward_s[i] = Seconds(list);
      profile.backward_peak[i] = Peak(list);
    }
    std::vector<TensorId> parameters;
    for (const NodeId id : forward) {
      for (const TensorId input : graph_.nodes[id].inputs) {
        const TensorId storage = Storage(graph_, input);
        if (graph_.tensors[storage].role == TensorRole::kParameter) parameters.push_back(storage);
      }
    }
    std::sort(parameters.begin(), parameters.end());
    parameters.erase(std::unique(parameters.begin(), parameters.end()), parameters.end());
    for (const TensorId parameter : parameters) {
      profile.parameters += Elements(graph_.tensors[parameter].shape);
    }
    return profile;
  }

 private:
  // Launches on the host hide behind the device, or the other way round.
  double Seconds(const std::vector<NodeId>& nodes) const {
    double device = 0;
    double host = 0;
    for (const NodeId id : nodes) {
      const Node& node = graph_.nodes[id];
      const double bytes = static_cast<double>(Bytes(graph_.tensors[node.outputs[0]]));
      if (node.op == Op::kAllReduce) {
        device += RingAllReduceSeconds(plan_.tp, bytes, link_.bandwidth, link_.latency_s);
      } else if (node.op == Op::kAllGather) {
        device += RingAllGatherSeconds(plan_.tp, bytes, link_.bandwidth, link_.latency_s);
      } else if (node.op == Op::kReduceScatter) {
        device +=
            RingAllGatherSeconds(plan_.tp, bytes * plan_.tp, link_.bandwidth, link_.latency_s);
      } else {
        device += KernelSeconds(plan_.cluster.device, node.op, WorkOfNode(node), plan_.dtype);
        host += plan_.cluster.host.kernel_launch_s;
        continue;
      }
      host += plan_.cluster.host.collective_launch_s;
    }
    return std::max(device, host);
  }

  Work WorkOfNode(const Node& node) const {
    std::vector<OperandSpec> operands;
    for (const TensorId id : node.inputs) {
      operands.push_back({graph_.tensors[id].shape, graph_.tensors[id].dtype, Access::kRead});
    }
    for (size_t i = 0; i < node.outputs.size(); ++i) {
      const Tensor& tensor = graph_.tensors[node.outputs[i]];
      operands.push_back({tensor.shape, tensor.dtype,
                          OutputAccess(node.op, node.attributes, static_cast<int>(i))});
    }
    return WorkOf(node.op, node.attributes, operands);
  }

  bool Counts(TensorId storage) const {
    const TensorRole role = graph_.tensors[storage].role;
    return role != TensorRole::kParameter && role != TensorRole::kParameterGradient &&
           role != TensorRole::kState;
  }

  // Storages made in forward, and not again, that the block's replay and backward read.
  int64_t KeptBytes(int32_t block, const std::vector<NodeId>& replay) const {
    std::vector<bool> done(graph_.tensors.size(), false);
    for (const NodeId id : replay) {
      for (const TensorId output : graph_.nodes[id].outputs) done[Storage(graph_, output)] = true;
    }
    int64_t bytes = 0;
    const auto count = [&](const std::vector<NodeId>& nodes) {
      for (const NodeId id : nodes) {
        for (const TensorId input : graph_.nodes[id].inputs) {
          const TensorId storage = Storage(graph_, input);
          const NodeId producer = graph_.tensors[storage].producer;
          const bool forward = producer == kNone || graph_.nodes[producer].phase == Phase::kForward;
          if (!forward || !Counts(storage) || done[storage]) continue;
          done[storage] = true;
          bytes += Bytes(graph_.tensors[storage]);
        }
      }
    };
    count(replay);
    count(by_block_.backward[block]);
    return bytes;
  }

  // Highest level of storages while the nodes run in order: what they make lives from its first
  // write, what they only read until its last read; what other blocks read stays.
  int64_t Peak(const std::vector<NodeId>& nodes) const {
    struct Use {
      int64_t first_write = -1;
      int64_t last = -1;
    };
    std::vector<Use> uses(graph_.tensors.size());
    const int64_t count = static_cast<int64_t>(nodes.size());
    for (int64_t i = 0; i < count; ++i) {
      const Node& node = graph_.nodes[nodes[i]];
      for (const TensorId input : node.inputs) uses[Storage(graph_, input)].last = i;
      for (const TensorId output : node.outputs) {
        Use& use = uses[Storage(graph_, output)];
        if (use.first_write < 0) use.first_write = i;
        use.last = i;
      }
    }
    std::vector<int64_t> change(count + 1, 0);
    for (TensorId id = 0; id < static_cast<TensorId>(uses.size()); ++id) {
      const Use& use = uses[id];
      if (use.last < 0 || !Counts(id)) continue;
      const int64_t bytes = Bytes(graph_.tensors[id]);
      if (use.first_write >= 0) change[use.first_write] += bytes;
      change[use.last + 1] -= bytes;
    }
    int64_t level = 0;
    int64_t peak = 0;
    for (const int64_t step : change) {
      level += step;
      peak = std::max(peak, level);
    }
    return peak;
  }

  const Plan& plan_;
  const Graph& graph_;
  const BlockNodes by_block_;
  const RingLink link_;
  std::array<std::vector<std::vector<NodeId>>, kRecomputes> replay_;
};

// The block of a graph of `profiled` blocks that block `block` of `blocks` is like.
size_t LikeBlock(int64_t block, int64_t blocks, int64_t profiled) {
  if (blocks == profiled || block == 0) return static_cast<size_t>(block);
  return static_cast<size_t>(block == blocks - 1 ? profiled - 1 : 1);
}

// Elements of parameters that several blocks read.
int64_t TiedParameters(const Graph& graph) {
  std::vector<int32_t> reader(graph.tensors.size(), kNone);
  std::vector<bool> tied(graph.tensors.size(), false);
  for (const Node& node : graph.nodes) {
    if (node.phase != Phase::kForward) continue;
    for (const TensorId input : node.inputs) {
      const TensorId storage = Storage(graph, input);
      if (graph.tensors[storage].role != TensorRole::kParameter) continue;
      tied[storage] = tied[storage] || (reader[storage] != kNone && reader[storage] != node.layer);
      reader[storage] = node.layer;
    }
  }
  int64_t elements = 0;
  for (size_t id = 0; id < tied.size(); ++id) {
    if (tied[id]) elements += Elements(graph.tensors[id].shape);
  }
  return elements;
}

}  // namespace

RingLink LinkOf(const ClusterSpec& cluster, int64_t size, int64_t stride) {
  const NodeSpec& node = cluster.node;
  RingLink link{node.nvlink_bandwidth, node.nvlink_latency_s};
  if (node.interconnect == Interconnect::kPcie) {
    link = {node.pcie_bandwidth, node.pcie_latency_s};
  } else if (node.interconnect == Interconnect::kMesh) {
    int32_t most = 1;
    for (const int32_t links : node.links_between.front()) most = std::max(most, links);
    link.bandwidth *= most;
  }
  if (size * stride <= node.gpus) return link;
  // Every group sends out of the node once per step of its ring.
  const double groups = static_cast<double>(std::min<int64_t>(stride, node.gpus));
  link.bandwidth = std::min(link.bandwidth, node.nics * node.nic_bandwidth / groups);
  link.latency_s = std::max(link.latency_s, node.nic_latency_s);
  return link;
}

StatusOr<ModelProfile> ProfileBlocks(const Plan& plan) {
  const int64_t blocks = plan.blocks();
  Plan small = plan;
  small.model = Shortened(plan.model);
  small.dp = small.pp = small.chunks = 1;
  small.global_batch = plan.micro_batch;
  small.padded_vocab = PaddedVocab(TraitsOf(plan.model).classes, plan.tp);
  TL_ASSIGN_OR_RETURN(Draft draft, StartDraft(small));
  if (UsesTensorParallel(small)) TL_RETURN_IF_ERROR(LowerTensorParallel(draft));
  Profiler profiler(small, draft);
  for (const Recompute recompute : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    Draft with = draft;
    with.plan.recompute = recompute;
    if (UsesCheckpoint(with.plan)) TL_RETURN_IF_ERROR(LowerCheckpoint(with));
    profiler.SetReplay(recompute, std::move(with.replay));
  }
  ModelProfile profile;
  const Boundaries boundaries = BlockBoundaries(draft.graph);
  std::vector<int64_t> boundary_bytes(draft.graph.blocks, 0);
  std::vector<BlockProfile> profiled;
  for (int32_t block = 0; block < draft.graph.blocks; ++block) {
    profiled.push_back(profiler.ProfileBlock(block));
    for (const TensorId storage : boundaries.activations[block]) {
      boundary_bytes[block] += Bytes(draft.graph.tensors[storage]);
    }
  }
  for (int64_t block = 0; block < blocks; ++block) {
    const size_t like = LikeBlock(block, blocks, draft.graph.blocks);
    profile.blocks.push_back(profiled[like]);
    profile.boundary_bytes.push_back(boundary_bytes[like]);
  }
  profile.tied_parameters = TiedParameters(draft.graph);
  return profile;
}

}  // namespace tideline
