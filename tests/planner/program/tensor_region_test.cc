#include "planner/program/tensor_region.h"

#include <map>
#include <random>
#include <set>

#include "gtest/gtest.h"

namespace tideline {
namespace {

// Index in the full tensor of every element of a region, in its order, one by one.
std::vector<int64_t> ElementsOf(const TensorRegion& region, const std::vector<int64_t>& shape) {
  std::vector<int64_t> elements;
  for (int64_t position = region.begin; position < region.end; ++position) {
    int64_t rest = position, index = 0, stride = 1;
    for (size_t d = shape.size(); d-- > 0;) {
      index += (region.first[d] + rest % region.extent[d]) * stride;
      rest /= region.extent[d];
      stride *= shape[d];
    }
    elements.push_back(index);
  }
  return elements;
}

TensorRegion RandomRegion(const std::vector<int64_t>& shape, std::mt19937& random) {
  const auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  TensorRegion region;
  int64_t elements = 1;
  for (const int64_t size : shape) {
    const int64_t extent = draw(0, 2) == 0 ? size : draw(1, size);
    region.extent.push_back(extent);
    region.first.push_back(draw(0, size - extent));
    elements *= extent;
  }
  region.begin = draw(0, 1) == 0 ? 0 : draw(0, elements - 1);
  region.end = draw(0, 1) == 0 ? elements : draw(region.begin, elements);
  return region;
}

TEST(TensorRegionTest, CommonRunsAreTheCommonElements) {
  std::mt19937 random(7);
  int64_t shared = 0;
  for (int trial = 0; trial < 4000; ++trial) {
    std::vector<int64_t> shape;
    const size_t dimensions = 1 + random() % 4;
    for (size_t d = 0; d < dimensions; ++d) shape.push_back(1 + random() % 5);
    const TensorRegion left = RandomRegion(shape, random), right = RandomRegion(shape, random);
    const std::vector<int64_t> in_left = ElementsOf(left, shape);
    std::map<int64_t, int64_t> right_place;
    for (const int64_t element : ElementsOf(right, shape)) {
      right_place.emplace(element, std::ssize(right_place));
    }
    std::vector<std::pair<int64_t, int64_t>> expected, actual;
    for (int64_t i = 0; i < std::ssize(in_left); ++i) {
      const auto found = right_place.find(in_left[i]);
      if (found != right_place.end()) expected.emplace_back(i, found->second);
    }
    const std::vector<CommonRun> runs = CommonRuns(left, right, shape);
    for (size_t i = 0; i < runs.size(); ++i) {
      for (int64_t k = 0; k < runs[i].count; ++k) {
        actual.emplace_back(runs[i].left + k, runs[i].right + k);
      }
      if (i == 0) continue;
      const CommonRun& before = runs[i - 1];
      EXPECT_FALSE(before.left + before.count == runs[i].left &&
                   before.right + before.count == runs[i].right)
          << "two runs that could be one";
    }
    EXPECT_EQ(actual, expected);
    shared += std::ssize(expected);
  }
  EXPECT_GT(shared, 5000);
}

// [6, 4] cut by columns against cut by a run over flat elements. The right half has columns 2 and 3
// of each row; elements 6..17 are the second half of row 1, rows 2 and 3, and half of row 4:
// (1,2) (1,3), (2,2) (2,3), (3,2) (3,3) are shared, at 2, 4, 6 of the half and at 0, 4, 8 of the
// run (element 1 * 4 + 2 = 6 is its first).
TEST(TensorRegionTest, ColumnsAgainstAFlatRun) {
  const TensorRegion half{{0, 2}, {6, 2}, 0, 12};
  const TensorRegion run{{0, 0}, {6, 4}, 6, 18};
  EXPECT_EQ(CommonRuns(half, run, {6, 4}),
            (std::vector<CommonRun>{{2, 0, 2}, {4, 4, 2}, {6, 8, 2}}));
}

TEST(TensorRegionTest, FlatRunsAreOneRunHoweverManyLines) {
  const std::vector<int64_t> shape{50257, 3, 768};
  TensorRegion left = WholeTensor(shape), right = WholeTensor(shape);
  left.begin = 1000001;
  right.end = 90000001;
  EXPECT_EQ(CommonRuns(left, right, shape), (std::vector<CommonRun>{{0, 1000001, 89000000}}));
}

TEST(TensorRegionTest, NothingInCommon) {
  EXPECT_TRUE(CommonRuns({{0, 0}, {2, 4}, 0, 8}, {{2, 0}, {2, 4}, 0, 8}, {4, 4}).empty());
  EXPECT_TRUE(CommonRuns({{0}, {4}, 0, 2}, {{0}, {4}, 2, 4}, {4}).empty());
  EXPECT_TRUE(CommonRuns({{0}, {4}, 2, 2}, {{0}, {4}, 0, 4}, {4}).empty());
}

}  // namespace
}  // namespace tideline
