// Graph: a model as operators over named tensors, with shapes only; no tensor is ever allocated to
// make one.
//
// A builder (models/zoo) makes the *forward* graph for one micro-batch. Differentiate()
// (models/ops/autodiff.h) appends the backward nodes; the tensor-parallel room rewrites the result
// into the graph of one rank. All three are the same structure, so FLOPs, bytes and saved
// activations are derived in one way everywhere.
//
// Activations are [batch, sequence, ...], row-major and contiguous. A tensor may be a contiguous
// slice of another
// (`alias_of`): it then adds no bytes. Nodes are in execution order (every input is made by an
// earlier node).
#ifndef TIDELINE_MODELS_IR_GRAPH_H_
#define TIDELINE_MODELS_IR_GRAPH_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/ir/attributes.h"
#include "models/ir/dtype.h"

namespace tideline {

using TensorId = int32_t;
using NodeId = int32_t;
inline constexpr int32_t kNone = -1;

// What a tensor is to the model.
enum class TensorRole : uint8_t {
  kInput,  // what is given with each sample: ids or targets [batch, sequence], images
  kParameter,
  kActivation,
  kGradient,
  kParameterGradient,
  kWorkspace,  // scratch of the node that makes it; nothing reads it afterwards
  kState,      // kept from step to step and changed in place, but not trained: running statistics
};

struct Tensor {
  std::string name{};            // unique; parameters: "layers.3.attention.qkv.weight"
  std::vector<int64_t> shape{};  // extents on one rank
  DType dtype = DType::kF32;
  TensorRole role = TensorRole::kActivation;
  NodeId producer = kNone;    // kNone for inputs, parameters and state
  TensorId alias_of = kNone;  // a contiguous slice of that tensor's storage
  int64_t alias_offset = 0;   // first element of the slice
  int32_t batch_dim = kNone;  // the dimension that grows with the micro-batch

  // Sharding on one rank: the mesh axis that cuts each dimension (Axis as int8_t, kNone: whole).
  // Empty: all whole. The full extent of dimension d is shape[d] * size(axis).
  std::vector<int8_t> cut_by{};

  // Parameters, and what of it applies to state.
  int32_t layer = kNone;  // block that owns it
  int32_t tensor_parallel_dim =
      kNone;  // the dimension that 1-D tensor parallelism cuts; kNone: replicated
  int64_t valid_rows =
      0;  // > 0: rows of dimension 0 beyond this (of the full tensor) are padding, kept zero
  bool decay = false;        // AdamW's weight decay applies (matrices only)
  float init_stddev = 0.0f;  // > 0: N(0, stddev); 0: the constant init_value
  float init_value = 0.0f;

  // kGradient and kParameterGradient: the tensor this is the gradient of.
  TensorId gradient_of = kNone;
};

// Which part of a training step a node or instruction belongs to. Graphs have forward and backward
// nodes only.
enum class Phase : uint8_t { kForward, kBackward, kRecompute, kUpdate };

struct Node {
  std::string name{};  // unique: "layers.3.attention.scores", backward: "grad:layers.3.mlp.up:x"
  Op op = Op::kAdd;
  Attributes attributes{};
  std::vector<TensorId> inputs{};
  std::vector<TensorId> outputs{};
  int32_t layer =
      0;  // block index: 0 = embedding, 1..L = transformer layers, L + 1 = head and loss
  Phase phase = Phase::kForward;
  NodeId forward_node = kNone;  // backward nodes: the node whose gradient rule made this one
};

struct Graph {
  std::string name;
  std::vector<Tensor> tensors;
  std::vector<Node> nodes;
  int32_t blocks = 0;     // number of values of Node::layer: transformer layers + 2
  int64_t batch = 1;      // micro-batch the shapes are for
  int64_t sequence = 0;   // tokens of a sample; 1 where a sample has one label
  TensorId loss = kNone;  // the loss of each token or label, [batch, sequence] fp32
};

// Elements of a shape; 1 for a scalar.
int64_t Elements(const std::vector<int64_t>& shape);

// Bytes of a tensor's own elements (an alias counts its slice).
int64_t Bytes(const Tensor& tensor);

// The tensor that owns the storage, following aliases.
TensorId Storage(const Graph& graph, TensorId tensor);

// Parameters, unpadded, shared ones once: the count people quote (DEFINITIONS 11).
int64_t ParameterCount(const Graph& graph);

// The same graph with every batch dimension scaled to `batch`. Precondition: batch >= 1.
Graph WithBatch(const Graph& graph, int64_t batch);

// Structure check: ids in range, producers in order, unique names, shapes positive and without
// overflow.
Status ValidateGraph(const Graph& graph);

// SHA-256 (hex) of the canonical text of the graph at batch 1; independent of node names' storage
// order only in that the same builder and configuration always give the same hash.
std::string GraphHash(const Graph& graph);

}  // namespace tideline

#endif  // TIDELINE_MODELS_IR_GRAPH_H_
