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

// The elements of a launch from the end of the segment before to `end`, which keep `keep` = 1 -
// learning rate * decay of themselves, the learning rate being that of the step.
struct Segment {
  int64_t end;
  float keep;
};
// A bucket of more segments takes several launches.
using Segments = Table<Segment, 256>;

// Constants of one step t, each rounded once from fp64.
struct StepConstants {
  float beta1, one_minus_beta1;
  float beta2, one_minus_beta2;
  float step_size;       // learning rate / (1 - beta1^t)
  float variance_scale;  // 1 / sqrt(1 - beta2^t)
  float epsilon;
  float factor;  // of the gradient: 1, or what clips it and undoes the loss scale
};

// g = factor gradient; m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
// p = keep p - step_size m / (sqrt(v) variance_scale + epsilon). The fp32 value of p.
struct AdamElement {
  float momentum, variance, parameter;
};
TIDELINE_HOST_DEVICE AdamElement AdamStep(const StepConstants& c, float raw, AdamElement old,
                                          float keep) {
  const float gradient = c.factor * raw;
  const float momentum = std::fma(c.beta1, old.momentum, c.one_minus_beta1 * gradient);
  const float variance = std::fma(c.beta2, old.variance, c.one_minus_beta2 * gradient * gradient);
  const float denominator = std::fma(Sqrt(variance), c.variance_scale, c.epsilon);
  const float parameter = std::fma(-c.step_size, momentum / denominator, keep * old.parameter);
  return {momentum, variance, parameter};
}

// function(begin, end, keep) for each segment's part of this block's tile.
template <typename Function>
TIDELINE_HOST_DEVICE void EachSegment(const Block& block, int64_t count, const Segments& segments,
                                      Function function) {
  const Block::Part part = block.Tile(count);
  int64_t begin = part.begin;
  for (int index = 0; index < segments.size() && begin < part.end; ++index) {
    const Segment segment = segments[index];
    if (segment.end <= begin) continue;
    const int64_t end = segment.end < part.end ? segment.end : part.end;
    function(begin, end, segment.keep);
    begin = end;
  }
}

template <typename Gradient>
struct AdamW {
  static constexpr const char* kName = "adamw";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<Gradient, Mode> gradient,
                                       InOut<float, Mode> parameter, InOut<float, Mode> momentum,
                                       InOut<float, Mode> variance, const Segments& segments,
                                       const StepConstants& constants) {
    EachSegment(block, momentum.count(), segments, [&](int64_t begin, int64_t end, float keep) {
      block.Map(
          end - begin,
          [&, keep](int64_t, float& p, float& m, float& v, float g) {
            const AdamElement next = AdamStep(constants, g, {m, v, p}, keep);
            m = next.momentum;
            v = next.variance;
            p = next.parameter;
          },
          parameter.From(begin), momentum.From(begin), variance.From(begin), gradient.From(begin));
    });
  }
};

template <typename Gradient, typename Narrow>
struct AdamWWithMaster {
  static constexpr const char* kName = "adamw_with_master";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<Gradient, Mode> gradient,
                                       Out<Narrow, Mode> parameter, InOut<float, Mode> master,
                                       InOut<float, Mode> momentum, InOut<float, Mode> variance,
                                       const Segments& segments, const StepConstants& constants) {
    EachSegment(block, momentum.count(), segments, [&](int64_t begin, int64_t end, float keep) {
      block.Map(
          end - begin,
          [&, keep](int64_t, float& narrow, float& p, float& m, float& v, float g) {
            const AdamElement next = AdamStep(constants, g, {m, v, p}, keep);
            m = next.momentum;
            v = next.variance;
            p = next.parameter;
            narrow = next.parameter;
          },
          parameter.From(begin), master.From(begin), momentum.From(begin), variance.From(begin),
          gradient.From(begin));
    });
  }
};

