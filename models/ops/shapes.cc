// Shape and type rules, derived from the letters of the op table.
#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/ops/op_info.h"
#include "models/ops/op_table.h"

namespace tideline {
namespace {

bool IsFloating(DType dtype) { return dtype != DType::kI32; }

// The extent of each letter, and the operand that fixed it.
class Extents {
 public:
  explicit Extents(const OpInfo& info) : info_(info) {}

  // Fixes the letters of one operand, or says which extent disagrees with whom.
  Status Unify(const std::string& letters, const std::string& operand,
               const std::vector<int64_t>& shape) {
    for (size_t dimension = 0; dimension < shape.size(); ++dimension) {
      if (shape[dimension] < 1) {
        return InputError(absl::StrCat(info_.name, ": operand ", operand, " [",
                                       absl::StrJoin(shape, ","), "] has an extent below 1"));
      }
      Extent& known = extents_[letters[dimension] - 'a'];
      if (known.value == 0) known = {shape[dimension], operand};
      if (known.value == shape[dimension]) continue;
      return InputError(absl::StrCat(info_.name, ": dimension ", dimension, " of operand ", operand,
                                     " [", absl::StrJoin(shape, ","), "] is ", shape[dimension],
                                     ", but letter '", std::string(1, letters[dimension]), "' is ",
                                     known.value, " in operand ", known.operand));
    }
    return absl::OkStatus();
  }

  // 0 while unknown.
  int64_t Of(char letter) const { return extents_[letter - 'a'].value; }

  void Fix(char letter, int64_t value, const std::string& source) {
    extents_[letter - 'a'] = {value, source};
  }

