// Draft: the decisions of a Plan resolved so far, on the way to a Program.
//
// A draft always describes a complete program. It starts as plain training on one rank (all blocks
// on one stage, all micro-batches one after the other), and each technique's pass rewrites its
// part:
//   data_parallel    mesh[dp], the micro-batches of one replica
//   zero             what is sharded over dp
//   tensor_parallel  mesh[tp], the graph of one rank with its collectives
//   checkpoint       what each block runs again before its backward
//   pipeline         mesh[pp], chunks, the order of units and transfers per stage
// Emit() (planner/lowering/emit.h) turns a draft into instructions after any of them.
#ifndef TIDELINE_PLANNER_DRAFT_DRAFT_H_
#define TIDELINE_PLANNER_DRAFT_DRAFT_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "models/ir/graph.h"
#include "planner/plan/plan.h"
#include "planner/program/program.h"

namespace tideline {

// A unit is the forward or the backward of one chunk for one micro-batch: what a pipeline schedule
// orders.
struct Unit {
  bool backward = false;
  int32_t chunk = 0;  // into Draft::chunks
  int32_t micro_batch = 0;
  bool operator==(const Unit&) const = default;
};

// One entry of a stage's list. A transfer is named by the unit that makes what is sent, on both
// ends: activations to the chunk after it, gradients to the chunk before it.
struct ScheduleItem {
  enum class Kind : uint8_t { kRun, kSend, kReceive };
  Kind kind = Kind::kRun;
  Unit unit;
  int32_t peer_stage = 0;  // of transfers: the other end
  bool operator==(const ScheduleItem&) const = default;
};

struct Draft {
  Plan plan;  // valid; passes read their decisions from it

  Graph graph;  // training graph of one micro-batch on one rank
  // Gradients of whole parameters that hold this tp rank's part of a sum (ascending). They are
  // summed over tp once per step.
  std::vector<TensorId> partial_gradients;

  std::array<int32_t, kAxes> mesh{1, 1, 1};
  int64_t micro_batches = 1;  // of one replica per step

  std::vector<StageChunk> chunks;                // in the order of the model
  std::vector<std::vector<ScheduleItem>> order;  // per stage

  // Per block: forward nodes run again directly before its backward, in order.
  std::vector<std::vector<NodeId>> replay;

  int64_t bucket_bytes = kDefaultBucketBytes;
  int32_t zero = 0;
  GradientReduction reduce = GradientReduction::kOnce;

  int32_t size(Axis axis) const { return mesh[static_cast<size_t>(axis)]; }
};

// The draft before any pass: the training graph of the plan's model, one rank. Checks its hash
// against the plan's (exit 5 names both). Precondition: the plan is valid.
StatusOr<Draft> MakeDraft(const Plan& plan);

// The same without looking at the hash, for figures of a model that no file names.
StatusOr<Draft> StartDraft(const Plan& plan);

// The forward graph a plan stands for, for one micro-batch, unsharded.
StatusOr<Graph> ForwardGraph(const Plan& plan);

// The list of a single stage: forward and backward of each micro-batch in turn.
std::vector<ScheduleItem> SerialOrder(int64_t micro_batches);

// Nodes of each block, in execution order.
struct BlockNodes {
  std::vector<std::vector<NodeId>> forward;
  std::vector<std::vector<NodeId>> backward;
};
BlockNodes NodesByBlock(const Graph& graph);

// Storages that cross from each block to the next, ascending. activations[k]: made by forward nodes
// of blocks below k (or given there), read by any node of blocks from k on; gradients[k]: made by
// backward nodes of blocks from k on, read by backward nodes of blocks below k. Neither holds
// parameters or tokens. Index 0 is empty.
struct Boundaries {
  std::vector<std::vector<TensorId>> activations;
  std::vector<std::vector<TensorId>> gradients;
};
Boundaries BlockBoundaries(const Graph& graph);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_DRAFT_DRAFT_H_
