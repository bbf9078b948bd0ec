// Where a rank keeps the parameters between steps: found in the Program's prologue, which fills
// every parameter by a kernel that says which elements of which full tensor it makes (InitBox), in
// place or through a temporary buffer that is then cast into the persistent one.
#ifndef TIDELINE_EXEC_WEIGHTS_PARAMETER_PARTS_H_
#define TIDELINE_EXEC_WEIGHTS_PARAMETER_PARTS_H_

#include <cstdint>
#include <vector>

#include "exec/ops/init_boxes.h"
#include "models/ir/dtype.h"
#include "planner/program/program.h"

namespace tideline {

// Elements of one parameter in a persistent buffer; part.to counts elements of the buffer.
struct StoredPart {
  uint32_t buffer = 0;
  DType dtype = DType::kF32;
  BoxPart part;
};

// All of them, the fp32 master where there is one beside a copy of lower precision. Refers into
// `program`. Precondition: the Program is verified and executable.
std::vector<StoredPart> ParameterParts(const Program& program, int32_t rank);

}  // namespace tideline

#endif  // TIDELINE_EXEC_WEIGHTS_PARAMETER_PARTS_H_
