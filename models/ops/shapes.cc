// Shape and type rules, derived from the letters of the op table.
#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "models/ops/op_info.h"
#include "models/ops/op_table.h"
#include "models/ops/windows.h"

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
    case ElementKind::kWorkspace:
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

bool IsConvolution(Op op) {
  return op == Op::kConvolution || op == Op::kConvolutionGrad || op == Op::kConvolutionWeightGrad;
}

bool MovesWindows(Op op) {
  return IsConvolution(op) || op == Op::kMaxPool || op == Op::kMaxPoolGrad ||
         op == Op::kAveragePool || op == Op::kAveragePoolGrad;
}

bool NormsOverBatch(Op op) {
  return op == Op::kBatchMoments || op == Op::kBatchNorm || op == Op::kBatchNormTrack ||
         op == Op::kBatchNormSums || op == Op::kBatchNormParameterGrad || op == Op::kBatchNormGrad;
}

// The number of windows follows from the image and the window.
Status FixWindows(Op op, const Attributes& attributes, Extents& extents) {
  const OpInfo& info = InfoOf(op);
  const SpatialWindow& window = attributes.window;
  const bool convolution = IsConvolution(op);
  const int64_t sizes[] = {convolution ? extents.Of('r') : window.height,
                           convolution ? extents.Of('s') : window.width};
  // The gradient of a weight learns the size from its output.
  if (convolution && (sizes[0] == 0 || sizes[1] == 0)) return absl::OkStatus();
  const bool averages = op == Op::kAveragePool || op == Op::kAveragePoolGrad;
  if (sizes[0] < 1 || sizes[1] < 1 || window.stride < 1 || window.padding < 0 ||
      window.padding >= std::max(sizes[0], sizes[1]) || (averages && window.padding > 0)) {
    return InputError(absl::StrCat(info.name, ": a window of ", sizes[0], " x ", sizes[1],
                                   " with stride ", window.stride, " and padding ", window.padding,
                                   "; sizes and stride are at least 1, padding is below the ",
                                   averages ? "size and 0 in averages" : "size"));
  }
  constexpr char kImage[] = {'h', 'w'};
  constexpr char kWindows[] = {'p', 'q'};
  for (int side = 0; side < 2; ++side) {
    const int64_t extent = extents.Of(kImage[side]);
    const int64_t count = WindowsAlong(extent, sizes[side], window.stride, window.padding);
    if (count < 1) {
      return InputError(absl::StrCat(info.name, ": a window of ", sizes[side],
                                     " does not fit into ", extent, " elements with padding ",
                                     window.padding));
    }
    const int64_t known = extents.Of(kWindows[side]);
    if (known != 0 && known != count) {
      return InputError(absl::StrCat(info.name, ": ", known, " windows are given, but ", extent,
                                     " elements have ", count, " of size ", sizes[side],
                                     ", stride ", window.stride, " and padding ", window.padding));
    }
    extents.Fix(kWindows[side], count, "window");
  }
  return absl::OkStatus();
}

// An image is cut into patches without rest.
Status FixPatches(const Attributes& attributes, Extents& extents) {
  const SpatialWindow& window = attributes.window;
  const int64_t height = extents.Of('h');
  const int64_t width = extents.Of('w');
  if (window.height < 1 || window.width < 1 || height % window.height != 0 ||
      width % window.width != 0) {
    return InputError(absl::StrCat("patches: an image of ", height, " x ", width,
                                   " cannot be cut into patches of ", window.height, " x ",
                                   window.width, "; choose sizes that divide"));
  }
  const std::pair<char, int64_t> sizes[] = {{'s', height / window.height * (width / window.width)},
                                            {'k', extents.Of('c') * window.height * window.width}};
  for (const auto& [letter, size] : sizes) {
    const int64_t known = extents.Of(letter);
    if (known != 0 && known != size) {
      return InputError(absl::StrCat("patches: the other operand is ", known, " along '",
                                     std::string(1, letter), "', the image gives ", size));
    }
    extents.Fix(letter, size, "patches");
  }
  return absl::OkStatus();
}

