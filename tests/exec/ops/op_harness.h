// Runs one op kernel on vectors, and helps to compare it with loops in fp64 and with finite
// differences of such loops.
#ifndef TIDELINE_TESTS_EXEC_OPS_OP_HARNESS_H_
#define TIDELINE_TESTS_EXEC_OPS_OP_HARNESS_H_

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "exec/device/host_blas.h"
#include "exec/ops/registry.h"

namespace tideline {

using Shape = std::vector<int64_t>;
using Doubles = std::vector<double>;

// One op instance with its operands. Run() launches it twice, unchecked and with check=kernels, and
// expects: both accepted and without violation, equal bits, and at least 99 % of the declared bytes
// touched unless the registry lists a reason. Outputs are filled with NaN first, so that an element
// never written shows.
class OpRun {
 public:
  explicit OpRun(Op op, Attributes attributes = {});

  // Values of a 16-bit operand are rounded to it.
  OpRun& Input(Shape shape, const std::vector<float>& values, DType dtype = DType::kF32);
  OpRun& Ids(Shape shape, const std::vector<int32_t>& values);
  OpRun& Bits(Shape shape, DType dtype, const std::vector<uint16_t>& bits);
  OpRun& Output(Shape shape, DType dtype = DType::kF32);
  OpRun& InOut(Shape shape, const std::vector<float>& values, DType dtype = DType::kF32);
  OpRun& At(Coordinates coordinates);
  OpRun& Step(int64_t step);
  OpRun& Seed(uint64_t seed);
  OpRun& Blas(const HostBlas* blas);  // makes matrix products; null: exact
  OpRun& Layer(int32_t layer);
  OpRun& MicroBatch(int64_t micro_batch);

  // Precondition: all operands are there. Fatal test failures if a launch is refused.
  OpRun& Run();

  // Contents of an operand after Run(); those of a 16-bit one as values or as bits, ids as the bits
  // of floats.
  std::vector<float> Floats(int operand) const;
  std::vector<uint16_t> Halves(int operand) const;
  Doubles Values(int operand) const;

  const Kernel& kernel() const { return kernel_; }

 private:
  void Add(Shape shape, DType dtype, Access access, std::vector<uint8_t> bytes);

  Kernel kernel_;
  LaunchContext context_;
  const HostBlas* blas_ = nullptr;
  std::vector<std::vector<uint8_t>> before_, after_;
};

// The values that remain of `values` in `dtype`.
std::vector<float> Rounded(std::vector<float> values, DType dtype);

// Seeded values in [-1, 1), different for each `stream`.
std::vector<float> RandomFloats(int64_t count, std::string_view stream, float scale = 1.0f);
std::vector<int32_t> RandomIds(int64_t count, int64_t bound, std::string_view stream);
Doubles ToDoubles(const std::vector<float>& values);
int64_t Product(const Shape& shape);

// max |got - expected| <= tolerance * max(1, max |expected|); NaN fails.
void ExpectClose(const Doubles& got, const Doubles& expected, double tolerance,
                 std::string_view what);

// A function of one operand, all others fixed, in fp64.
using Function = std::function<Doubles(const Doubles&)>;

// Gradient of sum(weights * function(x)) at x by central differences, each element on its own; the
// step is 1e-6 and the error about 1e-9 for smooth functions of order 1.
Doubles DifferenceGradient(const Function& function, const Doubles& x, const Doubles& weights);

// The derivative of sum(weights * function(x)) along `direction`; for large x.
double DirectionalDifference(const Function& function, const Doubles& x, const Doubles& weights,
                             const Doubles& direction);

double Dot(const Doubles& a, const Doubles& b);

}  // namespace tideline

#endif  // TIDELINE_TESTS_EXEC_OPS_OP_HARNESS_H_
