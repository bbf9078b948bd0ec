// Init boxes in numbers of one rank: which elements of which full tensor lie where in a buffer that
// a kernel with attributes.init fills (models/ir/attributes.h). The initial values are made from
// it, weights are loaded by it, and the map of the training state (state_map.h) begins with it.
#ifndef TIDELINE_PLANNER_PROGRAM_INIT_BOXES_H_
#define TIDELINE_PLANNER_PROGRAM_INIT_BOXES_H_

#include <cstdint>
#include <vector>

#include "models/ir/attributes.h"
#include "planner/program/program.h"
#include "planner/program/tensor_region.h"

namespace tideline {

// Elements of one box, padding included; they lie in the buffer from element `to` on.
struct BoxPart {
  const InitBox* box = nullptr;
  TensorRegion region;
  int64_t to = 0;
};

// The boxes as far as they fall into this rank's elements [element_offset, element_offset + count)
// of the bucket. `attributes` must outlive the result.
std::vector<BoxPart> BoxParts(const Attributes& attributes, const Coordinates& coordinates,
                              int64_t count);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_INIT_BOXES_H_