template <typename From, typename To>
struct Cast {
  static constexpr const char* kName = "cast";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<From, Mode> x, Out<To, Mode> y) {
    block.MapTile(
        y.count(), [](int64_t, float& to, float from) { to = from; }, y, x);
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

StepConstants ConstantsOf(const AdamSettings& settings, double learning_rate, int64_t t,
                          float factor) {
  const double beta1 = settings.beta1;
  const double beta2 = settings.beta2;
  return {.beta1 = settings.beta1,
          .one_minus_beta1 = static_cast<float>(1.0 - beta1),
          .beta2 = settings.beta2,
          .one_minus_beta2 = static_cast<float>(1.0 - beta2),
          .step_size = static_cast<float>(learning_rate / (1.0 - Power(beta1, t))),
          .variance_scale = static_cast<float>(1.0 / std::sqrt(1.0 - Power(beta2, t))),
          .epsilon = settings.epsilon,
          .factor = factor};
}

// The spans of the bucket that fall into this shard of `count` elements, and the gaps between them
// (alignment; no decay); ends count from the shard's first element. Precondition: spans ascend and
// do not overlap.
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
      segments.push_back({end, keep});
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

// Elements [begin, end) of the shard and their segments: one launch.
struct Stretch {
  int64_t begin, end;
  Segments segments;
};

template <typename Gradient>
Status LaunchStretch(const OpCall& call, const Stretch& stretch, const StepConstants& constants) {
  const int64_t count = stretch.end - stretch.begin;
  const int64_t blocks = BlocksFor(count);
  const In<Gradient> gradient(call.Read<Gradient>(0).data() + stretch.begin, count);
  const auto update = [&](int operand) {
    return InOut<float>(call.Update(operand).data() + stretch.begin, count);
  };
  if (call.operand_count() == 4) {
    return Launch<AdamW<Gradient>>(call.target(), blocks, gradient, update(1), update(2), update(3),
                                   stretch.segments, constants);
  }
  return WithFormat(call.TypeOf(1), [&]<typename Parameter>(Type<Parameter>) -> Status {
    const Out<Parameter> parameter(call.Write<Parameter>(1).data() + stretch.begin, count);
    return Launch<AdamWWithMaster<Gradient, Parameter>>(call.target(), blocks, gradient, parameter,
                                                        update(2), update(3), update(4),
                                                        stretch.segments, constants);
  });
}

}  // namespace

Status LaunchAdamW(const OpCall& call) {
  const AdamSettings& settings = call.attributes().adam;
  const int64_t step = call.context().step;
  const double learning_rate = LearningRateAt(settings, step);
  // Skipped steps do not count in t; the learning rate follows all of them.
  const int64_t t = step + 1 - static_cast<int64_t>(call.Scalar(1, 0.0));
  const float factor = static_cast<float>(call.Scalar(0, 1.0));
  const StepConstants constants = ConstantsOf(settings, learning_rate, t, factor);
  return WithFormat(call.TypeOf(0), [&]<typename Gradient>(Type<Gradient>) -> Status {
    Stretch stretch = {};
    for (const Segment& segment : SegmentsOf(call, learning_rate, call.Count(0))) {
      if (stretch.segments.full()) {
        TL_RETURN_IF_ERROR(LaunchStretch<Gradient>(call, stretch, constants));
        stretch = {.begin = stretch.end, .end = stretch.end, .segments = {}};
      }
      stretch.segments.Push({segment.end - stretch.begin, segment.keep});
      stretch.end = segment.end;
    }
    return LaunchStretch<Gradient>(call, stretch, constants);
  });
}

Status LaunchCast(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename From>(Type<From>) {
    return WithFormat(call.TypeOf(1), [&]<typename To>(Type<To>) {
      return Launch<Cast<From, To>>(call.target(), BlocksFor(call.Count(0)), call.Read<From>(0),
                                    call.Write<To>(1));
    });
  });
}

}  // namespace tideline::ops
