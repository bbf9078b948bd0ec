// The rows of the op table, as text in op_info.cc and parsed here. Internal to models/ops; others
// use op_table.h.
#ifndef TIDELINE_MODELS_OPS_OP_INFO_H_
#define TIDELINE_MODELS_OPS_OP_INFO_H_

#include <string>
#include <vector>

#include "models/ir/attributes.h"

namespace tideline {

// What an operand's elements may be.
enum class ElementKind : char {
  kCompute = 'x',      // the op's floating type: equal for all operands so marked
  kIds = 'i',          // int32
  kFloat32 = 'f',      // statistics and losses
  kAny = 's',          // any type
  kAccumulator = 'g',  // output: any floating type; inout exactly when attributes.accumulate
  kModified = 'm',     // output: any floating type; always inout
  kWorkspace = 'w',    // output: scratch of the kernel, fp32
};

struct OperandInfo {
  std::string name;
  // One letter per dimension. A leading '*' stands for any number of leading dimensions, "=" for
  // the letters of the equation, "." for a shape that no letters describe.
  std::string letters;
  ElementKind kind = ElementKind::kCompute;
  bool optional = false;
};

struct OpInfo {
  std::string name;
  std::vector<OperandInfo> inputs, outputs;
  std::string whole, positional, gathered;  // as in IndexDescription
  bool between_ranks = false;               // lowered to a collective; no kernel, no work
};

// The row of `op`; built once, valid for the life of the process. Any thread.
const OpInfo& InfoOf(Op op);

}  // namespace tideline

#endif  // TIDELINE_MODELS_OPS_OP_INFO_H_
