// The op kernels: one explicit table from Op to the function that launches it.
#ifndef TIDELINE_EXEC_OPS_REGISTRY_H_
#define TIDELINE_EXEC_OPS_REGISTRY_H_

#include "base/status.h"
#include "exec/ops/op_call.h"
#include "planner/program/program.h"

namespace tideline {

// Whether `kernel` can be launched: the op has a kernel, the operands are as many and of the shapes
// its op wants (models/ops/op_table.h), and there is code for their dtypes: floating operands may
// be fp32, bf16 or fp16, sums fp32 or of the type of what they sum. Call it for every kernel of a
// Program before the first launch; LaunchKernel trusts it. Errors: exit 5 for a malformed kernel,
// exit 6 for a dtype that has no kernel.
Status CheckSupported(const Kernel& kernel);

// Enqueues one op instance on context.target.stream. Precondition: CheckSupported(kernel) is ok,
// and each operand has the bytes of its shape. Errors: those of Enqueue; positions beyond the
// table.
Status LaunchKernel(const Kernel& kernel, const LaunchContext& context);

}  // namespace tideline

#endif  // TIDELINE_EXEC_OPS_REGISTRY_H_
