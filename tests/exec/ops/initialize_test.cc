// Initial values: the numbers of the stream, whatever part of a parameter a rank holds.
#include <gtest/gtest.h>

#include "base/rng.h"
#include "tests/exec/ops/op_harness.h"

namespace tideline {
namespace {

InitBox Whole(const std::string& parameter, const Shape& shape) {
  InitBox box;
  box.parameter = parameter;
  box.full_shape = shape;
  box.extent = shape;
  box.first.resize(shape.size());
  return box;
}

TEST(InitNormal, TakesEachElementFromItsStream) {
  for (const Shape& shape : {Shape{1}, Shape{5, 7}, Shape{2, 3, 37}, Shape{4099}}) {
    Attributes attributes;
    attributes.init_stddev = 0.02f;
    attributes.init = {Whole("w", shape)};
    OpRun run(Op::kInitNormal, attributes);
    run.Output(shape).Seed(9).Run();
    const auto values = run.Floats(0);
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], 0.02f * NormalAt(9, "w", i));
    }
  }
}

// Columns 3..5 of rank 1 of a [4, 6] parameter with 3 valid rows, then a whole [2] vector, then one
// element of alignment.
TEST(InitNormal, BoxesPaddingAndRest) {
  InitBox columns = Whole("w", {4, 6});
  columns.extent = {4, 3};
  columns.first[1].per_coordinate[static_cast<int>(Axis::kTensor)] = 3;
  columns.valid_rows = 3;
  InitBox vector = Whole("v", {2});
  vector.valid_rows = 1;
  Attributes attributes;
  attributes.init_stddev = 1.0f;
  attributes.init = {columns, vector};
  OpRun run(Op::kInitNormal, attributes);
  run.Output({15}).At({0, 0, 1}).Run();
  std::vector<float> expected;
  for (int64_t row = 0; row < 4; ++row) {
    for (int64_t column = 3; column < 6; ++column) {
      expected.push_back(row < 3 ? NormalAt(0, "w", row * 6 + column) : 0.0f);
    }
  }
  expected.push_back(NormalAt(0, "v", 0));
  expected.push_back(0.0f);
  expected.push_back(0.0f);
  EXPECT_EQ(run.Floats(0), expected);
}

// Shards of a bucket of two parameters, cut in the middle of rows.
TEST(InitNormal, ShardsOfABucketHaveItsNumbers) {
  Attributes attributes;
  attributes.init_stddev = 0.5f;
  attributes.init = {Whole("a", {3, 5}), Whole("b", {4, 2})};
  OpRun whole(Op::kInitNormal, attributes);
  whole.Output({23}).Run();
  attributes.element_offset.per_coordinate[static_cast<int>(Axis::kData)] = 8;
  for (int32_t rank = 0; rank < 3; ++rank) {
    OpRun shard(Op::kInitNormal, attributes);
    shard.Output({8}).At({rank, 0, 0}).Run();
    for (int64_t i = 0; i < 8; ++i) {
      const int64_t element = rank * 8 + i;
      EXPECT_EQ(shard.Floats(0)[i], element < 23 ? whole.Floats(0)[element] : 0.0f) << element;
    }
  }
}

TEST(Fill, ConstantWithAndWithoutBoxes) {
  Attributes attributes;
  attributes.constant = 1.5f;
  OpRun plain(Op::kFill, attributes);
  plain.Output({3, 4099}).Run();
  EXPECT_EQ(plain.Floats(0), std::vector<float>(3 * 4099, 1.5f));
  InitBox box = Whole("g", {3, 2});
  box.valid_rows = 2;
  attributes.init = {box};
  OpRun boxed(Op::kFill, attributes);
  boxed.Output({7}).Run();
  EXPECT_EQ(boxed.Floats(0), (std::vector<float>{1.5f, 1.5f, 1.5f, 1.5f, 0, 0, 0}));
}

}  // namespace
}  // namespace tideline
