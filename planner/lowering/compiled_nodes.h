// The nodes of a stage, made ready to be written many times: kernels interned, operand ranges
// worked out. Writing one instance then only fills in buffers.
#ifndef TIDELINE_PLANNER_LOWERING_COMPILED_NODES_H_
#define TIDELINE_PLANNER_LOWERING_COMPILED_NODES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "planner/lowering/stage_context.h"

namespace tideline {

struct CompiledOperand {
  enum class Kind : uint8_t { kInstance, kParameter, kGradient, kState };
  Kind kind = Kind::kInstance;
  TensorId tensor = kNone;  // the storage; of gradients the gradient tensor
  int64_t offset = 0;       // bytes within the storage, or within the bucket
  int64_t bytes = 0;
  Access access = Access::kRead;
};

struct CompiledNode {
  Instruction overwrite;   // for gradients of parameters: the first contribution
  Instruction accumulate;  // and the later ones; equal to `overwrite` where none is written
  uint32_t operands_begin = 0, operands_end = 0;
};

struct CompiledNodes {
  std::vector<CompiledNode> nodes;  // by NodeId; empty for nodes of other stages
  std::vector<CompiledOperand> operands;

  std::span<const CompiledOperand> Operands(const CompiledNode& node) const {
    return {operands.data() + node.operands_begin, operands.data() + node.operands_end};
  }
};

// Without `dropping`, as an evaluation wants it, dropout keeps everything.
CompiledNodes CompileNodes(StageContext& context, bool dropping);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_LOWERING_COMPILED_NODES_H_
