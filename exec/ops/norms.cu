// LayerNorm and RMSNorm. Statistics are sums over a row by the block's fixed tree, in fp32, the
// variance about the mean. Parameter gradients add row by row in index order.
#include "base/numerics.h"
#include "exec/ops/formats.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {
namespace {

// One block per row.
template <typename T>
struct LayerNorm {
  static constexpr const char* kName = "layer_norm";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> x, In<T, Mode> gamma,
                                       In<T, Mode> beta, Out<T, Mode> y, Out<float, Mode> mean,
                                       Out<float, Mode> rstd, float epsilon) {
    const int64_t hidden = gamma.count();
    const int64_t row = block.index() * hidden;
    const float inverse = 1.0f / static_cast<float>(hidden);
    const float center = block.Sum(
                             hidden, [](int64_t, float value) { return value; }, x.From(row)) *
                         inverse;
    const float variance = block.Sum(
                               hidden,
                               [center](int64_t, float value) {
                                 const float distance = value - center;
                                 return distance * distance;
                               },
                               x.From(row)) *
                           inverse;
    const float scale = Rsqrt(variance + epsilon);
    block.Map(
        hidden,
        [center, scale](int64_t, float& to, float value, float factor, float offset) {
          to = std::fma((value - center) * scale, factor, offset);
        },
        y.From(row), x.From(row), gamma, beta);
    block.Once([&] {
      mean[block.index()] = center;
      rstd[block.index()] = scale;
    });
  }
};

// dx = rstd (g - mean(g) - xhat mean(g xhat)), g = dy gamma, xhat = (x - mean) rstd.
template <typename T>
struct LayerNormGrad {
  static constexpr const char* kName = "layer_norm_grad";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> dy, In<T, Mode> x,
                                       In<T, Mode> gamma, In<float, Mode> mean,
                                       In<float, Mode> rstd, Out<T, Mode> dx) {
    const int64_t hidden = gamma.count();
    const int64_t row = block.index() * hidden;
    const float inverse = 1.0f / static_cast<float>(hidden);
    const float center = mean[block.index()];
    const float scale = rstd[block.index()];
    const float mean_g =
        block.Sum(
            hidden, [](int64_t, float gradient, float factor) { return gradient * factor; },
            dy.From(row), gamma) *
        inverse;
    const float mean_g_xhat =
        block.Sum(
            hidden,
            [center, scale](int64_t, float gradient, float factor, float value) {
              return gradient * factor * ((value - center) * scale);
            },
            dy.From(row), gamma, x.From(row)) *
        inverse;
    block.Map(
        hidden,
        [=](int64_t, float& to, float gradient, float factor, float value) {
          const float normal = (value - center) * scale;
          to = scale * (gradient * factor - mean_g - normal * mean_g_xhat);
        },
        dx.From(row), dy.From(row), gamma, x.From(row));
  }
};

// What the elements of one row have in common.
struct RowStatistics {
  int64_t first;  // element of x and dy
  float center, scale;
};

// A chain per column, over the rows in order.
template <typename T, typename S, bool kAccumulate>
struct LayerNormParameterGrad {
  static constexpr const char* kName = "layer_norm_parameter_grad";
  static constexpr int kThreads = Block::kChainThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> dy, In<T, Mode> x,
                                       In<float, Mode> mean, In<float, Mode> rstd,
                                       Sum<S, Mode, kAccumulate> dgamma,
                                       Sum<S, Mode, kAccumulate> dbeta) {
    const int64_t hidden = dgamma.count();
    const Chained columns = ChainsOf(block, hidden);
    block.Chains<2>(
        columns.begin, columns.end, mean.count(),
        [&](int64_t column, float(&sums)[2]) {
          sums[0] = OldElement(dgamma, column);
          sums[1] = OldElement(dbeta, column);
        },
        [&](int64_t row) -> RowStatistics {
          return {row * hidden, mean[row], rstd[row]};
        },
        [&](const RowStatistics& row, int64_t column, float(&sums)[2]) {
          const float gradient = dy[row.first + column];
          const float normal = (x[row.first + column] - row.center) * row.scale;
          sums[0] = std::fma(gradient, normal, sums[0]);
          sums[1] += gradient;
        },
        [&](int64_t column, const float(&sums)[2]) {
          dgamma[column] = sums[0];
          dbeta[column] = sums[1];
        });
  }
};

template <typename T>
struct RmsNorm {
  static constexpr const char* kName = "rms_norm";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> x, In<T, Mode> gamma,
                                       Out<T, Mode> y, Out<float, Mode> rstd, float epsilon) {
    const int64_t hidden = gamma.count();
    const int64_t row = block.index() * hidden;
    const float inverse = 1.0f / static_cast<float>(hidden);
    const float square =
        block.Sum(
            hidden, [](int64_t, float value) { return value * value; }, x.From(row)) *
        inverse;
    const float scale = Rsqrt(square + epsilon);
    block.Map(
        hidden,
        [scale](int64_t, float& to, float value, float factor) { to = value * scale * factor; },
        y.From(row), x.From(row), gamma);
    block.Once([&] { rstd[block.index()] = scale; });
  }
};

