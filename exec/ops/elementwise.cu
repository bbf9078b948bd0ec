// Element-wise ops: activation functions, sums, and their gradients.
#include "base/numerics.h"
#include "exec/ops/formats.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {
namespace {

template <typename T>
struct Add {
  static constexpr const char* kName = "add";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> a, In<T, Mode> b,
                                       Out<T, Mode> y) {
    block.MapTile(
        y.count(), [](int64_t, float& sum, float left, float right) { sum = left + right; }, y, a,
        b);
  }
};

// One block per row.
template <typename T>
struct AddBias {
  static constexpr const char* kName = "add_bias";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> x, In<T, Mode> bias,
                                       Out<T, Mode> y) {
    const int64_t row = block.index() * bias.count();
    block.Map(
        bias.count(), [](int64_t, float& sum, float value, float offset) { sum = value + offset; },
        y.From(row), x.From(row), bias);
  }
};

constexpr float kSqrtTwoOverPi = 0.7978845608028654f;
constexpr float kGeluCubic = 0.044715f;

// tanh(sqrt(2/pi) (x + 0.044715 x^3)).
TIDELINE_HOST_DEVICE float GeluTanh(float x) {
  const float cubic = std::fma(kGeluCubic * x * x, x, x);
  return Tanh(kSqrtTwoOverPi * cubic);
}

template <typename T>
struct Gelu {
  static constexpr const char* kName = "gelu";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> x, Out<T, Mode> y) {
    block.MapTile(
        y.count(),
        [](int64_t, float& to, float value) { to = 0.5f * value * (1.0f + GeluTanh(value)); }, y,
        x);
  }
};

template <typename T>
struct GeluGrad {
  static constexpr const char* kName = "gelu_grad";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> dy, In<T, Mode> x,
                                       Out<T, Mode> dx) {
    block.MapTile(
        dx.count(),
        [](int64_t, float& to, float gradient, float value) {
          const float t = GeluTanh(value);
          const float inner = kSqrtTwoOverPi * std::fma(3.0f * kGeluCubic * value, value, 1.0f);
          const float slope = 0.5f * (1.0f + t) + 0.5f * value * std::fma(-t, t, 1.0f) * inner;
          to = gradient * slope;
        },
        dx, dy, x);
  }
};

template <typename T>
struct Relu {
  static constexpr const char* kName = "relu";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> x, Out<T, Mode> y) {
    block.MapTile(
        y.count(),
        [](int64_t, float& to, float value) {
          to = value < 0.0f ? 0.0f : value;  // NaN stays NaN
        },
        y, x);
  }
};

template <typename T>
struct ReluGrad {
  static constexpr const char* kName = "relu_grad";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> dy, In<T, Mode> y,
                                       Out<T, Mode> dx) {
    block.MapTile(
        dx.count(),
        [](int64_t, float& to, float gradient, float value) {
          to = value > 0.0f ? gradient : 0.0f;
        },
        dx, dy, y);
  }
};

template <typename T>
struct SwiGlu {
  static constexpr const char* kName = "swiglu";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> gate, In<T, Mode> up,
                                       Out<T, Mode> y) {
    block.MapTile(
        y.count(), [](int64_t, float& to, float g, float u) { to = g * Sigmoid(g) * u; }, y, gate,
        up);
  }
};

template <typename T>
struct SwiGluGrad {
  static constexpr const char* kName = "swiglu_grad";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> dy, In<T, Mode> gate,
                                       In<T, Mode> up, Out<T, Mode> dgate, Out<T, Mode> dup) {
    block.MapTile(
        dup.count(),
        [](int64_t, float& to_gate, float& to_up, float gradient, float g, float u) {
          const float sigmoid = Sigmoid(g);
          to_gate = gradient * u * sigmoid * std::fma(g, 1.0f - sigmoid, 1.0f);
          to_up = gradient * g * sigmoid;
        },
        dgate, dup, dy, gate, up);
  }
};

template <typename T, typename S>
struct AccumulateInto {
  static constexpr const char* kName = "accumulate";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<T, Mode> x, InOut<S, Mode> y) {
    block.MapTile(
        y.count(), [](int64_t, float& sum, float value) { sum += value; }, y, x);
  }
};

template <typename T>
struct ScaleBy {
  static constexpr const char* kName = "scale";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, InOut<T, Mode> y, float factor) {
    block.MapTile(
        y.count(), [factor](int64_t, float& value) { value = factor * value; }, y);
  }
};

}  // namespace

Status LaunchAdd(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<Add<T>>(call.target(), BlocksFor(call.Count(2)), call.Read<T>(0), call.Read<T>(1),
                          call.Write<T>(2));
  });
}

Status LaunchAddBias(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<AddBias<T>>(call.target(), call.Rows(2), call.Read<T>(0), call.Read<T>(1),
                              call.Write<T>(2));
  });
}

Status LaunchGelu(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<Gelu<T>>(call.target(), BlocksFor(call.Count(1)), call.Read<T>(0),
                           call.Write<T>(1));
  });
}

Status LaunchGeluGrad(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<GeluGrad<T>>(call.target(), BlocksFor(call.Count(2)), call.Read<T>(0),
                               call.Read<T>(1), call.Write<T>(2));
  });
}

Status LaunchRelu(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<Relu<T>>(call.target(), BlocksFor(call.Count(1)), call.Read<T>(0),
                           call.Write<T>(1));
  });
}

Status LaunchReluGrad(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<ReluGrad<T>>(call.target(), BlocksFor(call.Count(2)), call.Read<T>(0),
                               call.Read<T>(1), call.Write<T>(2));
  });
}

Status LaunchSwiGlu(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<SwiGlu<T>>(call.target(), BlocksFor(call.Count(2)), call.Read<T>(0),
                             call.Read<T>(1), call.Write<T>(2));
  });
}

Status LaunchSwiGluGrad(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<SwiGluGrad<T>>(call.target(), BlocksFor(call.Count(3)), call.Read<T>(0),
                                 call.Read<T>(1), call.Read<T>(2), call.Write<T>(3),
                                 call.Write<T>(4));
  });
}

Status LaunchAccumulate(const OpCall& call) {
  return WithSum(call.TypeOf(0), call.TypeOf(1), [&]<typename T, typename S>(Type<T>, Type<S>) {
    return Launch<AccumulateInto<T, S>>(call.target(), BlocksFor(call.Count(1)), call.Read<T>(0),
                                        call.Update<S>(1));
  });
}

Status LaunchScale(const OpCall& call) {
  return WithFormat(call.TypeOf(0), [&]<typename T>(Type<T>) {
    return Launch<ScaleBy<T>>(call.target(), BlocksFor(call.Count(0)), call.Update<T>(0),
                              call.attributes().constant);
  });
}

}  // namespace tideline::ops
