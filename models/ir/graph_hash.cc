// The canonical text of a graph and its SHA-256. Every field of every tensor and node is in it, one
// line each, numbers exact (floating point in hexadecimal), so equal hashes mean equal graphs.
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/sha256.h"
#include "models/ir/graph.h"

namespace tideline {
namespace {

class CanonicalText {
 public:
  template <typename T>
  CanonicalText& Add(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      absl::StrAppend(&text_, static_cast<int64_t>(value), " ");
    } else if constexpr (std::is_floating_point_v<T>) {
      absl::StrAppendFormat(&text_, "%a ", static_cast<double>(value));
    } else if constexpr (std::is_integral_v<T>) {
      absl::StrAppend(&text_, static_cast<int64_t>(value), " ");
    } else {
      // Length first, so that no content can imitate another field.
      const std::string_view content = value;
      absl::StrAppend(&text_, content.size(), ":", std::string(content), " ");
    }
    return *this;
  }
  template <typename T>
  CanonicalText& AddList(const std::vector<T>& values) {
    Add(values.size());
    for (const T& value : values) Add(value);
    return *this;
  }
  CanonicalText& Add(const Affine& affine) {
    Add(affine.base);
    for (int64_t coefficient : affine.per_coordinate) Add(coefficient);
    return *this;
  }
  void EndLine() { text_ += '\n'; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void AddAttributes(const Attributes& attributes, CanonicalText& text) {
  text.Add(attributes.equation).Add(attributes.accumulate).Add(attributes.causal);
  text.Add(attributes.inverse).Add(attributes.maximum).Add(attributes.dimension);
  text.Add(attributes.scale).Add(attributes.constant).Add(attributes.epsilon);
  text.Add(attributes.loss_scale).Add(attributes.valid_columns);
  text.Add(attributes.row_offset).Add(attributes.position_offset);
  const RotaryScaling& rotary = attributes.rotary;
  text.Add(rotary.theta).Add(rotary.factor).Add(rotary.low_frequency_factor);
  text.Add(rotary.high_frequency_factor).Add(rotary.original_positions);
  text.Add(attributes.init_stddev).Add(attributes.init.size());
  for (const InitBox& box : attributes.init) {
    text.Add(box.parameter).AddList(box.full_shape).AddList(box.extent).Add(box.valid_rows);
    for (const Affine& first : box.first) text.Add(first);
  }
  const AdamSettings& adam = attributes.adam;
  text.Add(adam.learning_rate).Add(adam.beta1).Add(adam.beta2).Add(adam.epsilon).Add(adam.decay);
  // Only where there is one: hashes of graphs that were written before schedules stay theirs.
  if (adam.schedule != RateSchedule::kConstant || adam.warmup_steps != 0) {
    text.Add(std::string_view("schedule")).Add(adam.schedule).Add(adam.warmup_steps);
    text.Add(adam.decay_steps).Add(adam.least_learning_rate);
  }
  text.Add(attributes.spans.size());
  for (const AdamSpan& span : attributes.spans) text.Add(span.begin).Add(span.end).Add(span.decay);
  text.Add(attributes.element_offset);
  // As above: only where they say something.
  const Affine zero;
  if (attributes.key_offset != zero || attributes.key_begin != zero || attributes.key_end != zero) {
    text.Add(std::string_view("keys")).Add(attributes.key_offset);
    text.Add(attributes.key_begin).Add(attributes.key_end);
  }
  const Dropout& dropout = attributes.dropout;
  if (dropout != Dropout()) {
    text.Add(std::string_view("dropout")).Add(dropout.rate).Add(dropout.site);
    text.Add(dropout.first_sample);
  }
  // Likewise.
  if (attributes.axis != Axis::kTensor) {
    text.Add(std::string_view("axis")).Add(attributes.axis);
  }
  if (attributes.window != SpatialWindow()) {
    const SpatialWindow& window = attributes.window;
    text.Add(std::string_view("window")).Add(window.height).Add(window.width);
    text.Add(window.stride).Add(window.padding);
  }
}

std::string Canonical(const Graph& graph) {
  CanonicalText text;
  text.Add(std::string_view("tideline graph 1")).Add(graph.name).Add(graph.blocks);
  text.Add(graph.sequence).Add(graph.loss).EndLine();
  for (const Tensor& tensor : graph.tensors) {
    text.Add(tensor.name).AddList(tensor.shape).Add(tensor.dtype).Add(tensor.role);
    text.Add(tensor.producer).Add(tensor.alias_of).Add(tensor.alias_offset).Add(tensor.batch_dim);
    text.AddList(tensor.cut_by).Add(tensor.layer).Add(tensor.tensor_parallel_dim);
    text.Add(tensor.valid_rows).Add(tensor.decay).Add(tensor.init_stddev).Add(tensor.init_value);
    text.Add(tensor.gradient_of).EndLine();
  }
  for (const Node& node : graph.nodes) {
    text.Add(node.name).Add(node.op);
    AddAttributes(node.attributes, text);
    text.AddList(node.inputs).AddList(node.outputs);
    text.Add(node.layer).Add(node.phase).Add(node.forward_node).EndLine();
  }
  return text.text();
}

}  // namespace

std::string GraphHash(const Graph& graph) { return Sha256Hex(Canonical(WithBatch(graph, 1))); }

}  // namespace tideline
