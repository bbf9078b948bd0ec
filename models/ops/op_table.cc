#include "models/ops/op_table.h"

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "models/ops/equation.h"
#include "models/ops/op_info.h"

namespace tideline {
namespace {

// Letters for '*', in the order they are taken; those an op names itself are skipped.
constexpr std::string_view kLeadingLetters = "bsadgrijlmqu";

// How many dimensions '*' stands for: read off the first input that has one.
StatusOr<int> LeadingRank(const OpInfo& info, const std::vector<int>& ranks) {
  for (size_t input = 0; input < ranks.size(); ++input) {
    const std::string& letters = info.inputs[input].letters;
    if (letters.empty() || letters[0] != '*') continue;
    const int leading = ranks[input] - static_cast<int>(letters.size()) + 1;
    if (leading < 0 || leading > 8) {
      return InputError(absl::StrCat(info.name, ": operand ", info.inputs[input].name, " has ",
                                     ranks[input], " dimensions; it needs ", letters.size() - 1,
                                     " to ", letters.size() + 7));
    }
    return leading;
  }
  return 0;
}

std::string Expand(const std::string& letters, const std::string& leading) {
  if (letters == ".") return "";
  if (letters.empty() || letters[0] != '*') return letters;
  return leading + letters.substr(1);
}

std::string TakeLeading(const OpInfo& info, int count) {
  std::string taken;
  for (const auto* operands : {&info.inputs, &info.outputs}) {
    for (const OperandInfo& operand : *operands) taken += operand.letters;
  }
  std::string leading;
  for (char letter : kLeadingLetters) {
    if (static_cast<int>(leading.size()) == count) break;
    if (taken.find(letter) == std::string::npos) leading += letter;
  }
  TL_CHECK(static_cast<int>(leading.size()) == count, "there are letters for 8 dimensions");
  return leading;
}

StatusOr<IndexDescription> DescribeEquation(Op op, const std::string& equation, size_t inputs) {
  IndexDescription description;
  if (op == Op::kReduceRows) {
    TL_ASSIGN_OR_RETURN(RowReduction reduction, ParseReduction(equation));
    description.inputs = {reduction.input};
    description.outputs = {reduction.output};
    return description;
  }
  TL_ASSIGN_OR_RETURN(Equation parsed, ParseEquation(equation));
  description.inputs = {parsed.a, parsed.b};
  if (parsed.has_bias) description.inputs.push_back(parsed.bias);
  description.outputs = {parsed.c};
  if (description.inputs.size() != inputs) {
    return InputError(absl::StrCat("einsum: equation '", equation, "' has ",
                                   description.inputs.size(), " operands, the op has ", inputs));
  }
  return description;
}

}  // namespace

std::string_view Name(Op op) { return InfoOf(op).name; }

std::string_view InputName(Op op, int input) { return InfoOf(op).inputs.at(input).name; }

std::string_view OutputName(Op op, int output) { return InfoOf(op).outputs.at(output).name; }

Access OutputAccess(Op op, const Attributes& attributes, int output) {
  switch (InfoOf(op).outputs.at(output).kind) {
    case ElementKind::kModified:
      return Access::kReadWrite;
    case ElementKind::kAccumulator:
      return attributes.accumulate ? Access::kReadWrite : Access::kWrite;
    default:
      return Access::kWrite;
  }
}

StatusOr<IndexDescription> Describe(Op op, const Attributes& attributes,
                                    const std::vector<int>& input_ranks) {
  const OpInfo& info = InfoOf(op);
  size_t least = 0;
  for (const OperandInfo& input : info.inputs) least += input.optional ? 0 : 1;
  if (input_ranks.size() < least || input_ranks.size() > info.inputs.size()) {
    return InputError(absl::StrCat(info.name, ": ", input_ranks.size(), " inputs given, it takes ",
                                   least, least == info.inputs.size() ? "" : " or one more"));
  }
  IndexDescription description;
  if (op == Op::kEinsum || op == Op::kReduceRows) {
    TL_ASSIGN_OR_RETURN(description, DescribeEquation(op, attributes.equation, input_ranks.size()));
  } else {
    TL_ASSIGN_OR_RETURN(const int leading_rank, LeadingRank(info, input_ranks));
    const std::string leading = TakeLeading(info, leading_rank);
    for (size_t input = 0; input < input_ranks.size(); ++input) {
      description.inputs.push_back(Expand(info.inputs[input].letters, leading));
    }
    for (const OperandInfo& output : info.outputs) {
      description.outputs.push_back(Expand(output.letters, leading));
    }
  }
  for (size_t input = 0; input < input_ranks.size(); ++input) {
    if (info.inputs[input].letters == ".") continue;
    const std::string& letters = description.inputs[input];
    if (static_cast<int>(letters.size()) == input_ranks[input]) continue;
    return InputError(absl::StrCat(info.name, ": operand ", info.inputs[input].name, " has ",
                                   input_ranks[input], " dimensions, its letters are '", letters,
                                   "'"));
  }
  description.whole = info.whole;
  if (op == Op::kConcat || op == Op::kSplit) {
    const std::string& letters = description.inputs[0];
    const size_t joined = static_cast<size_t>(attributes.dimension);
    if (attributes.dimension < 0 || joined >= letters.size()) {
      return InputError(absl::StrCat(info.name, ": dimension ", attributes.dimension,
                                     " is none of the ", letters.size(), " of its operands"));
    }
    description.whole = letters.substr(joined, 1);
  }
  description.positional = info.positional;
  description.gathered = info.gathered;
  return description;
}

}  // namespace tideline
