#include "tests/exec/ops/op_harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/rng.h"
#include "exec/comm/element.h"
#include "exec/ops/partial_touch.h"
#include "models/ops/op_table.h"
#include "tests/exec/ops/immediate_device.h"

namespace tideline {
namespace {

template <typename T>
std::vector<uint8_t> ToBytes(const std::vector<T>& values) {
  std::vector<uint8_t> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> FromBytes(const std::vector<uint8_t>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<uint8_t> ToBytes(const std::vector<float>& values, DType dtype) {
  std::vector<uint8_t> bytes(values.size() * static_cast<size_t>(SizeOf(dtype)));
  for (size_t i = 0; i < values.size(); ++i) {
    StoreElement(bytes.data(), static_cast<int64_t>(i), dtype, values[i]);
  }
  return bytes;
}

class RecordingObserver : public TouchObserver {
 public:
  void OnTouched(const TouchReport& report) override {
    declared_bytes += report.declared_bytes;
    touched_bytes += report.touched_bytes;
  }
  int64_t declared_bytes = 0;
  int64_t touched_bytes = 0;
};

}  // namespace

OpRun::OpRun(Op op, Attributes attributes) {
  kernel_.op = op;
  kernel_.attributes = std::move(attributes);
}

void OpRun::Add(Shape shape, DType dtype, Access access, std::vector<uint8_t> bytes) {
  ASSERT_EQ(static_cast<int64_t>(bytes.size()), Product(shape) * SizeOf(dtype));
  kernel_.operands.push_back({std::move(shape), dtype, access});
  before_.push_back(std::move(bytes));
}

OpRun& OpRun::Input(Shape shape, const std::vector<float>& values, DType dtype) {
  Add(std::move(shape), dtype, Access::kRead, ToBytes(values, dtype));
  return *this;
}

OpRun& OpRun::Ids(Shape shape, const std::vector<int32_t>& values) {
  Add(std::move(shape), DType::kI32, Access::kRead, ToBytes(values));
  return *this;
}

OpRun& OpRun::Bits(Shape shape, DType dtype, const std::vector<uint16_t>& bits) {
  Add(std::move(shape), dtype, Access::kRead, ToBytes(bits));
  return *this;
}

OpRun& OpRun::Output(Shape shape, DType dtype) {
  const size_t bytes = static_cast<size_t>(Product(shape) * SizeOf(dtype));
  Add(std::move(shape), dtype, Access::kWrite, std::vector<uint8_t>(bytes, 0xff));  // NaN
  return *this;
}

OpRun& OpRun::InOut(Shape shape, const std::vector<float>& values, DType dtype) {
  Add(std::move(shape), dtype, Access::kReadWrite, ToBytes(values, dtype));
  return *this;
}

OpRun& OpRun::At(Coordinates coordinates) {
  context_.coordinates = coordinates;
  return *this;
}

OpRun& OpRun::Step(int64_t step) {
  context_.step = step;
  return *this;
}

OpRun& OpRun::Seed(uint64_t seed) {
  context_.seed = seed;
  return *this;
}

OpRun& OpRun::Blas(const HostBlas* blas) {
  blas_ = blas;
  return *this;
}

OpRun& OpRun::Layer(int32_t layer) {
  context_.layer = layer;
  return *this;
}

OpRun& OpRun::MicroBatch(int64_t micro_batch) {
  context_.micro_batch = micro_batch;
  return *this;
}

OpRun& OpRun::Run() {
  const std::string name(Name(kernel_.op));
  const Status supported = CheckSupported(kernel_);
  EXPECT_TRUE(supported.ok()) << supported;
  if (!supported.ok()) return *this;
  std::vector<std::vector<uint8_t>> unchecked;
  for (const CheckLevel check : {CheckLevel::kOrder, CheckLevel::kKernels}) {
    after_ = before_;
    std::vector<void*> addresses;
    for (std::vector<uint8_t>& operand : after_) addresses.push_back(operand.data());
    DeviceObject device{.status = {}, .blas = blas_};
    StreamObject stream{.device = &device, .ranges = {}, .names = {}};
    RecordingObserver observer;
    context_.target = {.stream = &stream, .tag = 7, .check = check, .observer = &observer};
    context_.operands = addresses;
    const Status launched = LaunchKernel(kernel_, context_);
    EXPECT_TRUE(launched.ok()) << name << ": " << launched;
    EXPECT_TRUE(device.status.ok()) << name << ": " << device.status;
    if (check == CheckLevel::kOrder) {
      unchecked = after_;
      continue;
    }
    EXPECT_EQ(unchecked, after_) << name << ": two runs differ in their bits";
    EXPECT_GT(observer.declared_bytes, 0) << name;
    if (PartialTouchReason(kernel_.op).empty()) {
      EXPECT_GE(static_cast<double>(observer.touched_bytes),
                0.99 * static_cast<double>(observer.declared_bytes))
          << name;
    }
  }
  return *this;
}

std::vector<float> OpRun::Floats(int operand) const {
  const OperandSpec& spec = kernel_.operands[operand];
  if (spec.dtype == DType::kI32) return FromBytes<float>(after_[operand]);
  std::vector<float> values(static_cast<size_t>(Product(spec.shape)));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = LoadElement(after_[operand].data(), static_cast<int64_t>(i), spec.dtype);
  }
  return values;
}

std::vector<uint16_t> OpRun::Halves(int operand) const {
  return FromBytes<uint16_t>(after_[operand]);
}

Doubles OpRun::Values(int operand) const { return ToDoubles(Floats(operand)); }

std::vector<float> Rounded(std::vector<float> values, DType dtype) {
  const std::vector<uint8_t> bytes = ToBytes(values, dtype);
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = LoadElement(bytes.data(), static_cast<int64_t>(i), dtype);
  }
  return values;
}

std::vector<float> RandomFloats(int64_t count, std::string_view stream, float scale) {
  Rng rng(1, stream);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = scale * static_cast<float>(rng.Uniform() * 2 - 1);
  return values;
}

std::vector<int32_t> RandomIds(int64_t count, int64_t bound, std::string_view stream) {
  Rng rng(1, stream);
  std::vector<int32_t> values(static_cast<size_t>(count));
  for (int32_t& value : values) {
    value = static_cast<int32_t>(rng.Below(static_cast<uint64_t>(bound)));
  }
  return values;
}

Doubles ToDoubles(const std::vector<float>& values) { return {values.begin(), values.end()}; }

int64_t Product(const Shape& shape) {
  int64_t product = 1;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

void ExpectClose(const Doubles& got, const Doubles& expected, double tolerance,
                 std::string_view what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double largest = 1, worst = 0;
  size_t where = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::fabs(expected[i]));
    const double error = std::fabs(got[i] - expected[i]);
    if (!(error <= worst)) {
      worst = error;
      where = i;
    }
    if (std::isnan(error)) break;
  }
  EXPECT_LE(worst, tolerance * largest)
      << what << ": element " << where << " is " << (got.empty() ? 0 : got[where]) << ", expected "
      << (got.empty() ? 0 : expected[where]);
}

double Dot(const Doubles& a, const Doubles& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) sum += a[i] * b[i];
  return sum;
}

Doubles DifferenceGradient(const Function& function, const Doubles& x, const Doubles& weights) {
  constexpr double kStep = 1e-6;
  Doubles gradient(x.size()), moved = x;
  for (size_t i = 0; i < x.size(); ++i) {
    moved[i] = x[i] + kStep;
    const double above = Dot(weights, function(moved));
    moved[i] = x[i] - kStep;
    const double below = Dot(weights, function(moved));
    moved[i] = x[i];
    gradient[i] = (above - below) / (2 * kStep);
  }
  return gradient;
}

double DirectionalDifference(const Function& function, const Doubles& x, const Doubles& weights,
                             const Doubles& direction) {
  constexpr double kStep = 1e-6;
  Doubles above = x, below = x;
  for (size_t i = 0; i < x.size(); ++i) {
    above[i] += kStep * direction[i];
    below[i] -= kStep * direction[i];
  }
  return (Dot(weights, function(above)) - Dot(weights, function(below))) / (2 * kStep);
}

}  // namespace tideline
