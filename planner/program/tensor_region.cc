#include "planner/program/tensor_region.h"

#include <algorithm>

#include "base/check.h"

namespace tideline {
namespace {

int64_t Product(const std::vector<int64_t>& values) {
  int64_t product = 1;
  for (const int64_t value : values) product *= value;
  return product;
}

// Takes the last dimension into the one before it. Precondition: the box has it whole.
void MergeLast(TensorRegion& region, int64_t columns) {
  region.first.pop_back();
  region.extent.pop_back();
  region.first.back() *= columns;
  region.extent.back() *= columns;
}

// The position of an element of the full tensor in the box's row-major order.
int64_t PositionOf(const TensorRegion& region, const std::vector<int64_t>& coordinates) {
  int64_t position = 0;
  for (size_t d = 0; d < coordinates.size(); ++d) {
    position = position * region.extent[d] + coordinates[d] - region.first[d];
  }
  return position;
}

// Indices of dimension 0 that the run touches, of the full tensor: [first, second).
std::pair<int64_t, int64_t> RowsOf(const TensorRegion& region) {
  const int64_t row = Product(region.extent) / region.extent[0];
  return {region.first[0] + region.begin / row, region.first[0] + (region.end - 1) / row + 1};
}

// The next line of a box in row-major order; false after the last one.
bool NextLine(const std::vector<int64_t>& low, const std::vector<int64_t>& high,
              std::vector<int64_t>& at) {
  for (size_t d = at.size() - 1; d-- > 0;) {
    if (++at[d] < high[d]) return true;
    at[d] = low[d];
  }
  return false;
}

}  // namespace

TensorRegion WholeTensor(const std::vector<int64_t>& shape) {
  return {std::vector<int64_t>(shape.size(), 0), shape, 0, Product(shape)};
}

void LineCoordinates(const TensorRegion& region, int64_t line, std::vector<int64_t>& coordinates) {
  const std::vector<int64_t>& extent = region.extent;
  coordinates.resize(extent.size());
  coordinates.back() = region.first.back();
  for (size_t d = extent.size() - 1; d-- > 0;) {
    coordinates[d] = region.first[d] + line % extent[d];
    line /= extent[d];
  }
}

std::vector<CommonRun> CommonRuns(const TensorRegion& left_region, const TensorRegion& right_region,
                                  const std::vector<int64_t>& shape) {
  TL_CHECK(!shape.empty() && left_region.extent.size() == shape.size() &&
               right_region.extent.size() == shape.size(),
           "regions have the dimensions of their tensor");
  if (left_region.count() <= 0 || right_region.count() <= 0) return {};
  TensorRegion left = left_region, right = right_region;
  int64_t columns = shape.back();
  for (size_t d = shape.size() - 1; d > 0; --d) {
    if (left.extent.back() != columns || right.extent.back() != columns) break;
    MergeLast(left, columns);
    MergeLast(right, columns);
    columns *= shape[d - 1];
  }
  const size_t dimensions = left.extent.size();
  std::vector<int64_t> low(dimensions), high(dimensions);
  for (size_t d = 0; d < dimensions; ++d) {
    low[d] = std::max(left.first[d], right.first[d]);
    high[d] = std::min(left.first[d] + left.extent[d], right.first[d] + right.extent[d]);
  }
  const auto [left_first, left_last] = RowsOf(left);
  const auto [right_first, right_last] = RowsOf(right);
  low[0] = std::max({low[0], left_first, right_first});
  high[0] = std::min({high[0], left_last, right_last});
  for (size_t d = 0; d < dimensions; ++d) {
    if (low[d] >= high[d]) return {};
  }
  std::vector<CommonRun> runs;
  std::vector<int64_t> at = low;
  do {
    const int64_t in_left = PositionOf(left, at) - left.begin;
    const int64_t in_right = PositionOf(right, at) - right.begin;
    const int64_t begin = std::max({int64_t{0}, -in_left, -in_right});
    const int64_t end =
        std::min({high.back() - low.back(), left.count() - in_left, right.count() - in_right});
    if (begin >= end) continue;
    const CommonRun run{in_left + begin, in_right + begin, end - begin};
    const bool joins = !runs.empty() && runs.back().left + runs.back().count == run.left &&
                       runs.back().right + runs.back().count == run.right;
    if (joins) {
      runs.back().count += run.count;
    } else {
      runs.push_back(run);
    }
  } while (NextLine(low, high, at));
  return runs;
}

}  // namespace tideline
