// ReferenceTrainer: an independent training program for decoder transformers.
//
// What everything that executes is compared with. It shares nothing with exec, planner or the
// gradient rules of models/ops: forward and backward are the formulas of layers.h and attention.h,
// the order of work is DEFINITIONS 8 read literally (initial values by name and element, replicas
// and micro-batches in index order, gradient accumulators per use of a parameter, AdamW). Only the
// names and shapes of parameters are those of models/zoo, because initial values are keyed by them.
//
// ReferenceTrainer<float> rounds as the product does at equal summation order;
// ReferenceTrainer<double> is the twin that says what the exact values are. Cost: plain loops, for
// models of up to a few million parameters. One thread.
//
//   ReferenceTrainer<float> reference(config, {.sequence = 32, .global_batch = 4});
//   Batch batch = ReferenceBatch(BuiltinText(), 32, 4, /*step=*/0);
//   double loss = reference.Step(batch);
//   const std::vector<float>& gradient = reference.Gradient("embedding.weight");
#ifndef TIDELINE_TESTS_REFERENCE_REFERENCE_TRAINER_H_
#define TIDELINE_TESTS_REFERENCE_REFERENCE_TRAINER_H_

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "models/ir/attributes.h"
#include "models/zoo/decoder_config.h"
#include "tests/reference/parameters.h"

namespace tideline::reference {

struct ReferenceOptions {
  int64_t sequence = 0;
  int64_t global_batch = 0;
  int64_t replicas = 1;     // data-parallel size: gradients are summed within a replica first
  int64_t micro_batch = 0;  // sequences per replica and micro-batch; 0: all of a replica's at once
  uint64_t seed = 0;
  AdamSettings adam = {};
};

// ids and targets of one step, [global_batch, sequence]; target i is the byte after id i.
struct Batch {
  std::vector<int32_t> ids;
  std::vector<int32_t> targets;
};

// Sample j of step t is sequence (t * global_batch + j) mod count, sequence i the `sequence` bytes
// from i * sequence on, count the number of those that have a following byte.
Batch ReferenceBatch(std::string_view text, int64_t sequence, int64_t global_batch, int64_t step);

template <class Real>
class ReferenceTrainer {
 public:
  ReferenceTrainer(const DecoderConfig& config, const ReferenceOptions& options);
  ~ReferenceTrainer();
  ReferenceTrainer(ReferenceTrainer&&) noexcept;

  // Gradients, then the update. Returns the mean loss (nats per token) before the update.
  double Step(const Batch& batch);

  // The mean loss alone; changes nothing.
  double Loss(const Batch& batch);

  // Gradients of the mean loss without the update; returns that loss.
  double ComputeGradients(const Batch& batch);

  std::vector<ParameterInfo> Parameters() const;

  // By name; a name the model does not have is a programmer error.
  const std::vector<Real>& Gradient(std::string_view name) const;  // of the last step
  const std::vector<Real>& Parameter(std::string_view name) const;
  std::vector<Real>& MutableParameter(std::string_view name);

 private:
  class Model;
  std::unique_ptr<Model> model_;
};

}  // namespace tideline::reference

#endif  // TIDELINE_TESTS_REFERENCE_REFERENCE_TRAINER_H_
