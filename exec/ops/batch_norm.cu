// Batch norm. A channel's sums go over each sample's plane by the block's tree, then over the
// samples in order; parts of a batch that several replicas hold are combined in their order (Chan,
// Golub & LeVeque 1979). One block per channel.
#include <cmath>

#include "base/numerics.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {
namespace {

// [samples, channels, plane].
struct ImageShape {
  int64_t samples, channels, plane;
};

ImageShape ImagesOf(const OpCall& call, int operand) {
  const std::vector<int64_t>& shape = call.Shape(operand);
  return {shape[0], shape[1], shape[2] * shape[3]};
}

// Where a channel's plane of sample `n` begins.
TIDELINE_HOST_DEVICE inline int64_t PlaneOf(const Block& block, const ImageShape& shape,
                                            int64_t n) {
  return (n * shape.channels + block.index()) * shape.plane;
}

// Sum of map(elements of the views...) over a channel.
template <typename Map, typename... Views>
TIDELINE_HOST_DEVICE float SumOfChannel(const Block& block, const ImageShape& shape, Map map,
                                        const Views&... views) {
  float sum = 0.0f;
  for (int64_t n = 0; n < shape.samples; ++n) {
    const int64_t plane = PlaneOf(block, shape, n);
    sum += block.Sum(shape.plane, map, views.From(plane)...);
  }
  return sum;
}

template <typename Function, typename... Views>
TIDELINE_HOST_DEVICE void MapChannel(const Block& block, const ImageShape& shape, Function function,
                                     const Views&... views) {
  for (int64_t n = 0; n < shape.samples; ++n) {
    const int64_t plane = PlaneOf(block, shape, n);
    block.Map(shape.plane, function, views.From(plane)...);
  }
}

struct Moments {
  float mean, squares, count;  // squares: the sum of squared distances from the mean
};

// The moments of a channel over all parts.
template <typename View>
TIDELINE_HOST_DEVICE Moments Combine(const View& moments, int64_t channels, int64_t parts,
                                     int64_t channel) {
  Moments all{moments[channel], moments[channels + channel], moments[2 * channels + channel]};
  for (int64_t part = 1; part < parts; ++part) {
    const int64_t at = part * 3 * channels + channel;
    const float count = moments[at + 2 * channels];
    const float total = all.count + count;
    const float distance = moments[at] - all.mean;
    all.mean = std::fma(distance, count / total, all.mean);
    all.squares += moments[at + channels] + distance * distance * (all.count * count / total);
    all.count = total;
  }
  return all;
}

struct BatchMoments {
  static constexpr const char* kName = "batch_moments";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> x,
                                       Out<float, Mode> moments, ImageShape shape) {
    const float count = static_cast<float>(shape.samples * shape.plane);
    const float sum = SumOfChannel(
        block, shape, [](int64_t, float value) { return value; }, x);
    const float mean = sum / count;
    const float squares = SumOfChannel(
        block, shape,
        [mean](int64_t, float value) {
          const float distance = value - mean;
          return distance * distance;
        },
        x);
    block.Once([&] {
      moments[block.index()] = mean;
      moments[shape.channels + block.index()] = squares;
      moments[2 * shape.channels + block.index()] = count;
    });
  }
};

struct BatchNorm {
  static constexpr const char* kName = "batch_norm";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> x,
                                       In<float, Mode> moments, In<float, Mode> gamma,
                                       In<float, Mode> beta, Out<float, Mode> y,
                                       Out<float, Mode> mean, Out<float, Mode> rstd,
                                       ImageShape shape, int64_t parts, float epsilon) {
    const int64_t channel = block.index();
    const Moments all = Combine(moments, shape.channels, parts, channel);
    const float scale = Rsqrt(all.squares / all.count + epsilon);
    const float factor = gamma[channel];
    const float offset = beta[channel];
    MapChannel(
        block, shape,
        [=](int64_t, float& to, float value) {
          to = std::fma((value - all.mean) * scale, factor, offset);
        },
        y, x);
    block.Once([&] {
      mean[channel] = all.mean;
      rstd[channel] = scale;
    });
  }
};

struct BatchNormFixed {
  static constexpr const char* kName = "batch_norm_fixed";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> x, In<float, Mode> mean,
                                       In<float, Mode> variance, In<float, Mode> gamma,
                                       In<float, Mode> beta, Out<float, Mode> y, ImageShape shape,
                                       float epsilon) {
    const int64_t channel = block.index();
    const float center = mean[channel];
    const float scale = Rsqrt(variance[channel] + epsilon);
    const float factor = gamma[channel];
    const float offset = beta[channel];
    MapChannel(
        block, shape,
        [=](int64_t, float& to, float value) {
          to = std::fma((value - center) * scale, factor, offset);
        },
        y, x);
  }
};

// The variance of a sample of the population: over count - 1.
struct BatchNormTrack {
  static constexpr const char* kName = "batch_norm_track";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> moments,
                                       InOut<float, Mode> mean, InOut<float, Mode> variance,
                                       int64_t parts, float share) {
    const int64_t channels = mean.count();
    block.Each(channels, [&](int64_t channel) {
      const Moments all = Combine(moments, channels, parts, channel);
      const float estimate = all.squares / (all.count > 2.0f ? all.count - 1.0f : 1.0f);
      const float old_mean = mean[channel];
      const float old_variance = variance[channel];
      mean[channel] = std::fma(share, all.mean - old_mean, old_mean);
      variance[channel] = std::fma(share, estimate - old_variance, old_variance);
    });
  }
};

