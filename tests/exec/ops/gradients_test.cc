// The exact sum of squares: spans, shards, copies, 16-bit gradients, values that are no numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/square_sum.h"
#include "exec/comm/element.h"
#include "tests/exec/ops/op_harness.h"

namespace tideline {
namespace {

double ValueOf(const std::vector<float>& digits) {
  return SquareSum::Value(std::span<const float, SquareSum::kValues>(digits));
}

// The sum over `parts` blocks of the elements that count on the rank at `at`.
std::vector<float> Parts(const std::vector<float>& gradient, int64_t parts,
                         const Attributes& attributes, Coordinates at = {}) {
  OpRun run(Op::kSquareSumParts, attributes);
  run.Input({static_cast<int64_t>(gradient.size())}, gradient)
      .Output({parts, SquareSum::kValues})
      .At(at)
      .Run();
  return run.Floats(1);
}

std::vector<float> Total(const std::vector<float>& parts) {
  OpRun run(Op::kSquareSum);
  run.Input({static_cast<int64_t>(parts.size()) / SquareSum::kValues, SquareSum::kValues}, parts)
      .Output({SquareSum::kValues})
      .Run();
  return run.Floats(1);
}

// Squares below 2^24 * 2^-20: fp64 adds a few thousand of them exactly.
double NaiveSum(const std::vector<float>& values, size_t begin, size_t end) {
  double sum = 0;
  for (size_t i = begin; i < end; ++i) sum += double{values[i]} * values[i];
  return sum;
}
std::vector<float> Coarse(int64_t count, const std::string& stream) {
  std::vector<float> values = RandomFloats(count, stream);
  for (float& value : values) value = std::round(value * 1024) / 1024;
  return values;
}

TEST(SquareSum, AddsEveryElementWhateverTheBlocks) {
  for (const int64_t count : {1, 63, 64, 65, 4099, 20000}) {
    const auto values = Coarse(count, "gradient");
    Attributes attributes;
    attributes.norm_spans = {{.begin = 0, .end = count}};
    for (const int64_t parts : {1, 2, 5}) {
      EXPECT_EQ(ValueOf(Total(Parts(values, parts, attributes))),
                NaiveSum(values, 0, values.size()))
          << count << " in " << parts;
    }
  }
}

// Two spans of a bucket of 100: [10, 40) counts on every rank, [40, 90) on tp rank 0 only; the rest
// never. A dp rank holds 50 elements from 50 * dp on.
TEST(SquareSum, CountsSpansOfTheShardAndOneCopy) {
  const auto bucket = Coarse(100, "bucket");
  Attributes attributes;
  attributes.norm_spans = {{.begin = 10, .end = 40},
                           {.begin = 40, .end = 90, .copy = {0, {0, 0, 1}}}};
  attributes.element_offset.per_coordinate[0] = 50;
  const std::vector<float> halves[] = {{bucket.begin(), bucket.begin() + 50},
                                       {bucket.begin() + 50, bucket.end()}};
  const auto sum = [&](int32_t dp, int32_t tp) {
    return ValueOf(Total(Parts(halves[dp], 1, attributes, {dp, 0, tp})));
  };
  EXPECT_EQ(sum(0, 0), NaiveSum(bucket, 10, 50));
  EXPECT_EQ(sum(1, 0), NaiveSum(bucket, 50, 90));
  EXPECT_EQ(sum(0, 1), NaiveSum(bucket, 10, 40));
  EXPECT_EQ(sum(1, 1), 0.0);
}

TEST(SquareSum, GoesOnFromATotal) {
  const auto values = Coarse(1000, "gradient");
  Attributes attributes;
  attributes.norm_spans = {{.begin = 0, .end = 1000}};
  const auto parts = Parts(values, 3, attributes);
  Attributes accumulate;
  accumulate.accumulate = true;
  OpRun run(Op::kSquareSum, accumulate);
  run.Input({3, SquareSum::kValues}, parts).InOut({SquareSum::kValues}, Total(parts)).Run();
  EXPECT_EQ(ValueOf(run.Floats(1)), 2 * NaiveSum(values, 0, values.size()));
}

TEST(SquareSum, TellsWhatIsNoFiniteNumber) {
  Attributes attributes;
  attributes.norm_spans = {{.begin = 0, .end = 200}};
  for (const float odd : {INFINITY, -INFINITY, std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> values(300, 1.0f);
    values[137] = odd;
    EXPECT_TRUE(std::isinf(ValueOf(Total(Parts(values, 2, attributes)))));
    values[137] = 1.0f;
    values[250] = odd;  // outside every span: padding
    EXPECT_EQ(ValueOf(Total(Parts(values, 2, attributes))), 200.0);
  }
}

TEST(SquareSum, TakesSixteenBits) {
  Attributes attributes;
  attributes.norm_spans = {{.begin = 0, .end = 3}};
  const float values[] = {1.5f, -2.0f, 0.25f};  // in both formats: 2.25 + 4 + 0.0625
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    std::vector<uint16_t> bits;
    for (const float value : values) {
      bits.push_back(dtype == DType::kBF16 ? FloatToBF16(value) : FloatToF16(value));
    }
    OpRun run(Op::kSquareSumParts, attributes);
    run.Bits({3}, dtype, bits).Output({1, SquareSum::kValues}).Run();
    EXPECT_EQ(ValueOf(Total(run.Floats(1))), 6.3125);
  }
}

}  // namespace
}  // namespace tideline
