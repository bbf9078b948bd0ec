// ConvNetTrainer: an independent training program for ResNets and DenseNets, as ReferenceTrainer is
// for decoders.
//
// Forward is written as the papers have it and records what to do backward; each formula stands
// beside its layer. It shares nothing with exec, planner or the gradient rules of models/ops; only
// names and shapes of parameters are those of models/zoo. Batch norms see a micro-batch of all
// replicas, so that the replicas go side by side; everything else is DEFINITIONS 8 read literally.
// Plain loops, for networks of up to some 100,000 parameters. One thread.
#ifndef TIDELINE_TESTS_REFERENCE_CONVNET_TRAINER_H_
#define TIDELINE_TESTS_REFERENCE_CONVNET_TRAINER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/ir/attributes.h"
#include "models/zoo/convnet_config.h"
#include "tests/reference/parameters.h"

namespace tideline::reference {

struct ConvNetOptions {
  int64_t global_batch = 0;
  int64_t replicas = 1;
  int64_t micro_batch = 0;  // images per replica
  uint64_t seed = 0;
  AdamSettings adam = {};
};

// Of one step: [global_batch, channels, height, width] and [global_batch].
struct ImageBatch {
  std::vector<float> images;
  std::vector<int32_t> labels;
};

template <class Real>
class ConvNetTrainer {
 public:
  ConvNetTrainer(const ConvNetConfig& config, const ConvNetOptions& options);
  ~ConvNetTrainer();

  // Gradients, running statistics, then the update. Returns the mean loss before it.
  double Step(const ImageBatch& batch);

  std::vector<ParameterInfo> Parameters() const;
  const std::vector<Real>& Gradient(std::string_view name) const;  // of the last step
  const std::vector<Real>& Parameter(std::string_view name) const;
  // "stem.norm.running_mean", ...
  const std::vector<Real>& State(const std::string& name) const;

 private:
  class Model;
  std::unique_ptr<Model> model_;
};

}  // namespace tideline::reference

#endif  // TIDELINE_TESTS_REFERENCE_CONVNET_TRAINER_H_
