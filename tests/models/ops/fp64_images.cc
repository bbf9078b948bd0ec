// Convolutions, batch norms, pools, joins and patches, as loops over every index.
#include <cmath>

#include "tests/models/ops/fp64_interpreter.h"

namespace tideline {
namespace {

int64_t At(const std::vector<int64_t>& shape, int64_t n, int64_t c, int64_t h, int64_t w) {
  return ((n * shape[1] + c) * shape[2] + h) * shape[3] + w;
}

template <typename Body>
void EachIndex(const std::vector<int64_t>& shape, const Body& body) {
  for (int64_t n = 0; n < shape[0]; ++n) {
    for (int64_t c = 0; c < shape[1]; ++c) {
      for (int64_t h = 0; h < shape[2]; ++h) {
        for (int64_t w = 0; w < shape[3]; ++w) body(n, c, h, w);
      }
    }
  }
}

}  // namespace

bool Fp64Interpreter::RunImageOp(const Node& node) {
  switch (node.op) {
    case Op::kConvolution:
    case Op::kConvolutionGrad:
    case Op::kConvolutionWeightGrad:
      Convolution(node);
      return true;
    case Op::kBatchMoments:
    case Op::kBatchNorm:
    case Op::kBatchNormTrack:
    case Op::kBatchNormFixed:
    case Op::kBatchNormSums:
    case Op::kBatchNormParameterGrad:
    case Op::kBatchNormGrad:
      BatchNorm(node);
      return true;
    case Op::kMaxPool:
    case Op::kAveragePool:
    case Op::kMaxPoolGrad:
    case Op::kAveragePoolGrad:
      Pool(node);
      return true;
    case Op::kConcat:
    case Op::kSplit:
      Join(node);
      return true;
    case Op::kPatches:
    case Op::kPatchesGrad:
      Patches(node);
      return true;
    default:
      return false;
  }
}

// Every pair of an output element and a term of its sum, whichever of the three is wanted.
void Fp64Interpreter::Convolution(const Node& node) {
  const bool forward = node.op == Op::kConvolution;
  const bool of_weight = node.op == Op::kConvolutionWeightGrad;
  const TensorId x = forward ? node.inputs[0] : of_weight ? node.inputs[1] : node.outputs[0];
  const TensorId weight = of_weight ? node.outputs[0] : node.inputs[1];
  const TensorId y = forward ? node.outputs[0] : node.inputs[0];
  if (!of_weight) {
    double* made = Values(node.outputs[0]);
    std::fill(made, made + Count(node.outputs[0]), 0.0);
  }
  const int32_t stride = node.attributes.window.stride;
  const int32_t padding = node.attributes.window.padding;
  EachIndex(Shape(y), [&](int64_t n, int64_t o, int64_t p, int64_t q) {
    for (int64_t i = 0; i < Shape(weight)[1]; ++i) {
      for (int64_t r = 0; r < Shape(weight)[2]; ++r) {
        for (int64_t s = 0; s < Shape(weight)[3]; ++s) {
          const int64_t h = p * stride + r - padding;
          const int64_t w = q * stride + s - padding;
          if (h < 0 || w < 0 || h >= Shape(x)[2] || w >= Shape(x)[3]) continue;
          double& in = Values(x)[At(Shape(x), n, i, h, w)];
          double& factor = Values(weight)[At(Shape(weight), o, i, r, s)];
          double& out = Values(y)[At(Shape(y), n, o, p, q)];
          (forward     ? out
           : of_weight ? factor
                       : in) += (forward     ? in * factor
                                 : of_weight ? in * out
                                             : factor * out);
        }
      }
    }
  });
}

void Fp64Interpreter::BatchNorm(const Node& node) {
  const auto in = [&](size_t i) { return Values(node.inputs[i]); };
  const auto out = [&](size_t i) { return Values(node.outputs[i]); };
  const std::vector<int64_t>& shape = Shape(node.inputs[0]);
  if (node.op == Op::kBatchNormParameterGrad) {
    for (int64_t c = 0; c < shape[1]; ++c) {
      out(0)[c] += in(0)[shape[1] + c];
      out(1)[c] += in(0)[c];
    }
    return;
  }
  if (node.op == Op::kBatchNormTrack) {
    for (int64_t c = 0; c < shape[2]; ++c) {
      const double count = in(0)[2 * shape[2] + c];
      const double variance = in(0)[shape[2] + c] / std::max(count - 1, 1.0);
      out(0)[c] += node.attributes.constant * (in(0)[c] - out(0)[c]);
      out(1)[c] += node.attributes.constant * (variance - out(1)[c]);
    }
    return;
  }
  const int64_t channels = shape[1];
  const double count = static_cast<double>(shape[0] * shape[2] * shape[3]);
  for (int64_t c = 0; c < channels; ++c) {
    const auto each = [&](const auto& body) {
      for (int64_t n = 0; n < shape[0]; ++n) {
        for (int64_t i = 0; i < shape[2] * shape[3]; ++i) {
          body((n * channels + c) * shape[2] * shape[3] + i);
        }
      }
    };
    if (node.op == Op::kBatchMoments) {
      double mean = 0, squares = 0;
      each([&](int64_t i) { mean += in(0)[i] / count; });
      each([&](int64_t i) { squares += std::pow(in(0)[i] - mean, 2); });
      out(0)[c] = mean;
      out(0)[channels + c] = squares;
      out(0)[2 * channels + c] = count;
    } else if (node.op == Op::kBatchNorm) {
      out(1)[c] = in(1)[c];
      out(2)[c] =
          1 / std::sqrt(in(1)[channels + c] / in(1)[2 * channels + c] + node.attributes.epsilon);
      each(
          [&](int64_t i) { out(0)[i] = (in(0)[i] - out(1)[c]) * out(2)[c] * in(2)[c] + in(3)[c]; });
    } else if (node.op == Op::kBatchNormFixed) {
      const double rstd = 1 / std::sqrt(in(2)[c] + node.attributes.epsilon);
      each([&](int64_t i) { out(0)[i] = (in(0)[i] - in(1)[c]) * rstd * in(3)[c] + in(4)[c]; });
    } else if (node.op == Op::kBatchNormSums) {
      double sum = 0, dot = 0;
      each([&](int64_t i) {
        sum += in(0)[i];
        dot += in(0)[i] * (in(1)[i] - in(2)[c]) * in(3)[c];
      });
      out(0)[c] = sum;
      out(0)[channels + c] = dot;
      out(0)[2 * channels + c] = count;
    } else {
      each([&](int64_t i) {
        const double normal = (in(1)[i] - in(3)[c]) * in(4)[c];
        out(0)[i] = in(2)[c] * in(4)[c] *
                    (in(0)[i] - in(5)[c] / count - normal * in(5)[channels + c] / count);
      });
    }
  }
}

void Fp64Interpreter::Pool(const Node& node) {
  const bool forward = node.op == Op::kMaxPool || node.op == Op::kAveragePool;
  const bool maximum = node.op == Op::kMaxPool || node.op == Op::kMaxPoolGrad;
  const TensorId x = forward ? node.inputs[0] : node.outputs[0];
  const TensorId y = forward ? node.outputs[0] : node.inputs[0];
  const SpatialWindow& window = node.attributes.window;
  if (!forward) std::fill(Values(x), Values(x) + Count(x), 0.0);
  EachIndex(Shape(y), [&](int64_t n, int64_t c, int64_t p, int64_t q) {
    const int64_t at = At(Shape(y), n, c, p, q);
    double sum = 0, most = -INFINITY;
    for (int64_t r = 0; r < window.height; ++r) {
      for (int64_t s = 0; s < window.width; ++s) {
        const int64_t h = p * window.stride + r - window.padding;
        const int64_t w = q * window.stride + s - window.padding;
        if (h < 0 || w < 0 || h >= Shape(x)[2] || w >= Shape(x)[3]) continue;
        double& element = Values(x)[At(Shape(x), n, c, h, w)];
        const double own = static_cast<double>(h * Shape(x)[3] + w);
        if (!forward && maximum) {
          if (Values(node.inputs[1])[at] == own) element += Values(y)[at];
        } else if (!forward) {
          element += Values(y)[at] / (window.height * window.width);
        } else if (element > most) {
          most = element;
          if (maximum) Values(node.outputs[1])[at] = own;
        }
        sum += element;
      }
    }
    if (forward) Values(y)[at] = maximum ? most : sum / (window.height * window.width);
  });
}

void Fp64Interpreter::Join(const Node& node) {
  const bool forward = node.op == Op::kConcat;
  const std::vector<TensorId>& parts = forward ? node.inputs : node.outputs;
  const TensorId whole = forward ? node.outputs[0] : node.inputs[0];
  int64_t outer = 1;
  for (int32_t d = 0; d < node.attributes.dimension; ++d) outer *= Shape(whole)[d];
  const int64_t run = Count(whole) / outer;
  int64_t begin = 0;
  for (const TensorId part : parts) {
    const int64_t length = Count(part) / outer;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < length; ++i) {
        double& joined = Values(whole)[o * run + begin + i];
        double& own = Values(part)[o * length + i];
        (forward ? joined : own) = forward ? own : joined;
      }
    }
    begin += length;
  }
}

void Fp64Interpreter::Patches(const Node& node) {
  const bool forward = node.op == Op::kPatches;
  const TensorId image = forward ? node.inputs[0] : node.outputs[0];
  const TensorId cut = forward ? node.outputs[0] : node.inputs[0];
  const SpatialWindow& window = node.attributes.window;
  const int64_t across = Shape(image)[3] / window.width;
  EachIndex(Shape(image), [&](int64_t n, int64_t c, int64_t h, int64_t w) {
    const int64_t patch = h / window.height * across + w / window.width;
    const int64_t in_patch =
        (c * window.height + h % window.height) * window.width + w % window.width;
    double& element = Values(image)[At(Shape(image), n, c, h, w)];
    double& copy = Values(cut)[(n * Shape(cut)[1] + patch) * Shape(cut)[2] + in_patch];
    (forward ? copy : element) = forward ? element : copy;
  });
}

}  // namespace tideline
