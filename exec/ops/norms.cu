// LayerNorm and RMSNorm. Statistics are sums over a row by the block's fixed tree, in fp32, the
// variance about the mean. Parameter gradients add row by row in index order.
#include "base/numerics.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {
namespace {

// One block per row.
struct LayerNorm {
  static constexpr const char* kName = "layer_norm";
  template <typename Mode>
  static void Run(const Block& block, In<float, Mode> x, In<float, Mode> gamma,
                  In<float, Mode> beta, Out<float, Mode> y, Out<float, Mode> mean,
                  Out<float, Mode> rstd, float epsilon) {
    const int64_t hidden = gamma.count();
    const int64_t row = block.index() * hidden;
    const float inverse = 1.0f / static_cast<float>(hidden);
    const float center =
        block.Sum(hidden, [&](int64_t i) -> float { return x[row + i]; }) * inverse;
    const float variance = block.Sum(hidden, [&](int64_t i) {
      const float distance = x[row + i] - center;
      return distance * distance;
    }) * inverse;
    const float scale = Rsqrt(variance + epsilon);
    block.Each(hidden, [&](int64_t i) {
      y[row + i] = std::fma((x[row + i] - center) * scale, float{gamma[i]}, float{beta[i]});
    });
    mean[block.index()] = center;
    rstd[block.index()] = scale;
  }
};

// dx = rstd (g - mean(g) - xhat mean(g xhat)), g = dy gamma, xhat = (x - mean) rstd.
struct LayerNormGrad {
  static constexpr const char* kName = "layer_norm_grad";
  template <typename Mode>
  static void Run(const Block& block, In<float, Mode> dy, In<float, Mode> x, In<float, Mode> gamma,
                  In<float, Mode> mean, In<float, Mode> rstd, Out<float, Mode> dx) {
    const int64_t hidden = gamma.count();
    const int64_t row = block.index() * hidden;
    const float inverse = 1.0f / static_cast<float>(hidden);
    const float center = mean[block.index()];
    const float scale = rstd[block.index()];
    const float mean_g =
        block.Sum(hidden, [&](int64_t i) { return dy[row + i] * gamma[i]; }) * inverse;
    const float mean_g_xhat = block.Sum(hidden, [&](int64_t i) {
      return dy[row + i] * gamma[i] * ((x[row + i] - center) * scale);
    }) * inverse;
    block.Each(hidden, [&](int64_t i) {
      const float normal = (x[row + i] - center) * scale;
      dx[row + i] = scale * (dy[row + i] * gamma[i] - mean_g - normal * mean_g_xhat);
    });
  }
};

template <bool kAccumulate>
struct LayerNormParameterGrad {
  static constexpr const char* kName = "layer_norm_parameter_grad";
  template <typename Mode>
  static void Run(const Block& block, In<float, Mode> dy, In<float, Mode> x, In<float, Mode> mean,
                  In<float, Mode> rstd, Sum<float, Mode, kAccumulate> dgamma,
                  Sum<float, Mode, kAccumulate> dbeta) {
    const int64_t hidden = dgamma.count();
    if constexpr (!kAccumulate) {
      block.Each(hidden, [&](int64_t i) {
        dgamma[i] = 0.0f;
        dbeta[i] = 0.0f;
      });
    }
    for (int64_t row = 0; row < mean.count(); ++row) {
      const float center = mean[row];
      const float scale = rstd[row];
      block.Each(hidden, [&](int64_t i) {
        const float gradient = dy[row * hidden + i];
        const float normal = (x[row * hidden + i] - center) * scale;
        dgamma[i] = std::fma(gradient, normal, float{dgamma[i]});
        dbeta[i] += gradient;
      });
    }
  }
};

struct RmsNorm {
  static constexpr const char* kName = "rms_norm";
  template <typename Mode>
  static void Run(const Block& block, In<float, Mode> x, In<float, Mode> gamma, Out<float, Mode> y,
                  Out<float, Mode> rstd, float epsilon) {
    const int64_t hidden = gamma.count();
    const int64_t row = block.index() * hidden;
    const float inverse = 1.0f / static_cast<float>(hidden);
    const float square =
        block.Sum(hidden, [&](int64_t i) { return x[row + i] * x[row + i]; }) * inverse;
    const float scale = Rsqrt(square + epsilon);
    block.Each(hidden, [&](int64_t i) { y[row + i] = x[row + i] * scale * gamma[i]; });
    rstd[block.index()] = scale;
  }
};

// dx = rstd (g - xhat mean(g xhat)), g = dy gamma, xhat = x rstd.
struct RmsNormGrad {
  static constexpr const char* kName = "rms_norm_grad";
  template <typename Mode>
  static void Run(const Block& block, In<float, Mode> dy, In<float, Mode> x, In<float, Mode> gamma,
                  In<float, Mode> rstd, Out<float, Mode> dx) {
    const int64_t hidden = gamma.count();
    const int64_t row = block.index() * hidden;
    const float inverse = 1.0f / static_cast<float>(hidden);
    const float scale = rstd[block.index()];
    const float mean_g_xhat = block.Sum(hidden, [&](int64_t i) {
      return dy[row + i] * gamma[i] * (x[row + i] * scale);
    }) * inverse;
    block.Each(hidden, [&](int64_t i) {
      const float normal = x[row + i] * scale;
      dx[row + i] = scale * (dy[row + i] * gamma[i] - normal * mean_g_xhat);
    });
  }
};

template <bool kAccumulate>
struct RmsNormParameterGrad {
  static constexpr const char* kName = "rms_norm_parameter_grad";
  template <typename Mode>
  static void Run(const Block& block, In<float, Mode> dy, In<float, Mode> x, In<float, Mode> rstd,
                  Sum<float, Mode, kAccumulate> dgamma) {
    const int64_t hidden = dgamma.count();
    if constexpr (!kAccumulate) block.Each(hidden, [&](int64_t i) { dgamma[i] = 0.0f; });
    for (int64_t row = 0; row < rstd.count(); ++row) {
      const float scale = rstd[row];
      block.Each(hidden, [&](int64_t i) {
        const float normal = x[row * hidden + i] * scale;
        dgamma[i] = std::fma(float{dy[row * hidden + i]}, normal, float{dgamma[i]});
      });
    }
  }
};

}  // namespace

