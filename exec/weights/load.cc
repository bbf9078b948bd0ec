#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "exec/comm/element.h"
#include "exec/weights/weights.h"
#include "planner/program/init_boxes.h"

namespace tideline {
namespace {

float LoadStored(const char* bytes, int64_t index, StoredType type) {
  switch (type) {
    case StoredType::kF64: {
      double value;
      std::memcpy(&value, bytes + 8 * index, sizeof value);
      return static_cast<float>(value);
    }
    case StoredType::kF16:
      return LoadElement(bytes, index, DType::kF16);
    case StoredType::kBF16:
      return LoadElement(bytes, index, DType::kBF16);
    default:
      return LoadElement(bytes, index, DType::kF32);
  }
}

// The part that holds index `row` of dimension 0; null for padding.
const WeightPart* PartOf(const ParameterWeights& weights, int64_t row) {
  for (const WeightPart& part : weights.parts) {
    if (part.Holds(row)) return &part;
  }
  return nullptr;
}

// Whether the full tensor of a box, without padding, is what the map describes.
bool SameShape(const InitBox& box, const ParameterWeights& weights) {
  std::vector<int64_t> shape = box.full_shape;
  if (box.valid_rows > 0) shape[0] = box.valid_rows;
  return shape == weights.shape;
}

}  // namespace

StatusOr<WeightSource> WeightSource::Open(const std::string& path, const WeightMap& map,
                                          const Program& program) {
  WeightSource source;
  source.path_ = path;
  TL_ASSIGN_OR_RETURN(source.files_, TensorFiles::Open(path));
  for (const ParameterWeights& parameter : map.parameters) {
    source.parameters_.emplace(parameter.parameter, parameter);
  }
  TL_RETURN_IF_ERROR(source.CheckTensors());
  TL_RETURN_IF_ERROR(source.CheckProgram(program));
  TL_RETURN_IF_ERROR(source.files_.CheckChecksums());
  return source;
}

// The map was made from the same path, but by another process and a moment ago.
Status WeightSource::CheckTensors() const {
  for (const auto& [name, parameter] : parameters_) {
    for (const WeightPart& part : parameter.parts) {
      const StoredTensor* tensor = files_.Find(part.tensor);
      if (tensor != nullptr && tensor->shape == part.tensor_shape) continue;
      return InputError(absl::StrCat(path_, ": tensor ", Quoted(part.tensor), " for parameter ",
                                     Quoted(name),
                                     " is missing or of another shape; did the file change?"));
    }
  }
  return absl::OkStatus();
}

Status WeightSource::CheckProgram(const Program& program) const {
  for (const Kernel& kernel : program.kernels) {
    for (const InitBox& box : kernel.attributes.init) {
      const auto found = parameters_.find(box.parameter);
      if (found != parameters_.end() && SameShape(box, found->second)) continue;
      return InputError(absl::StrCat(
          path_, ": parameter ", Quoted(box.parameter), " of shape [",
          absl::StrJoin(box.full_shape, ", "), "] ",
          found == parameters_.end() ? "has no tensor there"
                                     : "has another shape there; name the model's own weights"));
    }
  }
  return absl::OkStatus();
}

std::string WeightSource::Summary() const {
  std::set<std::string> tensors;
  std::set<StoredType> cast;
  for (const auto& [name, parameter] : parameters_) {
    for (const WeightPart& part : parameter.parts) {
      tensors.insert(part.tensor);
      const StoredType type = files_.Find(part.tensor)->type;
      if (type != StoredType::kF32) cast.insert(type);
    }
  }
  std::vector<std::string> names;
  for (const StoredType type : cast) names.emplace_back(Name(type));
  return absl::StrCat(
      "weights: ", tensors.size(), " tensors from '", path_, "'",
      names.empty() ? std::string() : absl::StrCat(" (", JoinNames(names), " cast to fp32)"));
}

Status WeightReader::Load(const std::string& tensor) {
  const StoredTensor* wanted = source_.files_.Find(tensor);
  if (wanted == loaded_) return absl::OkStatus();
  loaded_ = nullptr;
  bytes_.resize(static_cast<size_t>(wanted->bytes));
  TL_RETURN_IF_ERROR(source_.files_.Read(*wanted, 0, bytes_));
  loaded_ = wanted;
  return absl::OkStatus();
}

Status WeightReader::Fill(const Attributes& attributes, const Coordinates& coordinates,
                          std::span<float> values) {
  std::fill(values.begin(), values.end(), 0.0f);
  std::vector<int64_t> at;
  Status status;
  for (const BoxPart& part :
       BoxParts(attributes, coordinates, static_cast<int64_t>(values.size()))) {
    const ParameterWeights& weights = source_.parameters_.find(part.box->parameter)->second;
    const size_t last = part.box->extent.size() - 1;
    EachLine(part.region, [&](const LineRun& run) {
      if (!status.ok()) return;
      LineCoordinates(part.region, run.line, at);
      at[last] += run.column;
      for (int64_t i = 0; i < run.count;) {
        const WeightPart* source = PartOf(weights, at[0]);
        // In one dimension every element is a row of its own.
        const int64_t count = last == 0 ? 1 : run.count;
        if (source != nullptr) {
          status = Load(source->tensor);
          if (!status.ok()) return;
          const int64_t index = source->ElementAt(at);
          const int64_t stride = source->strides[last];
          for (int64_t k = 0; k < count; ++k) {
            values[static_cast<size_t>(part.to + run.from + i + k)] =
                LoadStored(bytes_.data(), index + k * stride, loaded_->type);
          }
        }
        i += count;
        at[last] += count;
      }
    });
    TL_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

}  // namespace tideline
