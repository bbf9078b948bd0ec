// AdamW (Loshchilov & Hutter, "Decoupled weight decay regularization", 2019) over a bucket of
// parameters or a rank's shard of it, and casts between element formats.
#include <algorithm>
#include <vector>

#include "base/numerics.h"
#include "exec/ops/formats.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"
#include "models/ir/learning_rate.h"

namespace tideline::ops {
namespace {

// Elements [begin, end) of the shard that keep `keep` = 1 - learning rate * decay of themselves,
// the learning rate being that of the step.
struct Segment {
  int64_t begin, end;
  float keep;
};

// Constants of one step t, each rounded once from fp64.
struct StepConstants {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;       // learning rate / (1 - beta1^t)
  float variance_scale;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
};

// m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
// p = keep p - step_size m / (sqrt(v) variance_scale + epsilon). The fp32 value of p.
struct AdamElement {
  float momentum, variance, parameter;
};
AdamElement AdamStep(const StepConstants& c, float gradient, AdamElement old, float keep) {
  const float momentum = std::fma(c.beta1, old.momentum, c.one_minus_beta1 * gradient);
  const float variance = std::fma(c.beta2, old.variance, c.one_minus_beta2 * gradient * gradient);
  const float denominator = std::fma(Sqrt(variance), c.variance_scale, c.epsilon);
  const float parameter = std::fma(-c.step_size, momentum / denominator, keep * old.parameter);
  return {momentum, variance, parameter};
}

// One block per segment.
template <typename GradientFormat>
struct AdamW {
  static constexpr const char* kName = "adamw";
  template <typename Mode>
  static void Run(const Block& block, In<typename GradientFormat::Storage, Mode> gradient,
                  InOut<float, Mode> parameter, InOut<float, Mode> momentum,
                  InOut<float, Mode> variance, const std::vector<Segment>& segments,
                  const StepConstants& constants) {
    const Segment segment = segments[block.index()];
    block.Each(segment.end - segment.begin, [&](int64_t offset) {
      const int64_t i = segment.begin + offset;
      const AdamElement next = AdamStep(constants, GradientFormat::Load(gradient[i]),
                                        {momentum[i], variance[i], parameter[i]}, segment.keep);
      momentum[i] = next.momentum;
      variance[i] = next.variance;
      parameter[i] = next.parameter;
    });
  }
};

template <typename GradientFormat, typename ParameterFormat>
struct AdamWWithMaster {
  static constexpr const char* kName = "adamw_with_master";
  template <typename Mode>
  static void Run(const Block& block, In<typename GradientFormat::Storage, Mode> gradient,
                  Out<typename ParameterFormat::Storage, Mode> parameter, InOut<float, Mode> master,
                  InOut<float, Mode> momentum, InOut<float, Mode> variance,
                  const std::vector<Segment>& segments, const StepConstants& constants) {
    const Segment segment = segments[block.index()];
    block.Each(segment.end - segment.begin, [&](int64_t offset) {
      const int64_t i = segment.begin + offset;
      const AdamElement next = AdamStep(constants, GradientFormat::Load(gradient[i]),
                                        {momentum[i], variance[i], master[i]}, segment.keep);
      momentum[i] = next.momentum;
      variance[i] = next.variance;
      master[i] = next.parameter;
      parameter[i] = ParameterFormat::Store(next.parameter);
    });
  }
};

template <typename From, typename To>
struct Cast {
  static constexpr const char* kName = "cast";
  template <typename Mode>
  static void Run(const Block& block, In<typename From::Storage, Mode> x,
                  Out<typename To::Storage, Mode> y) {
    block.EachOfTile(y.count(), [&](int64_t i) { y[i] = To::Store(From::Load(x[i])); });
  }
};

// By squaring in fp64: no libm, the same bits everywhere.
double Power(double base, int64_t exponent) {
  double result = 1.0;
  for (; exponent > 0; exponent /= 2, base *= base) {
    if (exponent % 2 == 1) result *= base;
  }
  return result;
}

StepConstants ConstantsOf(const AdamSettings& settings, double learning_rate, int64_t t) {
  const double beta1 = settings.beta1;
  const double beta2 = settings.beta2;
  return {.beta1 = settings.beta1,
          .one_minus_beta1 = static_cast<float>(1.0 - beta1),
          .beta2 = settings.beta2,
          .one_minus_beta2 = static_cast<float>(1.0 - beta2),
          .step_size = static_cast<float>(learning_rate / (1.0 - Power(beta1, t))),
          .variance_scale = static_cast<float>(1.0 / std::sqrt(1.0 - Power(beta2, t))),
          .epsilon = settings.epsilon};
}

// The spans of the bucket that fall into this shard of `count` elements, and the gaps between them
// (alignment; no decay). Precondition: spans ascend and do not overlap.
std::vector<Segment> SegmentsOf(const OpCall& call, double learning_rate, int64_t count) {
  const Attributes& attributes = call.attributes();
  const int64_t offset = call.At(attributes.element_offset);
  const double decayed = 1.0 - learning_rate * attributes.adam.decay;
  std::vector<Segment> segments;
  int64_t done = 0;
  const auto add = [&](int64_t end, float keep) {
    if (end <= done) return;
    if (!segments.empty() && segments.back().keep == keep) {
      segments.back().end = end;
    } else {
      segments.push_back({done, end, keep});
    }
    done = end;
  };
  for (const AdamSpan& span : attributes.spans) {
    add(std::clamp<int64_t>(span.begin - offset, 0, count), 1.0f);
    add(std::clamp<int64_t>(span.end - offset, 0, count),
        span.decay ? static_cast<float>(decayed) : 1.0f);
  }
  add(count, 1.0f);
  return segments;
}

}  // namespace

Status LaunchAdamW(const OpCall& call) {
  const AdamSettings& settings = call.attributes().adam;
  const int64_t step = call.context().step;
  const double learning_rate = LearningRateAt(settings, step);
  std::vector<Segment> segments = SegmentsOf(call, learning_rate, call.Count(0));
  const int64_t blocks = static_cast<int64_t>(segments.size());
  const StepConstants constants = ConstantsOf(settings, learning_rate, step + 1);
  return WithFormat(call.TypeOf(0), [&]<typename Gradient>(Gradient) -> Status {
    const auto gradient = call.Read<typename Gradient::Storage>(0);
    if (call.operand_count() == 4) {
      return Launch<AdamW<Gradient>>(call.target(), blocks, gradient, call.Update(1),
                                     call.Update(2), call.Update(3), std::move(segments),
                                     constants);
    }
    return WithFormat(call.TypeOf(1), [&]<typename Parameter>(Parameter) -> Status {
      return Launch<AdamWWithMaster<Gradient, Parameter>>(
          call.target(), blocks, gradient, call.Write<typename Parameter::Storage>(1),
          call.Update(2), call.Update(3), call.Update(4), std::move(segments), constants);
    });
  });
}

Status LaunchCast(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename From>(From) -> Status {
    return WithFormat(call.TypeOf(1), [&]<typename To>(To) -> Status {
      return Launch<Cast<From, To>>(call.target(), BlocksFor(call.Count(0)),
                                    call.Read<typename From::Storage>(0),
                                    call.Write<typename To::Storage>(1));
    });
  });
}

}  // namespace tideline::ops
