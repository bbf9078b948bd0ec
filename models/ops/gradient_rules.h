// The gradient rule of each op: a function that emits ordinary nodes. Internal to models/ops; users
// call Differentiate().
#ifndef TIDELINE_MODELS_OPS_GRADIENT_RULES_H_
#define TIDELINE_MODELS_OPS_GRADIENT_RULES_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "models/ir/graph.h"

namespace tideline {

// What a rule sees of the forward node it differentiates, and how it emits.
class GradientEmitter {
 public:
  virtual ~GradientEmitter() = default;

  virtual const Node& node() const = 0;
  virtual const Tensor& tensor(TensorId id) const = 0;
  // d(loss)/d(output 0).
  virtual TensorId output_gradient() const = 0;
  virtual float loss_scale() const = 0;

  // Emits a node whose outputs are the gradients with respect to the forward inputs `of`, in order.
  // Nothing is emitted when none of those depends on a parameter. The op's workspace is added. The
  // node is named "grad:<forward node>:<suffix>".
  virtual Status Emit(Op op, Attributes attributes, std::vector<TensorId> inputs,
                      std::vector<int> of, const std::string& suffix) = 0;
  // Emits a node whose only output is a tensor that other nodes of the rule read.
  virtual StatusOr<TensorId> Intermediate(Op op, Attributes attributes,
                                          std::vector<TensorId> inputs,
                                          const std::string& suffix) = 0;
  // The gradient with respect to forward input `of` is `gradient` itself; no node is needed.
  virtual void Pass(int of, TensorId gradient) = 0;
};

using GradientRule = Status (*)(GradientEmitter& emitter);

// nullptr for an op that has no gradient.
GradientRule GradientRuleOf(Op op);

}  // namespace tideline

#endif  // TIDELINE_MODELS_OPS_GRADIENT_RULES_H_