 private:
  struct Extent {
    int64_t value = 0;
    std::string operand;
  };
  const OpInfo& info_;
  std::array<Extent, 26> extents_;
};

StatusOr<IndexDescription> DescribeSpecs(Op op, const Attributes& attributes,
                                         const std::vector<OperandSpec>& inputs) {
  std::vector<int> ranks;
  for (const OperandSpec& input : inputs) ranks.push_back(static_cast<int>(input.shape.size()));
  return Describe(op, attributes, ranks);
}

Status WrongType(const OpInfo& info, const OperandInfo& operand, DType given,
                 const std::string& wanted) {
  return InputError(absl::StrCat(info.name, ": operand ", operand.name, " is ",
                                 std::string(Name(given)), ", it must be ", wanted));
}

Status CheckType(const OpInfo& info, const OperandInfo& operand, DType given, DType compute) {
  switch (operand.kind) {
    case ElementKind::kIds:
      if (given != DType::kI32) return WrongType(info, operand, given, "int32");
      break;
    case ElementKind::kFloat32:
      if (given != DType::kF32) return WrongType(info, operand, given, "fp32");
      break;
    case ElementKind::kCompute:
      if (given != compute) return WrongType(info, operand, given, std::string(Name(compute)));
      break;
    case ElementKind::kAccumulator:
    case ElementKind::kModified:
      if (!IsFloating(given)) return WrongType(info, operand, given, "a floating type");
      break;
    case ElementKind::kAny:
      break;
  }
  return absl::OkStatus();
}

// The type of the first input that is of the compute kind.
StatusOr<DType> ComputeType(const OpInfo& info, const std::vector<OperandSpec>& inputs) {
  for (size_t input = 0; input < inputs.size(); ++input) {
    if (info.inputs[input].kind != ElementKind::kCompute) continue;
    if (!IsFloating(inputs[input].dtype)) {
      return WrongType(info, info.inputs[input], inputs[input].dtype, "a floating type");
    }
    return inputs[input].dtype;
  }
  return inputs.empty() ? DType::kF32 : inputs[0].dtype;
}

StatusOr<Extents> UnifyInputs(Op op, const IndexDescription& description,
                              const std::vector<OperandSpec>& inputs) {
  const OpInfo& info = InfoOf(op);
  Extents extents(info);
  TL_ASSIGN_OR_RETURN(const DType compute, ComputeType(info, inputs));
  // The two halves of kCrossEntropyPartial's result: the sum and the target's logit.
  if (op == Op::kCrossEntropyPartial || op == Op::kCrossEntropyFinish) {
    extents.Fix('p', 2, "partial");
  }
  for (size_t input = 0; input < inputs.size(); ++input) {
    TL_RETURN_IF_ERROR(CheckType(info, info.inputs[input], inputs[input].dtype, compute));
    if (info.inputs[input].letters == ".") continue;
    TL_RETURN_IF_ERROR(
        extents.Unify(description.inputs[input], info.inputs[input].name, inputs[input].shape));
  }
  if (op == Op::kRotary && inputs[0].shape.back() % 2 != 0) {
    return InputError(absl::StrCat("rotary: operand x has head size ", inputs[0].shape.back(),
                                   "; it turns pairs, so the size must be even"));
  }
  return extents;
}

// The operands of output `position` when `count` are given: an optional output may be missing.
const OperandInfo& OutputInfo(const OpInfo& info, size_t position, size_t count) {
  size_t missing = info.outputs.size() - count;
  for (size_t output = 0, given = 0; output < info.outputs.size(); ++output) {
    if (info.outputs[output].optional && missing > 0) {
      --missing;
      continue;
    }
    if (given++ == position) return info.outputs[output];
  }
  return info.outputs.back();
}

bool ChangesExtent(Op op) {
  return op == Op::kAllGather || op == Op::kReduceScatter || op == Op::kSlice;
}

// kAllGather, kReduceScatter, kSlice: all extents agree but that of `dimension`, where one is a
// multiple of the other.
Status CheckResized(Op op, const Attributes& attributes, const OperandSpec& x,
                    const OperandSpec& y) {
  const OpInfo& info = InfoOf(op);
  const auto& larger = op == Op::kAllGather ? y : x;
  const auto& smaller = op == Op::kAllGather ? x : y;
  const size_t cut = static_cast<size_t>(attributes.dimension);
  bool fits = x.shape.size() == y.shape.size() && attributes.dimension >= 0 &&
              cut < x.shape.size() && x.dtype == y.dtype;
  for (size_t dimension = 0; fits && dimension < x.shape.size(); ++dimension) {
    const int64_t part = smaller.shape[dimension];
    fits = part >= 1 && (dimension == cut ? larger.shape[dimension] % part == 0
                                          : larger.shape[dimension] == part);
  }
  if (fits) return absl::OkStatus();
  return InputError(absl::StrCat(info.name, ": x [", absl::StrJoin(x.shape, ","), "] and y [",
                                 absl::StrJoin(y.shape, ","), "] must agree but for dimension ",
                                 attributes.dimension, ", where one is a multiple of the other"));
}

// kAdamW, kScale, kFill and the like: shapes without letters agree in their number of elements.
Status CheckUnlettered(Op op, const std::vector<OperandSpec>& inputs,
                       const std::vector<OperandSpec>& outputs) {
  if (op != Op::kAdamW) return absl::OkStatus();
  const auto elements = [](const OperandSpec& spec) {
    int64_t count = 1;
    for (int64_t extent : spec.shape) count *= extent;
    return count;
  };
  for (size_t output = 0; output < outputs.size(); ++output) {
    if (elements(outputs[output]) == elements(inputs[0])) continue;
    return InputError(absl::StrCat(
        "adamw: operand ", OutputInfo(InfoOf(op), output, outputs.size()).name, " has ",
        elements(outputs[output]), " elements, the gradient has ", elements(inputs[0])));
  }
  return absl::OkStatus();
}

}  // namespace

StatusOr<std::vector<OperandSpec>> InferOutputs(Op op, const Attributes& attributes,
                                                const std::vector<OperandSpec>& inputs) {
  const OpInfo& info = InfoOf(op);
  TL_ASSIGN_OR_RETURN(const IndexDescription description, DescribeSpecs(op, attributes, inputs));
  TL_ASSIGN_OR_RETURN(const Extents extents, UnifyInputs(op, description, inputs));
  TL_ASSIGN_OR_RETURN(const DType compute, ComputeType(info, inputs));
  std::vector<OperandSpec> outputs;
  for (size_t output = 0; output < info.outputs.size(); ++output) {
    const OperandInfo& operand = info.outputs[output];
    OperandSpec spec;
    spec.access = OutputAccess(op, attributes, static_cast<int>(output));
    const bool fp32 = operand.kind == ElementKind::kFloat32 ||
                      (operand.kind == ElementKind::kAccumulator && attributes.accumulate);
    spec.dtype = fp32 ? DType::kF32 : compute;
    const std::string& letters = description.outputs[output];
    bool known = operand.letters != "." && !ChangesExtent(op);
    for (char letter : letters) {
      known = known && extents.Of(letter) > 0;
      spec.shape.push_back(extents.Of(letter));
    }
    if (!known) {
      return InputError(absl::StrCat(info.name, ": the inputs do not determine the shape of ",
                                     operand.name, "; give the output too"));
    }
    outputs.push_back(std::move(spec));
  }
  return outputs;
}

Status CheckOperands(Op op, const Attributes& attributes, const std::vector<OperandSpec>& inputs,
                     const std::vector<OperandSpec>& outputs) {
  const OpInfo& info = InfoOf(op);
  TL_ASSIGN_OR_RETURN(const IndexDescription description, DescribeSpecs(op, attributes, inputs));
  TL_ASSIGN_OR_RETURN(Extents extents, UnifyInputs(op, description, inputs));
  TL_ASSIGN_OR_RETURN(const DType compute, ComputeType(info, inputs));
  size_t least = 0;
  for (const OperandInfo& output : info.outputs) least += output.optional ? 0 : 1;
  if (outputs.size() < least || outputs.size() > info.outputs.size()) {
    return InputError(absl::StrCat(info.name, ": ", outputs.size(), " outputs given, it has ",
                                   info.outputs.size()));
  }
  if (ChangesExtent(op)) return CheckResized(op, attributes, inputs[0], outputs[0]);
  for (size_t output = 0; output < outputs.size(); ++output) {
    const OperandInfo& operand = OutputInfo(info, output, outputs.size());
    TL_RETURN_IF_ERROR(CheckType(info, operand, outputs[output].dtype, compute));
    if (operand.letters == ".") continue;
    const std::string& letters = description.outputs[output];
    if (letters.size() != outputs[output].shape.size()) {
      return InputError(absl::StrCat(info.name, ": operand ", operand.name, " has ",
                                     outputs[output].shape.size(), " dimensions, its letters are '",
                                     letters, "'"));
    }
    TL_RETURN_IF_ERROR(extents.Unify(letters, operand.name, outputs[output].shape));
  }
  return CheckUnlettered(op, inputs, outputs);
}

}  // namespace tideline
