// OpCall: one op instance about to be launched: its kernel record, the addresses of its operands,
// and what differs from run to run.
#ifndef TIDELINE_EXEC_OPS_OP_CALL_H_
#define TIDELINE_EXEC_OPS_OP_CALL_H_

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "exec/device/launch.h"
#include "exec/device/table.h"
#include "models/ir/attributes.h"
#include "models/ir/graph.h"
#include "planner/program/program.h"

namespace tideline {

// Where a kernel is launched and with what. `operands` holds one address per operand of the kernel,
// in its order (inputs, then outputs); the memory is the device's.
struct LaunchContext {
  LaunchTarget target;
  std::span<void* const> operands;
  Coordinates coordinates{};             // of this rank
  int64_t step = 0;                      // training steps done before
  uint64_t seed = 0;                     // of initial values and of dropout
  std::span<const double> scalars = {};  // values of the registers that the kernel names
  int32_t layer = 0;                     // block of the model the op belongs to
  int64_t micro_batch = 0;               // the one this instance works on
};

class OpCall {
 public:
  OpCall(const Kernel& kernel, const LaunchContext& context) : kernel_(kernel), context_(context) {}

  const Attributes& attributes() const { return kernel_.attributes; }
  const LaunchTarget& target() const { return context_.target; }
  const LaunchContext& context() const { return context_; }
  int operand_count() const { return static_cast<int>(kernel_.operands.size()); }
  const std::vector<int64_t>& Shape(int operand) const { return kernel_.operands[operand].shape; }
  DType TypeOf(int operand) const { return kernel_.operands[operand].dtype; }
  int64_t Count(int operand) const { return Elements(Shape(operand)); }
  // The value of a register, or `otherwise` where the kernel names none.
  double Scalar(size_t index, double otherwise) const {
    return index < context_.scalars.size() ? context_.scalars[index] : otherwise;
  }
  int64_t At(const Affine& affine) const { return affine.At(context_.coordinates); }

  // Extent of the last dimension, and the product of all others.
  int64_t Columns(int operand) const { return Shape(operand).empty() ? 1 : Shape(operand).back(); }
  int64_t Rows(int operand) const {
    int64_t rows = 1;
    for (size_t d = 0; d + 1 < Shape(operand).size(); ++d) rows *= Shape(operand)[d];
    return rows;
  }

  template <typename T = float>
  In<T> Read(int operand) const {
    return In<T>(static_cast<const T*>(context_.operands[operand]), Count(operand));
  }
  template <typename T = float>
  Out<T> Write(int operand) const {
    return Out<T>(static_cast<T*>(context_.operands[operand]), Count(operand));
  }
  template <typename T = float>
  InOut<T> Update(int operand) const {
    return InOut<T>(static_cast<T*>(context_.operands[operand]), Count(operand));
  }

 private:
  const Kernel& kernel_;
  const LaunchContext& context_;
};

// The view of an output that either continues from what it holds or starts from zero.
template <typename T, typename Mode, bool kAccumulate>
using Sum = std::conditional_t<kAccumulate, InOut<T, Mode>, Out<T, Mode>>;

// Blocks for `count` independent elements.
inline int64_t BlocksFor(int64_t count) {
  constexpr int64_t kElementsPerBlock = 8192;
  return (count + kElementsPerBlock - 1) / kElementsPerBlock;
}

// A kernel of chains (Block::Chains) takes kChainsPerBlock of them in each block: on a GPU as many
// as it has threads, so that short rows still fill it; on the host more, which is kinder to caches.
#ifdef __CUDACC__
inline constexpr int64_t kChainsPerBlock = Block::kChainThreads;
#else
inline constexpr int64_t kChainsPerBlock = 256;
#endif
inline int64_t ChainBlocks(int64_t chains) {
  return (chains + kChainsPerBlock - 1) / kChainsPerBlock;
}
// The chains of one block among `chains`.
struct Chained {
  int64_t begin, end;
};
TIDELINE_HOST_DEVICE inline Chained ChainsOf(int64_t block, int64_t chains) {
  const int64_t begin = block * kChainsPerBlock;
  return {begin, chains - begin < kChainsPerBlock ? chains : begin + kChainsPerBlock};
}
TIDELINE_HOST_DEVICE inline Chained ChainsOf(const Block& block, int64_t chains) {
  return ChainsOf(block.index(), chains);
}

}  // namespace tideline

#endif  // TIDELINE_EXEC_OPS_OP_CALL_H_
