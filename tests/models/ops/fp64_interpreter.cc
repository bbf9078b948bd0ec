#include "tests/models/ops/fp64_interpreter.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include "base/check.h"
#include "models/ops/op_table.h"

namespace tideline {
namespace {

constexpr double kGeluScale = 0.7978845608028653558798921198687637;  // sqrt(2 / pi)

double Gelu(double x) { return 0.5 * x * (1 + std::tanh(kGeluScale * (x + 0.044715 * x * x * x))); }

double GeluSlope(double x) {
  const double t = std::tanh(kGeluScale * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * kGeluScale * (1 + 3 * 0.044715 * x * x);
}

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double SiluSlope(double x) { return Sigmoid(x) * (1 + x * (1 - Sigmoid(x))); }

// Walks all index combinations of `letters` and hands out the offset of each term.
class LetterLoop {
 public:
  void Bind(const std::string& letters, const std::vector<int64_t>& shape) {
    for (size_t position = 0; position < letters.size(); ++position) {
      extent_[letters[position] - 'a'] = shape[position];
    }
  }
  int64_t Offset(const std::string& letters) const {
    int64_t offset = 0;
    for (char letter : letters) offset = offset * extent_[letter - 'a'] + index_[letter - 'a'];
    return offset;
  }
  template <typename Body>
  void Each(const std::string& letters, const Body& body, size_t depth = 0) {
    if (depth == letters.size()) return body();
    const int slot = letters[depth] - 'a';
    for (index_[slot] = 0; index_[slot] < extent_[slot]; ++index_[slot]) {
      Each(letters, body, depth + 1);
    }
    index_[slot] = 0;
  }

 private:
  int64_t extent_[26] = {};
  int64_t index_[26] = {};
};

// What dropout multiplies an element by: a mask of the witness's own, a function of the site and
// the element only, so that all ops that drop there agree.
double DropoutFactor(const Dropout& dropout, int64_t element) {
  const double rate = dropout.rate;
  if (rate == 0) return 1;
  const uint64_t mixed =
      (static_cast<uint64_t>(element) + 17 * static_cast<uint64_t>(dropout.site)) * 2654435761u;
  return static_cast<double>(mixed % 1000) < 1000 * rate ? 0 : 1 / (1 - rate);
}

// Frequencies of Hugging Face's rope_type "llama3".
double RotaryFrequency(const RotaryScaling& scaling, int64_t pair, int64_t head_dim) {
  const double frequency =
      std::pow(scaling.theta, -2.0 * static_cast<double>(pair) / static_cast<double>(head_dim));
  if (scaling.factor == 1.0) return frequency;
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double context = static_cast<double>(scaling.original_positions);
  if (wavelength < context / scaling.high_frequency_factor) return frequency;
  if (wavelength > context / scaling.low_frequency_factor) return frequency / scaling.factor;
  const double smooth = (context / wavelength - scaling.low_frequency_factor) /
                        (scaling.high_frequency_factor - scaling.low_frequency_factor);
  return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

}  // namespace

Fp64Interpreter::Fp64Interpreter(const Graph& graph)
    : graph_(graph), storages_(graph.tensors.size()) {
  for (size_t id = 0; id < graph.tensors.size(); ++id) {
    if (graph.tensors[id].alias_of == kNone) storages_[id].resize(Count(static_cast<TensorId>(id)));
  }
}

double* Fp64Interpreter::Values(TensorId tensor) {
  int64_t offset = 0;
  while (graph_.tensors[tensor].alias_of != kNone) {
    offset += graph_.tensors[tensor].alias_offset;
    tensor = graph_.tensors[tensor].alias_of;
  }
  return storages_[tensor].data() + offset;
}

std::vector<double> Fp64Interpreter::Copy(TensorId tensor) {
  const double* values = Values(tensor);
  return {values, values + Count(tensor)};
}

void Fp64Interpreter::Run(size_t begin, size_t end) {
  for (size_t node = begin; node < end; ++node) RunNode(graph_.nodes[node]);
}

void Fp64Interpreter::RunNode(const Node& node) {
  if (RunImageOp(node)) return;
  if (node.op < Op::kReduceRows) {
    RunForward(node);
  } else {
    RunBackward(node);
  }
}

void Fp64Interpreter::RunForward(const Node& node) {
  double* y = Values(node.outputs[0]);
  const double* a = Values(node.inputs[0]);
  const double* b = node.inputs.size() > 1 ? Values(node.inputs[1]) : nullptr;
  const int64_t count = Count(node.outputs[0]);
  const int64_t width = Shape(node.outputs[0]).empty() ? 1 : Shape(node.outputs[0]).back();
  switch (node.op) {
    case Op::kEinsum:
      return Einsum(node);
    case Op::kEmbedding:
      for (int64_t i = 0; i < count; ++i) {
        y[i] = b[static_cast<int64_t>(a[i / width]) * width + i % width];
      }
      return;
    case Op::kAddPosition: {
      const int64_t sequence = Shape(node.inputs[0])[1];
      for (int64_t i = 0; i < count; ++i) {
        const int64_t position = i / width % sequence + node.attributes.position_offset.base;
        y[i] = a[i] + b[position * width + i % width];
      }
      return;
    }
    case Op::kLayerNorm:
      return LayerNorm(node, true);
    case Op::kRmsNorm:
      return LayerNorm(node, false);
    case Op::kAdd:
      for (int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i];
      return;
    case Op::kAddBias:
      for (int64_t i = 0; i < count; ++i) y[i] = a[i] + b[i % width];
      return;
    case Op::kGelu:
      for (int64_t i = 0; i < count; ++i) y[i] = Gelu(a[i]);
      return;
    case Op::kRelu:
      for (int64_t i = 0; i < count; ++i) y[i] = std::max(a[i], 0.0);
      return;
    case Op::kSwiGlu:
      for (int64_t i = 0; i < count; ++i) y[i] = a[i] * Sigmoid(a[i]) * b[i];
      return;
    case Op::kRotary:
      return Rotary(node);
    case Op::kCausalSoftmax:
      return Softmax(node);
    case Op::kCrossEntropy:
      return CrossEntropy(node);
    case Op::kAttention:
      return Attention(node);
    case Op::kDropout:
      for (int64_t i = 0; i < count; ++i) {
        y[i] = a[i] * DropoutFactor(node.attributes.dropout, i);
      }
      return;
    default:
      TL_CHECK(false, "the interpreter knows every forward op of the builders");
  }
}

void Fp64Interpreter::RunBackward(const Node& node) {
  double* y = Values(node.outputs[0]);
  const double* a = Values(node.inputs[0]);
  const double* b = node.inputs.size() > 1 ? Values(node.inputs[1]) : nullptr;
  const double* c = node.inputs.size() > 2 ? Values(node.inputs[2]) : nullptr;
  const int64_t count = Count(node.outputs[0]);
  const int64_t width = Shape(node.inputs.back()).empty() ? 1 : Shape(node.inputs.back()).back();
  switch (node.op) {
    case Op::kReduceRows:
      return ReduceRows(node);
    case Op::kEmbeddingGrad:
      for (int64_t i = 0; i < Count(node.inputs[1]); ++i) {
        y[static_cast<int64_t>(a[i / width]) * width + i % width] += b[i];
      }
      return;
    case Op::kAddPositionGrad: {
      const int64_t sequence = Shape(node.inputs[0])[1];
      for (int64_t i = 0; i < Count(node.inputs[0]); ++i) {
        const int64_t position = i / width % sequence + node.attributes.position_offset.base;
        y[position * width + i % width] += a[i];
      }
      return;
    }
    case Op::kLayerNormGrad:
      return LayerNormGrad(node, true);
    case Op::kRmsNormGrad:
      return LayerNormGrad(node, false);
    case Op::kLayerNormParameterGrad:
      return LayerNormParameterGrad(node, true);
    case Op::kRmsNormParameterGrad:
      return LayerNormParameterGrad(node, false);
    case Op::kGeluGrad:
      for (int64_t i = 0; i < count; ++i) y[i] = a[i] * GeluSlope(b[i]);
      return;
    case Op::kReluGrad:
      for (int64_t i = 0; i < count; ++i) y[i] = b[i] > 0 ? a[i] : 0;
      return;
    case Op::kSwiGluGrad: {
      double* up = Values(node.outputs[1]);
      for (int64_t i = 0; i < count; ++i) {
        y[i] = a[i] * c[i] * SiluSlope(b[i]);
        up[i] = a[i] * b[i] * Sigmoid(b[i]);
      }
      return;
    }
    case Op::kCausalSoftmaxGrad:
      for (int64_t row = 0; row < count / width; ++row) {
        double dot = 0;
        for (int64_t i = row * width; i < (row + 1) * width; ++i) dot += a[i] * b[i];
        for (int64_t i = row * width; i < (row + 1) * width; ++i) y[i] = b[i] * (a[i] - dot);
      }
      return;
    case Op::kCrossEntropyGrad: {
      const int64_t columns = Shape(node.inputs[0]).back();
      for (int64_t i = 0; i < count; ++i) {
        const bool valid = i % columns < node.attributes.valid_columns;
        const bool target = i % columns == static_cast<int64_t>(b[i / columns]);
        y[i] = node.attributes.loss_scale *
               ((valid ? std::exp(a[i] - c[i / columns]) : 0) - (target ? 1 : 0));
      }
      return;
    }
    case Op::kCast:
      std::copy(a, a + count, y);
      return;
    case Op::kAttentionGrad:
      return AttentionGrad(node);
    default:
      TL_CHECK(false, "the interpreter knows every backward op of the rules");
  }
}

void Fp64Interpreter::Einsum(const Node& node) {
  std::vector<int> ranks;
  for (TensorId input : node.inputs) ranks.push_back(static_cast<int>(Shape(input).size()));
  const IndexDescription letters = Describe(node.op, node.attributes, ranks).value();
  LetterLoop loop;
  std::string contracted;
  for (size_t input = 0; input < 2; ++input) {
    loop.Bind(letters.inputs[input], Shape(node.inputs[input]));
  }
  for (char letter : letters.inputs[0]) {
    if (letters.outputs[0].find(letter) == std::string::npos) contracted += letter;
  }
  const double* a = Values(node.inputs[0]);
  const double* b = Values(node.inputs[1]);
  double* c = Values(node.outputs[0]);
  loop.Each(letters.outputs[0], [&] {
    double sum = 0;
    loop.Each(contracted, [&] {
      sum += a[loop.Offset(letters.inputs[0])] * b[loop.Offset(letters.inputs[1])];
    });
    sum *= node.attributes.scale;
    if (letters.inputs.size() > 2) sum += Values(node.inputs[2])[loop.Offset(letters.inputs[2])];
    double& element = c[loop.Offset(letters.outputs[0])];
    element = node.attributes.accumulate ? element + sum : sum;
  });
}

void Fp64Interpreter::ReduceRows(const Node& node) {
  const int rank = static_cast<int>(Shape(node.inputs[0]).size());
  const IndexDescription letters = Describe(node.op, node.attributes, {rank}).value();
  LetterLoop loop;
  loop.Bind(letters.inputs[0], Shape(node.inputs[0]));
  const double* x = Values(node.inputs[0]);
  double* y = Values(node.outputs[0]);
  loop.Each(letters.inputs[0],
            [&] { y[loop.Offset(letters.outputs[0])] += x[loop.Offset(letters.inputs[0])]; });
}

void Fp64Interpreter::Rotary(const Node& node) {
  const std::vector<int64_t>& shape = Shape(node.inputs[0]);
  const int64_t head_dim = shape[3];
  const double* x = Values(node.inputs[0]);
  double* y = Values(node.outputs[0]);
  // Pairs (i, i + d/2), as LLaMA in Hugging Face.
  for (int64_t row = 0; row < shape[0] * shape[1] * shape[2]; ++row) {
    const int64_t position = row / shape[2] % shape[1] + node.attributes.position_offset.base;
    for (int64_t pair = 0; pair < head_dim / 2; ++pair) {
      double angle =
          static_cast<double>(position) * RotaryFrequency(node.attributes.rotary, pair, head_dim);
      if (node.attributes.inverse) angle = -angle;
      const double first = x[row * head_dim + pair];
      const double second = x[row * head_dim + pair + head_dim / 2];
      y[row * head_dim + pair] = first * std::cos(angle) - second * std::sin(angle);
      y[row * head_dim + pair + head_dim / 2] = second * std::cos(angle) + first * std::sin(angle);
    }
  }
}

void Fp64Interpreter::Softmax(const Node& node) {
  const std::vector<int64_t>& shape = Shape(node.inputs[0]);
  const int64_t keys = shape.back();
  const int64_t queries = shape[shape.size() - 2];
  const double* x = Values(node.inputs[0]);
  double* y = Values(node.outputs[0]);
  for (int64_t row = 0; row < Count(node.inputs[0]) / keys; ++row) {
    const int64_t last = row % queries;
    double sum = 0;
    for (int64_t key = 0; key <= last; ++key) sum += std::exp(x[row * keys + key]);
    for (int64_t key = 0; key < keys; ++key) {
      y[row * keys + key] = key <= last ? std::exp(x[row * keys + key]) / sum : 0;
    }
  }
}

// Row by row from the definition; element i of the mask is that of the probabilities [b, g, r, s,
// t].
void Fp64Interpreter::Attention(const Node& node) {
  const std::vector<int64_t>& shape = Shape(node.inputs[0]);
  const int64_t queries = shape[1], groups = shape[2], per_group = shape[3], size = shape[4];
  const int64_t keys = Shape(node.inputs[1])[1];
  const double* q = Values(node.inputs[0]);
  const double* k = Values(node.inputs[1]);
  const double* v = Values(node.inputs[2]);
  for (int64_t row = 0; row < shape[0] * groups * per_group * queries; ++row) {
    const int64_t query = row % queries, inner = row / queries % per_group;
    const int64_t group = row / queries / per_group % groups;
    const int64_t batch = row / queries / per_group / groups;
    const int64_t at = (((batch * queries + query) * groups + group) * per_group + inner) * size;
    const int64_t seen = node.attributes.causal ? query + 1 : keys;
    std::vector<double> weights(seen);
    double total = 0;
    for (int64_t key = 0; key < seen; ++key) {
      const int64_t key_at = ((batch * keys + key) * groups + group) * size;
      double score = 0;
      for (int64_t i = 0; i < size; ++i) score += q[at + i] * k[key_at + i];
      weights[key] = std::exp(node.attributes.scale * score);
      total += weights[key];
    }
    Values(node.outputs[1])[row] = std::log(total);
    double* o = Values(node.outputs[0]) + at;
    std::fill(o, o + size, 0.0);
    for (int64_t key = 0; key < seen; ++key) {
      const double p =
          weights[key] / total * DropoutFactor(node.attributes.dropout, row * keys + key);
      const int64_t key_at = ((batch * keys + key) * groups + group) * size;
      for (int64_t i = 0; i < size; ++i) o[i] += p * v[key_at + i];
    }
  }
}

void Fp64Interpreter::AttentionGrad(const Node& node) {
  const std::vector<int64_t>& shape = Shape(node.inputs[1]);
  const int64_t queries = shape[1], groups = shape[2], per_group = shape[3], size = shape[4];
  const int64_t keys = Shape(node.inputs[2])[1];
  const double *gradient = Values(node.inputs[0]), *q = Values(node.inputs[1]),
               *k = Values(node.inputs[2]), *v = Values(node.inputs[3]),
               *o = Values(node.inputs[4]), *lse = Values(node.inputs[5]);
  double *dq = Values(node.outputs[0]), *dk = Values(node.outputs[1]),
         *dv = Values(node.outputs[2]);
  for (int output = 0; output < 3; ++output) {
    double* values = Values(node.outputs[output]);
    std::fill(values, values + Count(node.outputs[output]), 0.0);
  }
  const double scale = node.attributes.scale;
  for (int64_t row = 0; row < shape[0] * groups * per_group * queries; ++row) {
    const int64_t query = row % queries, inner = row / queries % per_group;
    const int64_t group = row / queries / per_group % groups;
    const int64_t batch = row / queries / per_group / groups;
    const int64_t at = (((batch * queries + query) * groups + group) * per_group + inner) * size;
    const int64_t seen = node.attributes.causal ? query + 1 : keys;
    double delta = 0;
    for (int64_t i = 0; i < size; ++i) delta += gradient[at + i] * o[at + i];
    for (int64_t key = 0; key < seen; ++key) {
      const int64_t key_at = ((batch * keys + key) * groups + group) * size;
      double score = 0, product = 0;
      for (int64_t i = 0; i < size; ++i) {
        score += q[at + i] * k[key_at + i];
        product += gradient[at + i] * v[key_at + i];
      }
      const double p = std::exp(scale * score - lse[row]);
      const double factor = DropoutFactor(node.attributes.dropout, row * keys + key);
      const double slope = scale * p * (product * factor - delta);
      for (int64_t i = 0; i < size; ++i) {
        dv[key_at + i] += p * factor * gradient[at + i];
        dq[at + i] += slope * k[key_at + i];
        dk[key_at + i] += slope * q[at + i];
      }
    }
  }
}

void Fp64Interpreter::LayerNorm(const Node& node, bool centred) {
  const int64_t width = Shape(node.inputs[0]).back();
  const double* x = Values(node.inputs[0]);
  const double* gamma = Values(node.inputs[1]);
  double* y = Values(node.outputs[0]);
  double* rstd = Values(node.outputs[centred ? 2 : 1]);
  for (int64_t row = 0; row < Count(node.inputs[0]) / width; ++row) {
    double mean = 0, square = 0;
    for (int64_t i = 0; centred && i < width; ++i) mean += x[row * width + i] / width;
    for (int64_t i = 0; i < width; ++i) square += std::pow(x[row * width + i] - mean, 2) / width;
    rstd[row] = 1 / std::sqrt(square + node.attributes.epsilon);
    if (centred) Values(node.outputs[1])[row] = mean;
    for (int64_t i = 0; i < width; ++i) {
      y[row * width + i] = (x[row * width + i] - mean) * rstd[row] * gamma[i] +
                           (centred ? Values(node.inputs[2])[i] : 0);
    }
  }
}

void Fp64Interpreter::LayerNormGrad(const Node& node, bool centred) {
  const int64_t width = Shape(node.inputs[0]).back();
  const double* dy = Values(node.inputs[0]);
  const double* x = Values(node.inputs[1]);
  const double* gamma = Values(node.inputs[2]);
  const double* rstd = Values(node.inputs[centred ? 4 : 3]);
  double* dx = Values(node.outputs[0]);
  for (int64_t row = 0; row < Count(node.inputs[0]) / width; ++row) {
    const double mean = centred ? Values(node.inputs[3])[row] : 0;
    double sum = 0, dot = 0;
    for (int64_t i = 0; i < width; ++i) {
      const double g = dy[row * width + i] * gamma[i];
      sum += g / width;
      dot += g * (x[row * width + i] - mean) * rstd[row] / width;
    }
    for (int64_t i = 0; i < width; ++i) {
      const double normal = (x[row * width + i] - mean) * rstd[row];
      dx[row * width + i] =
          rstd[row] * (dy[row * width + i] * gamma[i] - (centred ? sum : 0) - normal * dot);
    }
  }
}

void Fp64Interpreter::LayerNormParameterGrad(const Node& node, bool centred) {
  const int64_t width = Shape(node.inputs[0]).back();
  const double* dy = Values(node.inputs[0]);
  const double* x = Values(node.inputs[1]);
  const double* rstd = Values(node.inputs[centred ? 3 : 2]);
  for (int64_t i = 0; i < Count(node.inputs[0]); ++i) {
    const double mean = centred ? Values(node.inputs[2])[i / width] : 0;
    Values(node.outputs[0])[i % width] += dy[i] * (x[i] - mean) * rstd[i / width];
    if (centred) Values(node.outputs[1])[i % width] += dy[i];
  }
}

void Fp64Interpreter::CrossEntropy(const Node& node) {
  const int64_t columns = Shape(node.inputs[0]).back();
  const double* logits = Values(node.inputs[0]);
  const double* targets = Values(node.inputs[1]);
  for (int64_t row = 0; row < Count(node.inputs[1]); ++row) {
    double sum = 0;
    for (int64_t column = 0; column < node.attributes.valid_columns; ++column) {
      sum += std::exp(logits[row * columns + column]);
    }
    Values(node.outputs[1])[row] = std::log(sum);
    Values(node.outputs[0])[row] =
        std::log(sum) - logits[row * columns + static_cast<int64_t>(targets[row])];
  }
}

}  // namespace tideline
