#include "planner/techniques/checkpoint/lower.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "models/ops/autodiff.h"
#include "planner/lowering/lower.h"
#include "tests/planner/lowering/fixture.h"

namespace tideline {
namespace {

struct Case {
  DecoderConfig model;
  int32_t tp = 1;
  bool sequence_parallel = false;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const DecoderConfig& model : {TinyGpt(), TinyLlama(), TinyOpt()}) {
    cases.push_back({model});
    cases.push_back({model, 2, false});
    cases.push_back({model, 2, true});
  }
  return cases;
}

Draft Checkpointed(const Case& it, Recompute recompute, DType dtype = DType::kF32) {
  Plan plan = TestPlan(it.model, {.tp = it.tp});
  plan.sequence_parallel = it.sequence_parallel;
  plan.recompute = recompute;
  plan.dtype = plan.grad_dtype = dtype;
  plan.graph_hash = *ModelHash(plan.model, plan.seq, plan.dtype);
  StatusOr<Draft> draft = DraftOf(plan);
  EXPECT_TRUE(draft.ok()) << draft.status();
  return *std::move(draft);
}

// Names of a layer's replayed nodes without "layers.<i>.", in order.
std::vector<std::string> Replayed(const Draft& draft, int32_t block) {
  const std::string prefix = "layers." + std::to_string(block - 1) + ".";
  std::vector<std::string> names;
  for (const NodeId id : draft.replay[block]) {
    const std::string& name = draft.graph.nodes[id].name;
    EXPECT_EQ(name.substr(0, prefix.size()), prefix);
    names.push_back(name.substr(prefix.size()));
  }
  return names;
}

// Probabilities are made again from the scores, and those from queries and keys, which are kept:
// the gradient of the scores reads them.
TEST(CheckpointLowerTest, SelectiveRepeatsScoresAndProbabilities) {
  for (const Case& it : Cases()) {
    const Draft draft = Checkpointed(it, Recompute::kSelective);
    for (int32_t block = 1; block <= it.model.layers; ++block) {
      EXPECT_EQ(Replayed(draft, block),
                (std::vector<std::string>{"attention.scores", "attention.probabilities"}))
          << it.model.name << " tp " << it.tp;
    }
  }
}

// What the dropped probabilities were made from goes with them.
TEST(CheckpointLowerTest, SelectiveRepeatsDropoutOfProbabilities) {
  DecoderConfig model = TinyGpt();
  model.dropout = 0.1;
  const Draft draft = Checkpointed({model}, Recompute::kSelective);
  EXPECT_EQ(Replayed(draft, 1),
            (std::vector<std::string>{"attention.scores", "attention.probabilities",
                                      "attention.probabilities.dropout"}));
}

// Everything that backward reads is made again from the layer's input. The last product and the
// last sum are not: what they make is the next layer's input.
TEST(CheckpointLowerTest, FullRepeatsAllButTheEnd) {
  using Names = std::vector<std::string>;
  const Names gpt = {"attention.norm",          "attention.qkv",     "attention.scores",
                     "attention.probabilities", "attention.context", "attention.output",
                     "attention.residual",      "mlp.norm",          "mlp.up",
                     "mlp.activation"};
  const Names opt = {"attention.norm",    "attention.q",      "attention.k",
                     "attention.v",       "attention.scores", "attention.probabilities",
                     "attention.context", "attention.output", "attention.residual",
                     "mlp.norm",          "mlp.up",           "mlp.activation"};
  const Names llama = {"attention.norm",
                       "attention.q",
                       "attention.k",
                       "attention.v",
                       "attention.q.rotated",
                       "attention.k.rotated",
                       "attention.scores",
                       "attention.probabilities",
                       "attention.context",
                       "attention.output",
                       "attention.residual",
                       "mlp.norm",
                       "mlp.gate",
                       "mlp.up",
                       "mlp.activation"};
  const std::pair<DecoderConfig, Names> expected[] = {
      {TinyGpt(), gpt}, {TinyOpt(), opt}, {TinyLlama(), llama}};
  for (const auto& [model, names] : expected) {
    const Draft draft = Checkpointed({model}, Recompute::kFull);
    for (int32_t block = 1; block <= model.layers; ++block) {
      EXPECT_EQ(Replayed(draft, block), names) << model.name;
    }
  }
}

// With tensor parallelism replays have their collectives: the attention output's sum, not the
// MLP's; with the sequence cut both gathers before products, and one of the two scatters.
TEST(CheckpointLowerTest, FullRepeatsItsCollectives) {
  for (const Case& it : Cases()) {
    if (it.tp == 1) continue;
    const Draft draft = Checkpointed(it, Recompute::kFull);
    for (int32_t block = 1; block <= it.model.layers; ++block) {
      const auto count = [&](Op op) {
        return std::count_if(draft.replay[block].begin(), draft.replay[block].end(),
                             [&](NodeId id) { return draft.graph.nodes[id].op == op; });
      };
      EXPECT_EQ(count(Op::kAllReduce), it.sequence_parallel ? 0 : 1);
      EXPECT_EQ(count(Op::kAllGather), it.sequence_parallel ? 2 : 0);
      EXPECT_EQ(count(Op::kReduceScatter), it.sequence_parallel ? 1 : 0);
    }
  }
}

// Bytes that layer `block` keeps from forward to backward: saved, and not made again.
int64_t KeptBytes(const Draft& draft, int32_t block) {
  std::set<TensorId> remade;
  for (const NodeId id : draft.replay[block]) {
    for (const TensorId output : draft.graph.nodes[id].outputs) {
      remade.insert(Storage(draft.graph, output));
    }
  }
  int64_t bytes = 0;
  for (const TensorId storage : SavedStorages(draft.graph)) {
    const Tensor& tensor = draft.graph.tensors[storage];
    if (tensor.producer == kNone || draft.graph.nodes[tensor.producer].layer != block) continue;
    if (remade.count(storage) == 0) bytes += Bytes(tensor);
  }
  return bytes;
}

// At 16 bit, with s = 8, b = 2, h = 32, a = 4 (sbh = 512, as^2b = 512), no dropout:
//   none       norm inputs 4sbh and outputs 4sbh, q, k, v 6sbh, context 2sbh, MLP 8sbh + 8sbh;
//              probabilities 2as^2b; statistics of two norms 16sb: 32 * 512 + 1024 + 256
//   selective  without the probabilities (Korthikanti et al. 2023, section 5)
//   full       the layer's input, 2sbh
TEST(CheckpointLowerTest, KeptBytesByHand) {
  const auto kept = [](Recompute recompute) {
    return KeptBytes(Checkpointed({TinyGpt()}, recompute, DType::kBF16), 2);
  };
  EXPECT_EQ(kept(Recompute::kNone), 32 * 512 + 1024 + 256);
  EXPECT_EQ(kept(Recompute::kSelective), 32 * 512 + 256);
  EXPECT_EQ(kept(Recompute::kFull), 2 * 512);
}

// Whatever backward or a replay reads is there: made outside the layer, kept, or made by an earlier
// replay. And no replay is idle: each makes something that is read and not kept.
TEST(CheckpointLowerTest, ReplaysAreEnoughAndNoneIsIdle) {
  for (const Case& it : Cases()) {
    for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
      const Draft draft = Checkpointed(it, recompute);
      const Graph& graph = draft.graph;
      const std::vector<TensorId> saved = SavedStorages(graph);
      const std::set<TensorId> saved_set(saved.begin(), saved.end());
      EXPECT_TRUE(draft.replay.front().empty());  // the embedding
      EXPECT_TRUE(draft.replay.back().empty());   // the head
      for (int32_t block = 1; block <= it.model.layers; ++block) {
        const std::vector<NodeId>& replay = draft.replay[block];
        EXPECT_TRUE(std::is_sorted(replay.begin(), replay.end()));
        const std::set<NodeId> replayed(replay.begin(), replay.end());
        std::set<TensorId> remade, read;
        const auto reads = [&](const Node& node) {
          for (const TensorId input : node.inputs) {
            const TensorId storage = Storage(graph, input);
            read.insert(storage);
            const NodeId producer = graph.tensors[storage].producer;
            if (producer == kNone || graph.nodes[producer].layer != block) continue;
            if (graph.nodes[producer].phase != Phase::kForward) continue;
            const bool kept = saved_set.count(storage) == 1 && replayed.count(producer) == 0;
            EXPECT_TRUE(kept || remade.count(storage) == 1)
                << it.model.name << ": " << node.name << " reads " << graph.tensors[storage].name;
          }
        };
        for (const NodeId id : replay) {
          reads(graph.nodes[id]);
          for (const TensorId output : graph.nodes[id].outputs) {
            remade.insert(Storage(graph, output));
          }
        }
        for (const Node& node : graph.nodes) {
          if (node.phase == Phase::kBackward && node.layer == block) reads(node);
        }
        for (const NodeId id : replay) {
          const Node& node = graph.nodes[id];
          EXPECT_TRUE(std::any_of(node.outputs.begin(), node.outputs.end(), [&](TensorId output) {
            return read.count(Storage(graph, output)) == 1;
          })) << node.name;
        }
      }
    }
  }
}

