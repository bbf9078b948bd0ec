// Parameters of the reference: initial values, gradient accumulators per use, AdamW.
#ifndef TIDELINE_TESTS_REFERENCE_PARAMETERS_H_
#define TIDELINE_TESTS_REFERENCE_PARAMETERS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "models/ir/attributes.h"
#include "tests/reference/arithmetic.h"

namespace tideline::reference {

// One parameter tensor of the model.
struct ParameterInfo {
  std::string name;
  std::vector<int64_t> shape;
  bool decay = false;  // AdamW's decay applies: matrices only
};

// A parameter with one gradient accumulator per use (DEFINITIONS 6).
template <class Real>
struct Weight {
  ParameterInfo info;
  std::vector<Real> value;
  std::vector<std::vector<Real>> accumulators;  // of the current replica, by use
  std::vector<Real> gradient;                   // of the whole step
  std::vector<Real> momentum;
  std::vector<Real> variance;
};

// Which weight and which of its uses; absent when the model has no such parameter.
struct Use {
  int weight = -1;
  int use = 0;
  bool present() const { return weight >= 0; }
};

enum class Initial { kNormal, kOne, kZero };

template <class Real>
class ParameterStore {
 public:
  // Element i of a normal parameter is stddev N(0, 1) keyed by (seed, name, i), made in fp32.
  Use Declare(uint64_t seed, std::string name, std::vector<int64_t> shape, Initial initial,
              float stddev = 0.02f) {
    Weight<Real> weight;
    int64_t elements = 1;
    for (const int64_t extent : shape) elements *= extent;
    weight.value.resize(elements, initial == Initial::kOne ? Real(1) : Real(0));
    if (initial == Initial::kNormal) {
      for (int64_t i = 0; i < elements; ++i) {
        weight.value[i] = stddev * NormalAt(seed, name, static_cast<uint64_t>(i));
      }
    }
    weight.info = {std::move(name), std::move(shape), initial == Initial::kNormal};
    weight.gradient.resize(elements);
    weight.momentum.resize(elements);
    weight.variance.resize(elements);
    weights_.push_back(std::move(weight));
    return AddUse(static_cast<int>(weights_.size()) - 1);
  }

  Use AddUse(int weight) {
    Weight<Real>& declared = weights_[weight];
    declared.accumulators.emplace_back(declared.value.size());
    return {weight, static_cast<int>(declared.accumulators.size()) - 1};
  }

  const Real* Value(Use use) const { return weights_[use.weight].value.data(); }
  Real* Accumulator(Use use) { return weights_[use.weight].accumulators[use.use].data(); }

  Weight<Real>& Find(std::string_view name) {
    for (Weight<Real>& weight : weights_) {
      if (weight.info.name == name) return weight;
    }
    TL_CHECK(false, "the model has no parameter of that name");
    return weights_.front();
  }

  std::vector<ParameterInfo> Infos() const {
    std::vector<ParameterInfo> infos;
    for (const Weight<Real>& weight : weights_) infos.push_back(weight.info);
    return infos;
  }

  void BeginStep() {
    for (Weight<Real>& weight : weights_) {
      std::fill(weight.gradient.begin(), weight.gradient.end(), Real(0));
    }
  }

  void BeginReplica() {
    for (Weight<Real>& weight : weights_) {
      for (auto& sums : weight.accumulators) std::fill(sums.begin(), sums.end(), Real(0));
    }
  }

  // Uses are added in order; then the replica's sum joins the step's, replicas ascending (RANK).
  void EndReplica() {
    for (Weight<Real>& weight : weights_) {
      for (size_t i = 0; i < weight.value.size(); ++i) {
        Real sum = weight.accumulators[0][i];
        for (size_t use = 1; use < weight.accumulators.size(); ++use) {
          sum += weight.accumulators[use][i];
        }
        weight.gradient[i] += sum;
      }
    }
  }

  // The rate of a step (from 0): up in equal parts over the warm-up, then down from the full rate
  // to the least one, in a straight line or along half a cosine wave.
  static double Rate(const AdamSettings& adam, int step) {
    const double full = adam.learning_rate;
    if (step < adam.warmup_steps) return full / adam.warmup_steps * (step + 1);
    if (adam.schedule == RateSchedule::kConstant) return full;
    const double least = adam.least_learning_rate;
    const double length = static_cast<double>(adam.decay_steps - adam.warmup_steps);
    const double gone = std::min(1.0, (step - adam.warmup_steps) / length);
    if (adam.schedule == RateSchedule::kLinear) return full + (least - full) * gone;
    return (full + least) / 2 + (full - least) / 2 * std::cos(std::numbers::pi * gone);
  }

  // m = b1 m + (1 - b1) g; v = b2 v + (1 - b2) g^2; with t = step + 1:
  // w = (1 - lr decay) w - lr / (1 - b1^t) * m / (sqrt(v) / sqrt(1 - b2^t) + epsilon).
  void Update(const AdamSettings& adam) {
    const double rate = Rate(adam, steps_);
    ++steps_;
    const Real beta1 = adam.beta1;
    const Real beta2 = adam.beta2;
    const auto step_size = Real(rate / (1.0 - std::pow(static_cast<double>(beta1), steps_)));
    const auto root_scale =
        Real(1.0 / std::sqrt(1.0 - std::pow(static_cast<double>(beta2), steps_)));
    for (Weight<Real>& weight : weights_) {
      const Real keep = weight.info.decay ? Real(1.0 - rate * adam.decay) : Real(1);
      for (size_t i = 0; i < weight.value.size(); ++i) {
        const Real gradient = weight.gradient[i];
        Real& momentum = weight.momentum[i];
        Real& variance = weight.variance[i];
        momentum = MultiplyAdd(beta1, momentum, (Real(1) - beta1) * gradient);
        variance = MultiplyAdd(beta2, variance, (Real(1) - beta2) * gradient * gradient);
        const Real root = MultiplyAdd(std::sqrt(variance), root_scale, Real(adam.epsilon));
        weight.value[i] = MultiplyAdd(-step_size, momentum / root, keep * weight.value[i]);
      }
    }
  }

 private:
  std::vector<Weight<Real>> weights_;
  int steps_ = 0;
};

}  // namespace tideline::reference

#endif  // TIDELINE_TESTS_REFERENCE_PARAMETERS_H_
