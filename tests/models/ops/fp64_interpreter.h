// Evaluates a graph node by node in double precision, each op written out naively from its
// definition: the independent witness for shapes, aliases and gradient rules.
#ifndef TIDELINE_TESTS_MODELS_OPS_FP64_INTERPRETER_H_
#define TIDELINE_TESTS_MODELS_OPS_FP64_INTERPRETER_H_

#include <cstdint>
#include <vector>

#include "models/ir/graph.h"

namespace tideline {

class Fp64Interpreter {
 public:
  // Every storage starts as zeros. The graph must outlive the interpreter.
  explicit Fp64Interpreter(const Graph& graph);

  // The elements of a tensor; integers are whole doubles.
  double* Values(TensorId tensor);
  std::vector<double> Copy(TensorId tensor);
  int64_t Count(TensorId tensor) const { return Elements(graph_.tensors[tensor].shape); }

  // Runs nodes [begin, end).
  void Run(size_t begin, size_t end);

 private:
  void RunNode(const Node& node);
  void RunForward(const Node& node);
  void RunBackward(const Node& node);
  void Einsum(const Node& node);
  void ReduceRows(const Node& node);
  void Rotary(const Node& node);
  void Softmax(const Node& node);
  void Attention(const Node& node);
  void AttentionGrad(const Node& node);
  void LayerNorm(const Node& node, bool centred);
  void LayerNormGrad(const Node& node, bool centred);
  void LayerNormParameterGrad(const Node& node, bool centred);
  void CrossEntropy(const Node& node);
  // Ops of images (fp64_images.cc).
  bool RunImageOp(const Node& node);
  void Convolution(const Node& node);
  void BatchNorm(const Node& node);
  void Pool(const Node& node);
  void Join(const Node& node);
  void Patches(const Node& node);

  const std::vector<int64_t>& Shape(TensorId tensor) const { return graph_.tensors[tensor].shape; }

  const Graph& graph_;
  std::vector<std::vector<double>> storages_;
};

}  // namespace tideline

#endif  // TIDELINE_TESTS_MODELS_OPS_FP64_INTERPRETER_H_