Status LaunchLayerNorm(const OpCall& call) {
  return Launch<LayerNorm>(call.target(), call.Rows(0), call.Read(0), call.Read(1), call.Read(2),
                           call.Write(3), call.Write(4), call.Write(5), call.attributes().epsilon);
}

Status LaunchLayerNormGrad(const OpCall& call) {
  return Launch<LayerNormGrad>(call.target(), call.Rows(0), call.Read(0), call.Read(1),
                               call.Read(2), call.Read(3), call.Read(4), call.Write(5));
}

Status LaunchLayerNormParameterGrad(const OpCall& call) {
  if (call.attributes().accumulate) {
    return Launch<LayerNormParameterGrad<true>>(call.target(), 1, call.Read(0), call.Read(1),
                                                call.Read(2), call.Read(3), call.Update(4),
                                                call.Update(5));
  }
  return Launch<LayerNormParameterGrad<false>>(call.target(), 1, call.Read(0), call.Read(1),
                                               call.Read(2), call.Read(3), call.Write(4),
                                               call.Write(5));
}

Status LaunchRmsNorm(const OpCall& call) {
  return Launch<RmsNorm>(call.target(), call.Rows(0), call.Read(0), call.Read(1), call.Write(2),
                         call.Write(3), call.attributes().epsilon);
}

Status LaunchRmsNormGrad(const OpCall& call) {
  return Launch<RmsNormGrad>(call.target(), call.Rows(0), call.Read(0), call.Read(1), call.Read(2),
                             call.Read(3), call.Write(4));
}

Status LaunchRmsNormParameterGrad(const OpCall& call) {
  if (call.attributes().accumulate) {
    return Launch<RmsNormParameterGrad<true>>(call.target(), 1, call.Read(0), call.Read(1),
                                              call.Read(2), call.Update(3));
  }
  return Launch<RmsNormParameterGrad<false>>(call.target(), 1, call.Read(0), call.Read(1),
                                             call.Read(2), call.Write(3));
}

}  // namespace tideline::ops
