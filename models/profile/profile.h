// Symbolic profile of a model: FLOPs, bytes, saved activations and transient peaks per node, from
// shapes alone. No tensor is ever allocated.
//
// Source: the profiler of Colossal-Auto (GraphInfo: fwd_in, fwd_tmp, fwd_out, bwd_mem_tmp,
// bwd_mem_out) with our conventions: 2 FLOP per multiply-add, causal attention half (DEFINITIONS
// 10), a storage saved for backward counted once, at the node that creates it. Cost: linear in
// nodes; gpt3-175b takes some 20 ms (bench/profile_bench.cc).
//
//   TL_ASSIGN_OR_RETURN(const Profile profile, ProfileModel(config, {.batch = 1, .sequence =
//   2048}));
#ifndef TIDELINE_MODELS_PROFILE_PROFILE_H_
#define TIDELINE_MODELS_PROFILE_PROFILE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "models/ir/graph.h"
#include "models/zoo/model.h"

namespace tideline {

// One forward node with the backward nodes its gradient rule made. Bytes are those of storages:
// views add nothing.
struct NodeProfile {
  NodeId node = kNone;

  int64_t fwd_in_bytes = 0;   // its input activations and tokens that its own backward reads
  int64_t fwd_tmp_bytes = 0;  // its outputs that only backward reads (norm statistics)
  int64_t fwd_out_bytes = 0;  // its outputs that other forward nodes read, and the loss
  // What it keeps from forward to backward, each storage once: the sum over nodes is
  // Profile::saved_activation_bytes. Tokens count at their first reader, the loss at its maker.
  int64_t saved_bytes = 0;
  // Activations alive while it runs forward that are not kept for backward.
  int64_t fwd_transient_bytes = 0;
  // Highest level of activations and gradients while its backward nodes run, above what was there
  // when they began (the incoming gradient and everything saved). What they release counts.
  int64_t bwd_transient_bytes = 0;
  int64_t bwd_out_bytes = 0;             // gradients of its input activations
  int64_t parameter_gradient_bytes = 0;  // gradients of its parameters

  double flops_forward = 0, flops_backward = 0;                    // as people quote them
  double executed_flops_forward = 0, executed_flops_backward = 0;  // masked halves too
  int64_t bytes_forward = 0, bytes_backward = 0;                   // read and written
};

// Sums over the nodes of one kind or one part of the model.
struct ProfileGroup {
  std::string name;  // operator: "einsum"; module: "attention", "mlp", "embedding", "head", ...
  int64_t nodes = 0;
  int64_t parameters = 0;  // modules only: shared ones where they are declared
  double flops_forward = 0, flops_backward = 0;
  int64_t bytes_forward = 0, bytes_backward = 0;
  int64_t saved_bytes = 0;
};

struct Profile {
  int64_t parameters = 0;  // unpadded, shared ones once
  double flops_forward = 0, flops_backward = 0;
  double executed_flops_forward = 0, executed_flops_backward = 0;
  int64_t saved_activation_bytes = 0;  // logits, tokens and loss included
  // Highest level of activations, tokens and gradients of activations over forward and backward in
  // list order, nothing recomputed; parameters and their gradients are not in it.
  int64_t peak_activation_bytes = 0;
  std::vector<NodeProfile> nodes;       // forward nodes in order
  std::vector<ProfileGroup> by_op;      // forward operators in order of first appearance
  std::vector<ProfileGroup> by_module;  // likewise; "layers.7." is left out of names
};

// Profiles a graph made by Differentiate(). Precondition: the graph is valid. Model FLOPs of
// products with a padded vocabulary count its true rows only.
Profile ProfileGraph(const Graph& training);

// Builds, differentiates (16-bit types accumulate gradients in fp32) and profiles. Errors: those of
// BuildModel.
StatusOr<Profile> ProfileModel(const ModelConfig& model, const ModelShape& shape);

// The module a tensor or forward node belongs to: "layers.7.mlp.up" is in "mlp", "head.loss" in
// "head".
std::string ModuleOf(const std::string& name);

}  // namespace tideline

#endif  // TIDELINE_MODELS_PROFILE_PROFILE_H_