StatusOr<Extents> UnifyInputs(Op op, const Attributes& attributes,
                              const IndexDescription& description,
                              const std::vector<OperandSpec>& inputs) {
  const OpInfo& info = InfoOf(op);
  Extents extents(info);
  TL_ASSIGN_OR_RETURN(const DType compute, ComputeType(info, inputs));
  // The two halves of kCrossEntropyPartial's result: the sum and the target's logit.
  if (op == Op::kCrossEntropyPartial || op == Op::kCrossEntropyFinish) {
    extents.Fix('p', 2, "partial");
  }
  // Mean, sum of squares and count, of as many parts as the batch has.
  if (NormsOverBatch(op)) extents.Fix('m', 3, "moments");
  if (op == Op::kBatchMoments) extents.Fix('g', 1, "moments");
  for (size_t input = 0; input < inputs.size(); ++input) {
    TL_RETURN_IF_ERROR(CheckType(info, info.inputs[input], inputs[input].dtype, compute));
    if (info.inputs[input].letters == "." || op == Op::kConcat) continue;
    TL_RETURN_IF_ERROR(
        extents.Unify(description.inputs[input], info.inputs[input].name, inputs[input].shape));
  }
  if (op == Op::kRotary && inputs[0].shape.back() % 2 != 0) {
    return InputError(absl::StrCat("rotary: operand x has head size ", inputs[0].shape.back(),
                                   "; it turns pairs, so the size must be even"));
  }
  if (MovesWindows(op) && extents.Of('h') > 0) {
    TL_RETURN_IF_ERROR(FixWindows(op, attributes, extents));
  }
  if (op == Op::kPatches) TL_RETURN_IF_ERROR(FixPatches(attributes, extents));
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

// kConcat, kSplit: all extents agree but those of `dimension`, which add up.
Status CheckJoined(Op op, const Attributes& attributes, const OperandSpec& a, const OperandSpec& b,
                   const OperandSpec& whole) {
  const size_t joined = static_cast<size_t>(attributes.dimension);
  bool fits = a.shape.size() == whole.shape.size() && b.shape.size() == whole.shape.size() &&
              a.dtype == whole.dtype && b.dtype == whole.dtype;
  for (size_t dimension = 0; fits && dimension < whole.shape.size(); ++dimension) {
    const int64_t left = a.shape[dimension];
    const int64_t right = b.shape[dimension];
    const int64_t both = whole.shape[dimension];
    fits = left >= 1 && right >= 1 &&
           (dimension == joined ? left + right == both : left == both && right == both);
  }
  if (fits) return absl::OkStatus();
  return InputError(absl::StrCat(InfoOf(op).name, ": a [", absl::StrJoin(a.shape, ","), "] and b [",
                                 absl::StrJoin(b.shape, ","), "] do not make y [",
                                 absl::StrJoin(whole.shape, ","), "] along dimension ",
                                 attributes.dimension));
}

StatusOr<std::vector<OperandSpec>> InferConcat(const Attributes& attributes, const OperandSpec& a,
                                               const OperandSpec& b) {
  OperandSpec whole = a;
  whole.access = Access::kWrite;
  if (a.shape.size() == b.shape.size()) {
    whole.shape[attributes.dimension] += b.shape[attributes.dimension];
  }
  TL_RETURN_IF_ERROR(CheckJoined(Op::kConcat, attributes, a, b, whole));
  return std::vector<OperandSpec>{whole};
}

// The workspace, when one is given, is the one the op needs.
Status CheckWorkspace(Op op, const Attributes& attributes, std::vector<OperandSpec> operands,
                      size_t outputs) {
  const OpInfo& info = InfoOf(op);
  if (info.outputs.empty() || info.outputs.back().kind != ElementKind::kWorkspace) {
    return absl::OkStatus();
  }
  std::optional<OperandSpec> given;
  if (outputs == info.outputs.size()) {
    given = operands.back();
    operands.pop_back();
  }
  const std::optional<OperandSpec> needed = WorkspaceOf(op, attributes, operands);
  if (needed.has_value() == given.has_value() && (!needed || needed->shape == given->shape)) {
    return absl::OkStatus();
  }
  return InputError(absl::StrCat(
      info.name, ": its workspace is ",
      needed ? absl::StrCat("[", absl::StrJoin(needed->shape, ","), "]") : "none", ", given is ",
      given ? absl::StrCat("[", absl::StrJoin(given->shape, ","), "]") : "none"));
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

std::optional<OperandSpec> WorkspaceOf(Op op, const Attributes& attributes,
                                       const std::vector<OperandSpec>& operands) {
  if (!IsConvolution(op)) return std::nullopt;
  std::vector<std::vector<int64_t>> shapes;
  for (const OperandSpec& operand : operands) shapes.push_back(operand.shape);
  std::vector<int64_t> shape = ConvolutionScratch(op, ConvolutionOf(op, attributes, shapes));
  if (shape.empty()) return std::nullopt;
  return OperandSpec{std::move(shape), DType::kF32, Access::kWrite};
}

StatusOr<std::vector<OperandSpec>> InferOutputs(Op op, const Attributes& attributes,
                                                const std::vector<OperandSpec>& inputs) {
  const OpInfo& info = InfoOf(op);
  TL_ASSIGN_OR_RETURN(const IndexDescription description, DescribeSpecs(op, attributes, inputs));
  TL_ASSIGN_OR_RETURN(const Extents extents, UnifyInputs(op, attributes, description, inputs));
  TL_ASSIGN_OR_RETURN(const DType compute, ComputeType(info, inputs));
  if (op == Op::kConcat) return InferConcat(attributes, inputs[0], inputs[1]);
  std::vector<OperandSpec> outputs;
  for (size_t output = 0; output < info.outputs.size(); ++output) {
    const OperandInfo& operand = info.outputs[output];
    if (operand.kind == ElementKind::kWorkspace) {
      std::vector<OperandSpec> operands = inputs;
      operands.insert(operands.end(), outputs.begin(), outputs.end());
      const std::optional<OperandSpec> workspace = WorkspaceOf(op, attributes, operands);
      if (workspace) outputs.push_back(*workspace);
      continue;
    }
    OperandSpec spec;
    spec.access = OutputAccess(op, attributes, static_cast<int>(output));
    const bool fp32 = operand.kind == ElementKind::kFloat32 ||
                      (operand.kind == ElementKind::kAccumulator && attributes.accumulate);
    spec.dtype = operand.kind == ElementKind::kIds ? DType::kI32 : fp32 ? DType::kF32 : compute;
    const std::string& letters = description.outputs[output];
    bool known = operand.letters != "." && !ChangesExtent(op) && op != Op::kSplit;
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
  TL_ASSIGN_OR_RETURN(Extents extents, UnifyInputs(op, attributes, description, inputs));
  TL_ASSIGN_OR_RETURN(const DType compute, ComputeType(info, inputs));
  size_t least = 0;
  for (const OperandInfo& output : info.outputs) least += output.optional ? 0 : 1;
  if (outputs.size() < least || outputs.size() > info.outputs.size()) {
    return InputError(absl::StrCat(info.name, ": ", outputs.size(), " outputs given, it has ",
                                   info.outputs.size()));
  }
  if (ChangesExtent(op)) return CheckResized(op, attributes, inputs[0], outputs[0]);
  if (op == Op::kConcat) return CheckJoined(op, attributes, inputs[0], inputs[1], outputs[0]);
  if (op == Op::kSplit) return CheckJoined(op, attributes, outputs[0], outputs[1], inputs[0]);
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
  if (MovesWindows(op) && extents.Of('h') > 0) {
    TL_RETURN_IF_ERROR(FixWindows(op, attributes, extents));
  }
  if (op == Op::kPatchesGrad) TL_RETURN_IF_ERROR(FixPatches(attributes, extents));
  std::vector<OperandSpec> operands = inputs;
  operands.insert(operands.end(), outputs.begin(), outputs.end());
  TL_RETURN_IF_ERROR(CheckWorkspace(op, attributes, std::move(operands), outputs.size()));
  return CheckUnlettered(op, inputs, outputs);
}

}  // namespace tideline
