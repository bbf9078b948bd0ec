#include "tests/reference/compare.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace tideline::reference {
namespace {

template <class Real>
TensorDifference Compare(std::span<const Real> expected, std::span<const float> actual,
                         const CompareOptions& options) {
  TensorDifference result;
  if (expected.size() != actual.size()) {
    result.same_size = result.bitwise = result.within = false;
    return result;
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    const auto wanted = static_cast<double>(expected[i]);
    const auto got = static_cast<double>(actual[i]);
    if (!std::isfinite(wanted) || !std::isfinite(got)) {
      result.finite = result.within = false;
      result.worst = i;
      return result;
    }
    if (std::bit_cast<uint32_t>(static_cast<float>(wanted)) != std::bit_cast<uint32_t>(actual[i])) {
      result.bitwise = false;
    }
    result.max_expected = std::max(result.max_expected, std::fabs(wanted));
    const double difference = std::fabs(wanted - got);
    if (difference > result.max_difference) {
      result.max_difference = difference;
      result.worst = i;
    }
  }
  result.within =
      result.max_difference <= std::max(options.relative * result.max_expected, options.floor);
  return result;
}

}  // namespace

TensorDifference CompareTensors(std::span<const float> expected, std::span<const float> actual,
                                const CompareOptions& options) {
  return Compare(expected, actual, options);
}

TensorDifference CompareTensors(std::span<const double> expected, std::span<const float> actual,
                                const CompareOptions& options) {
  return Compare(expected, actual, options);
}

std::string Describe(std::string_view name, const TensorDifference& difference,
                     const CompareOptions& options) {
  const std::string prefix = std::string(name) + ": ";
  if (!difference.same_size) return prefix + "the tensors differ in size";
  if (!difference.finite) {
    return prefix + "element " + std::to_string(difference.worst) + " is not finite";
  }
  if (difference.bitwise) return prefix + "equal bits";
  char text[200];
  std::snprintf(text, sizeof(text),
                "max|delta| %.3g at element %zu, max|g| %.3g: %s (bar %.3g relative, floor %.3g)",
                difference.max_difference, difference.worst, difference.max_expected,
                difference.within ? "within" : "beyond", options.relative, options.floor);
  return prefix + text;
}

}  // namespace tideline::reference