// dx = rstd (g - xhat mean(g xhat)), g = dy gamma, xhat = x rstd.
template <typename T>
struct RmsNormGrad {
  static constexpr const char* kName = "rms_norm_grad";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> dy, In<T, Mode> x,
                                       In<T, Mode> gamma, In<float, Mode> rstd, Out<T, Mode> dx) {
    const int64_t hidden = gamma.count();
    const int64_t row = block.index() * hidden;
    const float inverse = 1.0f / static_cast<float>(hidden);
    const float scale = rstd[block.index()];
    const float mean_g_xhat = block.Sum(
                                  hidden,
                                  [scale](int64_t, float gradient, float factor, float value) {
                                    return gradient * factor * (value * scale);
                                  },
                                  dy.From(row), gamma, x.From(row)) *
                              inverse;
    block.Map(
        hidden,
        [=](int64_t, float& to, float gradient, float factor, float value) {
          const float normal = value * scale;
          to = scale * (gradient * factor - normal * mean_g_xhat);
        },
        dx.From(row), dy.From(row), gamma, x.From(row));
  }
};

// A chain per column, over the rows in order.
template <typename T, typename S, bool kAccumulate>
struct RmsNormParameterGrad {
  static constexpr const char* kName = "rms_norm_parameter_grad";
  static constexpr int kThreads = Block::kChainThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> dy, In<T, Mode> x,
                                       In<float, Mode> rstd, Sum<S, Mode, kAccumulate> dgamma) {
    const int64_t hidden = dgamma.count();
    const Chained columns = ChainsOf(block, hidden);
    block.Chains<1>(
        columns.begin, columns.end, rstd.count(),
        [&](int64_t column, float(&sum)[1]) { sum[0] = OldElement(dgamma, column); },
        [&](int64_t row) -> RowStatistics {
          return {row * hidden, 0.0f, rstd[row]};
        },
        [&](const RowStatistics& row, int64_t column, float(&sum)[1]) {
          const float normal = x[row.first + column] * row.scale;
          sum[0] = std::fma(float{dy[row.first + column]}, normal, sum[0]);
        },
        [&](int64_t column, const float(&sum)[1]) { dgamma[column] = sum[0]; });
  }
};

}  // namespace

Status LaunchLayerNorm(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<LayerNorm<T>>(call.target(), call.Rows(0), call.Read<T>(0), call.Read<T>(1),
                                call.Read<T>(2), call.Write<T>(3), call.Write(4), call.Write(5),
                                call.attributes().epsilon);
  });
}

Status LaunchLayerNormGrad(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<LayerNormGrad<T>>(call.target(), call.Rows(0), call.Read<T>(0), call.Read<T>(1),
                                    call.Read<T>(2), call.Read(3), call.Read(4), call.Write<T>(5));
  });
}

Status LaunchLayerNormParameterGrad(const OpCall& call) {
  const int64_t blocks = ChainBlocks(call.Columns(0));
  return WithSum(call.TypeOf(0), call.TypeOf(4), [&]<typename T, typename S>(Type<T>, Type<S>) {
    if (call.attributes().accumulate) {
      return Launch<LayerNormParameterGrad<T, S, true>>(call.target(), blocks, call.Read<T>(0),
                                                        call.Read<T>(1), call.Read(2), call.Read(3),
                                                        call.Update<S>(4), call.Update<S>(5));
    }
    return Launch<LayerNormParameterGrad<T, S, false>>(call.target(), blocks, call.Read<T>(0),
                                                       call.Read<T>(1), call.Read(2), call.Read(3),
                                                       call.Write<S>(4), call.Write<S>(5));
  });
}

Status LaunchRmsNorm(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<RmsNorm<T>>(call.target(), call.Rows(0), call.Read<T>(0), call.Read<T>(1),
                              call.Write<T>(2), call.Write(3), call.attributes().epsilon);
  });
}

Status LaunchRmsNormGrad(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<RmsNormGrad<T>>(call.target(), call.Rows(0), call.Read<T>(0), call.Read<T>(1),
                                  call.Read<T>(2), call.Read(3), call.Write<T>(4));
  });
}

Status LaunchRmsNormParameterGrad(const OpCall& call) {
  const int64_t blocks = ChainBlocks(call.Columns(0));
  return WithSum(call.TypeOf(0), call.TypeOf(3), [&]<typename T, typename S>(Type<T>, Type<S>) {
    if (call.attributes().accumulate) {
      return Launch<RmsNormParameterGrad<T, S, true>>(
          call.target(), blocks, call.Read<T>(0), call.Read<T>(1), call.Read(2), call.Update<S>(3));
    }
    return Launch<RmsNormParameterGrad<T, S, false>>(
        call.target(), blocks, call.Read<T>(0), call.Read<T>(1), call.Read(2), call.Write<S>(3));
  });
}

}  // namespace tideline::ops