struct BatchNormSums {
  static constexpr const char* kName = "batch_norm_sums";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> dy, In<float, Mode> x,
                                       In<float, Mode> mean, In<float, Mode> rstd,
                                       Out<float, Mode> sums, ImageShape shape) {
    const int64_t channel = block.index();
    const float center = mean[channel];
    const float scale = rstd[channel];
    const float sum = SumOfChannel(
        block, shape, [](int64_t, float gradient) { return gradient; }, dy);
    const float dot = SumOfChannel(
        block, shape,
        [center, scale](int64_t, float gradient, float value) {
          return gradient * ((value - center) * scale);
        },
        dy, x);
    block.Once([&] {
      sums[channel] = sum;
      sums[shape.channels + channel] = dot;
      sums[2 * shape.channels + channel] = static_cast<float>(shape.samples * shape.plane);
    });
  }
};

template <bool kAccumulate>
struct BatchNormParameterGrad {
  static constexpr const char* kName = "batch_norm_parameter_grad";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> sums,
                                       Sum<float, Mode, kAccumulate> dgamma,
                                       Sum<float, Mode, kAccumulate> dbeta) {
    const int64_t channels = dgamma.count();
    block.Each(channels, [&](int64_t channel) {
      if constexpr (kAccumulate) {
        dgamma[channel] += sums[channels + channel];
        dbeta[channel] += sums[channel];
      } else {
        dgamma[channel] = sums[channels + channel];
        dbeta[channel] = sums[channel];
      }
    });
  }
};

struct BatchNormGrad {
  static constexpr const char* kName = "batch_norm_grad";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> dy, In<float, Mode> x,
                                       In<float, Mode> gamma, In<float, Mode> mean,
                                       In<float, Mode> rstd, In<float, Mode> sums,
                                       Out<float, Mode> dx, ImageShape shape) {
    const int64_t channel = block.index();
    const float center = mean[channel];
    const float scale = rstd[channel];
    const float factor = gamma[channel] * scale;
    const float count = sums[2 * shape.channels + channel];
    const float mean_dy = sums[channel] / count;
    const float mean_dy_xhat = sums[shape.channels + channel] / count;
    MapChannel(
        block, shape,
        [=](int64_t, float& to, float gradient, float value) {
          const float normal = (value - center) * scale;
          to = factor * (gradient - mean_dy - normal * mean_dy_xhat);
        },
        dx, dy, x);
  }
};

}  // namespace

Status LaunchBatchMoments(const OpCall& call) {
  const ImageShape shape = ImagesOf(call, 0);
  return Launch<BatchMoments>(call.target(), shape.channels, call.Read(0), call.Write(1), shape);
}

Status LaunchBatchNorm(const OpCall& call) {
  const ImageShape shape = ImagesOf(call, 0);
  return Launch<BatchNorm>(call.target(), shape.channels, call.Read(0), call.Read(1), call.Read(2),
                           call.Read(3), call.Write(4), call.Write(5), call.Write(6), shape,
                           call.Shape(1)[0], call.attributes().epsilon);
}

Status LaunchBatchNormFixed(const OpCall& call) {
  const ImageShape shape = ImagesOf(call, 0);
  return Launch<BatchNormFixed>(call.target(), shape.channels, call.Read(0), call.Read(1),
                                call.Read(2), call.Read(3), call.Read(4), call.Write(5), shape,
                                call.attributes().epsilon);
}

Status LaunchBatchNormTrack(const OpCall& call) {
  return Launch<BatchNormTrack>(call.target(), 1, call.Read(0), call.Update(1), call.Update(2),
                                call.Shape(0)[0], call.attributes().constant);
}

Status LaunchBatchNormSums(const OpCall& call) {
  const ImageShape shape = ImagesOf(call, 0);
  return Launch<BatchNormSums>(call.target(), shape.channels, call.Read(0), call.Read(1),
                               call.Read(2), call.Read(3), call.Write(4), shape);
}

Status LaunchBatchNormParameterGrad(const OpCall& call) {
  // The count is the third row.
  const In<float> sums(call.Read(0).data(), 2 * call.Count(1));
  if (call.attributes().accumulate) {
    return Launch<BatchNormParameterGrad<true>>(call.target(), 1, sums, call.Update(1),
                                                call.Update(2));
  }
  return Launch<BatchNormParameterGrad<false>>(call.target(), 1, sums, call.Write(1),
                                               call.Write(2));
}

Status LaunchBatchNormGrad(const OpCall& call) {
  const ImageShape shape = ImagesOf(call, 0);
  return Launch<BatchNormGrad>(call.target(), shape.channels, call.Read(0), call.Read(1),
                               call.Read(2), call.Read(3), call.Read(4), call.Read(5),
                               call.Write(6), shape);
}

}  // namespace tideline::ops
