// Init boxes in numbers of one rank: which elements of which full tensor lie where in a buffer that
// a kernel with attributes.init fills (models/ir/attributes.h). The initial values are made from
// it, weights are loaded and saved by it.
#ifndef TIDELINE_EXEC_OPS_INIT_BOXES_H_
#define TIDELINE_EXEC_OPS_INIT_BOXES_H_

#include <cstdint>
#include <vector>

#include "models/ir/attributes.h"
#include "planner/program/program.h"

namespace tideline {

// Elements [begin, end) of the row-major run of one box; they lie in the buffer from element `to`
// on.
struct BoxPart {
  const InitBox* box = nullptr;
  std::vector<int64_t> first;  // of the box in the full tensor, by dimension
  int64_t begin = 0, end = 0;
  int64_t to = 0;
};

// Line `line` of a box (all dimensions but the last), by the coordinate in each dimension of the
// full tensor of its first element: written to `coordinates`, which has as many.
void LineCoordinates(const BoxPart& part, int64_t line, std::vector<int64_t>& coordinates);

// A run of elements within one line.
struct LineRun {
  int64_t line = 0;
  int64_t column = 0;  // in the box's last dimension
  int64_t count = 0;
  int64_t to = 0;  // element of the buffer
};

// function(run) for each line that a part touches, in order.
template <typename Function>
void EachLine(const BoxPart& part, Function function) {
  const int64_t columns = part.box->extent.back();
  for (int64_t position = part.begin; position < part.end;) {
    const int64_t column = position % columns;
    const int64_t left = part.end - position;
    const int64_t count = columns - column < left ? columns - column : left;
    function(LineRun{position / columns, column, count, part.to + position - part.begin});
    position += count;
  }
}

// The boxes as far as they fall into this rank's elements [element_offset, element_offset + count)
// of the bucket. `attributes` must outlive the result.
std::vector<BoxPart> BoxParts(const Attributes& attributes, const Coordinates& coordinates,
                              int64_t count);

}  // namespace tideline

#endif  // TIDELINE_EXEC_OPS_INIT_BOXES_H_
