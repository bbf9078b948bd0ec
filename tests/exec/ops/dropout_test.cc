// Dropout: how much is dropped, and that an element's fate hangs on its place in the global batch
// only.
#include "exec/ops/dropout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "tests/exec/ops/op_harness.h"

namespace tideline {
namespace {

Attributes Rate(float rate, int32_t site = 0) {
  Attributes attributes;
  attributes.dropout.rate = rate;
  attributes.dropout.site = site;
  return attributes;
}

// The factors that dropout applies to a tensor of this shape: what it makes of ones.
struct Where {
  int64_t step = 3;
  uint64_t seed = 5;
  int32_t layer = 2;
  int64_t micro_batch = 0;
  Coordinates coordinates{};
};
std::vector<float> Factors(const Attributes& attributes, const Shape& shape,
                           const Where& where = {}) {
  OpRun run(Op::kDropout, attributes);
  run.Input(shape, std::vector<float>(static_cast<size_t>(Product(shape)), 1.0f)).Output(shape);
  run.Step(where.step).Seed(where.seed).Layer(where.layer).MicroBatch(where.micro_batch);
  run.At(where.coordinates).Run();
  return run.Floats(1);
}

// Every element is dropped or scaled by 1/(1 - rate); of n elements about n (1 - rate) are kept:
// within 4.5 standard deviations sqrt(n rate (1 - rate)). So are those of every residue modulo 4,
// since four elements come from one block of random numbers.
TEST(Dropout, KeepsItsShareAndScalesIt) {
  for (const float rate : {0.1f, 0.5f, 0.9f}) {
    const Shape shape{4, 50, 401};
    const std::vector<float> factors = Factors(Rate(rate), shape);
    const float kept = 1.0f / (1.0f - rate);
    int64_t count[4] = {};
    for (size_t i = 0; i < factors.size(); ++i) {
      ASSERT_TRUE(factors[i] == 0.0f || factors[i] == kept) << i << ": " << factors[i];
      if (factors[i] != 0.0f) ++count[i % 401 % 4];
    }
    for (int64_t residue = 0; residue < 4; ++residue) {
      const double n = 4 * 50 * (residue == 0 ? 101 : 100);
      const double deviation = std::sqrt(n * rate * (1 - rate));
      EXPECT_NEAR(count[residue], n * (1 - rate), 4.5 * deviation) << rate << " " << residue;
    }
  }
}

TEST(Dropout, RateZeroChangesNothing) {
  const auto x = RandomFloats(3 * 5 * 7, "x");
  OpRun run(Op::kDropout);
  run.Input({3, 5, 7}, x).Output({3, 5, 7}).Run();
  EXPECT_EQ(run.Floats(1), x);
}

// Backward is the same op: the factor of each element is its derivative.
TEST(Dropout, ItsGradientIsItself) {
  const Shape shape{2, 3, 5};
  const auto x = RandomFloats(Product(shape), "x"), dy = RandomFloats(Product(shape), "dy");
  const Doubles factors = ToDoubles(Factors(Rate(0.4f), shape));
  const Function masked = [&](const Doubles& v) {
    Doubles y = v;
    for (size_t i = 0; i < y.size(); ++i) y[i] *= factors[i];
    return y;
  };
  OpRun forward(Op::kDropout, Rate(0.4f));
  forward.Input(shape, x).Output(shape).Step(3).Seed(5).Layer(2).Run();
  ExpectClose(forward.Values(1), masked(ToDoubles(x)), 1e-6, "dropout");
  OpRun backward(Op::kDropout, Rate(0.4f));
  backward.Input(shape, dy).Output(shape).Step(3).Seed(5).Layer(2).Run();
  ExpectClose(backward.Values(1), DifferenceGradient(masked, ToDoubles(x), ToDoubles(dy)), 1e-6,
              "dropout gradient");
}

TEST(Dropout, EverySeedStepLayerAndSiteHasItsOwnMask) {
  const Shape shape{1, 4, 64};
  std::set<std::vector<float>> masks;
  masks.insert(Factors(Rate(0.5f), shape));
  masks.insert(Factors(Rate(0.5f, 1), shape));
  masks.insert(Factors(Rate(0.5f), shape, {.step = 4}));
  masks.insert(Factors(Rate(0.5f), shape, {.seed = 6}));
  masks.insert(Factors(Rate(0.5f), shape, {.layer = 3}));
  masks.insert(Factors(Rate(0.5f), shape, {.micro_batch = 1}));
  EXPECT_EQ(masks.size(), 6u);
  EXPECT_EQ(Factors(Rate(0.5f), shape), Factors(Rate(0.5f), shape));
}

// Two replicas of two micro-batches of one sample see the four samples of one batch.
TEST(Dropout, MicroBatchesAndReplicasDropWhatOneBatchDrops) {
  const std::vector<float> whole = Factors(Rate(0.3f), {4, 5, 9});
  Attributes attributes = Rate(0.3f);
  attributes.dropout.first_sample.per_coordinate[static_cast<int>(Axis::kData)] = 2;
  for (int32_t replica = 0; replica < 2; ++replica) {
    for (int64_t micro_batch = 0; micro_batch < 2; ++micro_batch) {
      Where where{.micro_batch = micro_batch};
      where.coordinates[static_cast<int>(Axis::kData)] = replica;
      const std::vector<float> part = Factors(attributes, {1, 5, 9}, where);
      const auto from = whole.begin() + (2 * replica + micro_batch) * 45;
      EXPECT_TRUE(std::equal(part.begin(), part.end(), from)) << replica << " " << micro_batch;
    }
  }
}

// Rank 1 of 2 holds the second half of the sequence, or of the heads (of groups of 3).
TEST(Dropout, CutTensorsDropWhatWholeOnesDrop) {
  Attributes attributes = Rate(0.3f);
  attributes.position_offset.per_coordinate[static_cast<int>(Axis::kTensor)] = 4;
  attributes.row_offset.per_coordinate[static_cast<int>(Axis::kTensor)] = 2;
  Where second;
  second.coordinates[static_cast<int>(Axis::kTensor)] = 1;
  const std::vector<float> rows = Factors(Rate(0.3f), {1, 8, 7});
  const std::vector<float> half = Factors(attributes, {1, 4, 7}, second);
  EXPECT_TRUE(std::equal(half.begin(), half.end(), rows.begin() + 4 * 7));

  const std::vector<float> heads = Factors(Rate(0.3f), {1, 4, 3, 5, 5});
  attributes.position_offset = {};
  const std::vector<float> own = Factors(attributes, {1, 2, 3, 5, 5}, second);
  EXPECT_TRUE(std::equal(own.begin(), own.end(), heads.begin() + 2 * 3 * 25));
}

TEST(Dropout, RefusesRatesThatLeaveNothing) {
  for (const float rate : {-0.5f, 1.0f, NAN}) {
    Kernel kernel;
    kernel.op = Op::kDropout;
    kernel.attributes = Rate(rate);
    kernel.operands = {{{2, 3, 4}, DType::kF32, Access::kRead},
                       {{2, 3, 4}, DType::kF32, Access::kWrite}};
    EXPECT_FALSE(CheckSupported(kernel).ok()) << rate;
  }
}

}  // namespace
}  // namespace tideline
