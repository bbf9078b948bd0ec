// Element-wise ops: activation functions, sums, and their gradients.
#include "base/numerics.h"
#include "exec/ops/launchers.h"
#include "exec/ops/op_call.h"

namespace tideline::ops {
namespace {

struct Add {
  static constexpr const char* kName = "add";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> a, In<float, Mode> b,
                                       Out<float, Mode> y) {
    block.MapTile(
        y.count(), [](int64_t, float& sum, float left, float right) { sum = left + right; }, y, a,
        b);
  }
};

// One block per row.
struct AddBias {
  static constexpr const char* kName = "add_bias";
  static constexpr int kThreads = Block::kRowThreads;
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> x, In<float, Mode> bias,
                                       Out<float, Mode> y) {
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

struct Gelu {
  static constexpr const char* kName = "gelu";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> x, Out<float, Mode> y) {
    block.MapTile(
        y.count(),
        [](int64_t, float& to, float value) { to = 0.5f * value * (1.0f + GeluTanh(value)); }, y,
        x);
  }
};

struct GeluGrad {
  static constexpr const char* kName = "gelu_grad";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> dy, In<float, Mode> x,
                                       Out<float, Mode> dx) {
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

struct Relu {
  static constexpr const char* kName = "relu";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> x, Out<float, Mode> y) {
    block.MapTile(
        y.count(),
        [](int64_t, float& to, float value) {
          to = value < 0.0f ? 0.0f : value;  // NaN stays NaN
        },
        y, x);
  }
};

struct ReluGrad {
  static constexpr const char* kName = "relu_grad";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> dy, In<float, Mode> y,
                                       Out<float, Mode> dx) {
    block.MapTile(
        dx.count(),
        [](int64_t, float& to, float gradient, float value) {
          to = value > 0.0f ? gradient : 0.0f;
        },
        dx, dy, y);
  }
};

struct SwiGlu {
  static constexpr const char* kName = "swiglu";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> gate, In<float, Mode> up,
                                       Out<float, Mode> y) {
    block.MapTile(
        y.count(), [](int64_t, float& to, float g, float u) { to = g * Sigmoid(g) * u; }, y, gate,
        up);
  }
};

struct SwiGluGrad {
  static constexpr const char* kName = "swiglu_grad";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> dy, In<float, Mode> gate,
                                       In<float, Mode> up, Out<float, Mode> dgate,
                                       Out<float, Mode> dup) {
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

struct AccumulateInto {
  static constexpr const char* kName = "accumulate";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, In<float, Mode> x,
                                       InOut<float, Mode> y) {
    block.MapTile(
        y.count(), [](int64_t, float& sum, float value) { sum += value; }, y, x);
  }
};

struct ScaleBy {
  static constexpr const char* kName = "scale";
  template <typename Mode>
  TIDELINE_HOST_DEVICE static void Run(const Block& block, InOut<float, Mode> y, float factor) {
    block.MapTile(
        y.count(), [factor](int64_t, float& value) { value = factor * value; }, y);
  }
};

}  // namespace

Status LaunchAdd(const OpCall& call) {
  return Launch<Add>(call.target(), BlocksFor(call.Count(2)), call.Read(0), call.Read(1),
                     call.Write(2));
}

Status LaunchAddBias(const OpCall& call) {
  return Launch<AddBias>(call.target(), call.Rows(2), call.Read(0), call.Read(1), call.Write(2));
}

Status LaunchGelu(const OpCall& call) {
  return Launch<Gelu>(call.target(), BlocksFor(call.Count(1)), call.Read(0), call.Write(1));
}

Status LaunchGeluGrad(const OpCall& call) {
  return Launch<GeluGrad>(call.target(), BlocksFor(call.Count(2)), call.Read(0), call.Read(1),
                          call.Write(2));
}

Status LaunchRelu(const OpCall& call) {
  return Launch<Relu>(call.target(), BlocksFor(call.Count(1)), call.Read(0), call.Write(1));
}

Status LaunchReluGrad(const OpCall& call) {
  return Launch<ReluGrad>(call.target(), BlocksFor(call.Count(2)), call.Read(0), call.Read(1),
                          call.Write(2));
}

Status LaunchSwiGlu(const OpCall& call) {
  return Launch<SwiGlu>(call.target(), BlocksFor(call.Count(2)), call.Read(0), call.Read(1),
                        call.Write(2));
}

Status LaunchSwiGluGrad(const OpCall& call) {
  return Launch<SwiGluGrad>(call.target(), BlocksFor(call.Count(3)), call.Read(0), call.Read(1),
                            call.Read(2), call.Write(3), call.Write(4));
}

Status LaunchAccumulate(const OpCall& call) {
  return Launch<AccumulateInto>(call.target(), BlocksFor(call.Count(1)), call.Read(0),
                                call.Update(1));
}

Status LaunchScale(const OpCall& call) {
  return Launch<ScaleBy>(call.target(), BlocksFor(call.Count(0)), call.Update(0),
                         call.attributes().constant);
}

}  // namespace tideline::ops
