// TensorRegion: a set of elements of a tensor that lie one after the other in some memory: a run of
// the row-major order of a box of the tensor. It is what a way of cutting tensors leaves on a rank:
// tensor parallelism gives the box, cutting flat buckets over replicas gives the run.
#ifndef TIDELINE_PLANNER_PROGRAM_TENSOR_REGION_H_
#define TIDELINE_PLANNER_PROGRAM_TENSOR_REGION_H_

#include <cstdint>
#include <vector>

namespace tideline {

// Elements [begin, end) of the box that has `extent[d]` elements from `first[d]` on in dimension d.
struct TensorRegion {
  std::vector<int64_t> first;
  std::vector<int64_t> extent;
  int64_t begin = 0, end = 0;

  int64_t count() const { return end - begin; }
  bool operator==(const TensorRegion&) const = default;
  auto operator<=>(const TensorRegion&) const = default;
};

// All of a tensor.
TensorRegion WholeTensor(const std::vector<int64_t>& shape);

// Line `line` of a box (all dimensions but the last), by the coordinate in each dimension of the
// full tensor of its first element: written to `coordinates`, which has as many.
void LineCoordinates(const TensorRegion& region, int64_t line, std::vector<int64_t>& coordinates);

// A run of elements within one line.
struct LineRun {
  int64_t line = 0;
  int64_t column = 0;  // in the box's last dimension
  int64_t count = 0;
  int64_t from = 0;  // elements of the region before it
};

// function(run) for each line that a region touches, in order.
template <typename Function>
void EachLine(const TensorRegion& region, Function function) {
  const int64_t columns = region.extent.back();
  for (int64_t position = region.begin; position < region.end;) {
    const int64_t column = position % columns;
    const int64_t left = region.end - position;
    const int64_t count = columns - column < left ? columns - column : left;
    function(LineRun{position / columns, column, count, position - region.begin});
    position += count;
  }
}

// Elements that two regions share and that lie one after the other in both; positions count
// elements of each region before the run.
struct CommonRun {
  int64_t left = 0, right = 0;
  int64_t count = 0;
  bool operator==(const CommonRun&) const = default;
};

// All that two regions of a tensor of `shape` share, in as few runs as there can be, in the order
// of both. Trailing dimensions that both boxes have whole count as one, so that two cuts of flat
// buckets share one run, not one per line: O(lines of the shared box in the rows that both runs
// touch).
std::vector<CommonRun> CommonRuns(const TensorRegion& left, const TensorRegion& right,
                                  const std::vector<int64_t>& shape);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_TENSOR_REGION_H_
