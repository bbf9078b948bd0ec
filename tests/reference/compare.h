// Comparison of gradients and parameters with the reference, tensor by tensor.
//
// The bar (issue: quality bars): max|delta| <= 1e-5 * max|g| per tensor. A tensor whose exact
// gradient is zero (separate key biases: softmax does not see a shift of all scores) has nothing to
// be relative to and is held to an absolute floor.
#ifndef TIDELINE_TESTS_REFERENCE_COMPARE_H_
#define TIDELINE_TESTS_REFERENCE_COMPARE_H_

#include <span>
#include <string>
#include <string_view>

namespace tideline::reference {

struct CompareOptions {
  double relative = 1e-5;  // of the largest magnitude in the expected tensor
  double floor = 1e-8;     // always allowed
};

struct TensorDifference {
  bool same_size = true;
  bool bitwise = true;        // every element has the same bits (fp32 view of the expected ones)
  bool finite = true;         // no NaN or infinity on either side
  double max_difference = 0;  // max |delta|
  double max_expected = 0;    // max |g|
  size_t worst = 0;           // element of max_difference
  bool within = true;         // the bar holds
};

// Expected against actual. The fp64 form compares an fp32 tensor with the twin's.
TensorDifference CompareTensors(std::span<const float> expected, std::span<const float> actual,
                                const CompareOptions& options = {});
TensorDifference CompareTensors(std::span<const double> expected, std::span<const float> actual,
                                const CompareOptions& options = {});

// "layers.0.mlp.up.weight: max|delta| 3.1e-05 at element 17 is above 1e-5 * max|g| = ...".
std::string Describe(std::string_view name, const TensorDifference& difference,
                     const CompareOptions& options = {});

}  // namespace tideline::reference

#endif  // TIDELINE_TESTS_REFERENCE_COMPARE_H_
