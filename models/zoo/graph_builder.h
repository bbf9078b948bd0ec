// GraphBuilder: appends tensors and nodes to a forward graph; shapes and types of outputs come from
// the op table. For builders of models (models/zoo, importers).
//
//   GraphBuilder builder(graph);
//   const TensorId x = builder.Parameter("w", {4, 4}, {.stddev = 0.02f, .decay = true});
//   const TensorId y = builder.Apply(Op::kGelu, {}, {x}, {"y"})[0];
//   TL_RETURN_IF_ERROR(builder.status());
//
// The first error is kept and returned by status(); later calls then return placeholder ids. Not
// thread-safe; the graph must outlive the builder.
#ifndef TIDELINE_MODELS_ZOO_GRAPH_BUILDER_H_
#define TIDELINE_MODELS_ZOO_GRAPH_BUILDER_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "models/ir/graph.h"

namespace tideline {

struct ParameterOptions {
  float stddev = 0.0f;  // > 0: N(0, stddev)
  float value = 0.0f;   // else this constant
  bool decay = false;
  int32_t tensor_parallel_dim = kNone;
  int64_t valid_rows = 0;
};

class GraphBuilder {
 public:
  GraphBuilder(Graph& graph, DType dtype) : graph_(graph), dtype_(dtype) {}

  // Block that following nodes and parameters belong to.
  void SetLayer(int32_t layer) { layer_ = layer; }

  // int32 [batch, sequence], given with each sample.
  TensorId Tokens(const std::string& name);
  // fp32 [batch, extents...], likewise.
  TensorId Images(const std::string& name, std::vector<int64_t> extents);
  TensorId Parameter(const std::string& name, std::vector<int64_t> shape,
                     const ParameterOptions& options);

  // fp32, kept from step to step; begins as the constant `value`.
  TensorId State(const std::string& name, std::vector<int64_t> shape, float value);

  // Appends a node named `names[0]` whose outputs are named `names`; a workspace gets a name of its
  // own and is not among the outputs returned.
  std::vector<TensorId> Apply(Op op, const Attributes& attributes, std::vector<TensorId> inputs,
                              const std::vector<std::string>& names);

  // Appends a node that changes state.
  void Update(Op op, const Attributes& attributes, std::vector<TensorId> inputs,
              std::vector<TensorId> state, const std::string& name);

  // `x` in the type of the graph.
  TensorId Cast(const std::string& name, TensorId x);

  // A view of `elements(shape)` elements of `of` from `offset` on; its dimension `batch_dim` grows
  // with the batch.
  TensorId View(const std::string& name, TensorId of, std::vector<int64_t> shape, int64_t offset,
                int32_t batch_dim);

  const Tensor& tensor(TensorId id) const { return graph_.tensors[id]; }
  const Status& status() const { return status_; }

 private:
  int32_t BatchDimension(Op op, const Attributes& attributes, const std::vector<TensorId>& inputs,
                         size_t output) const;
  TensorId Append(Tensor tensor);

  Graph& graph_;
  const DType dtype_;
  int32_t layer_ = 0;
  Status status_;
};

}  // namespace tideline

#endif  // TIDELINE_MODELS_ZOO_GRAPH_BUILDER_H_