// The Program runs each replay once per micro-batch, directly before its layer's backward.
TEST(CheckpointLowerTest, ReplaysAreEmittedBeforeTheirBackward) {
  const Draft draft = Checkpointed({TinyGpt()}, Recompute::kFull);
  const Program program = *Lower(draft.plan);
  const Section& body = program.roles[0].bodies[0];
  int64_t replays = 0;
  int32_t layer = kNone, micro_batch = kNone;  // of the replay that is going on
  for (const Instruction& instruction : body.instructions) {
    if (instruction.kind != InstructionKind::kCompute) continue;
    if (instruction.phase == Phase::kRecompute) {
      ++replays;
      layer = instruction.layer;
      micro_batch = instruction.micro_batch;
    } else if (layer != kNone) {
      EXPECT_EQ(instruction.phase, Phase::kBackward);
      EXPECT_EQ(instruction.layer, layer);
      EXPECT_EQ(instruction.micro_batch, micro_batch);
      layer = kNone;
    }
  }
  EXPECT_EQ(replays, 10 * TraitsOf(draft.plan.model).layers * draft.micro_batches);
}

TEST(CheckpointLowerTest, AppliesOnlyWhenAsked) {
  Plan plan = TestPlan(TinyGpt());
  EXPECT_FALSE(UsesCheckpoint(plan));
  for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
    plan.recompute = recompute;
    EXPECT_TRUE(UsesCheckpoint(plan));
  }
  for (const std::vector<NodeId>& replay : Checkpointed({TinyGpt()}, Recompute::kNone).replay) {
    EXPECT_TRUE(replay.empty());
  }
}

}  // namespace
}  // namespace tideline
