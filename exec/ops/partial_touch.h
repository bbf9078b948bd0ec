// Why some kernels touch fewer bytes than they declare. Apart from the kernels, so that whoever
// prints a report need not link them.
#ifndef TIDELINE_EXEC_OPS_PARTIAL_TOUCH_H_
#define TIDELINE_EXEC_OPS_PARTIAL_TOUCH_H_

#include <string_view>

#include "models/ir/attributes.h"

namespace tideline {

// Why a run of this op may touch less than 99 % of the bytes it declares; empty when it may not.
std::string_view PartialTouchReason(Op op);

}  // namespace tideline

#endif  // TIDELINE_EXEC_OPS_PARTIAL_TOUCH_H_
