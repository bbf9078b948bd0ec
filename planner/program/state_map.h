// The training state of a Program: which elements of which logical tensor lie where in the
// persistent buffers of each rank. Checkpoints, restoring under another plan, transitions between
// layouts and weights are written against it, so that none of them knows how a plan cuts tensors.
//
// A logical tensor is a parameter as the model has it (no padding, not cut), or one of its
// optimizer moments. It is found in the Program itself: the prologue fills every parameter by
// kernels that say which elements they make (attributes.init), in place or through a temporary
// buffer that is then cast into the persistent ones; AdamW's operands then say where the moments of
// the same elements lie. Of several copies of an element on a rank the widest type counts (the fp32
// master), narrower ones are its rounded copies. Everything else that is persistent must be padding
// (the prologue makes it 0, and it stays 0) or be written in a body before it is read: a Program
// that keeps anything else between steps is refused, so that no checkpoint can silently lack a part
// of the state.
//
// Cost: O(pieces log pieces) per rank, and O(accesses to persistent buffers) per role.
#ifndef TIDELINE_PLANNER_PROGRAM_STATE_MAP_H_
#define TIDELINE_PLANNER_PROGRAM_STATE_MAP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "models/ir/dtype.h"
#include "planner/program/program.h"
#include "planner/program/tensor_region.h"

namespace tideline {

enum class StateKind : uint8_t { kParameter, kMomentum, kVariance };
inline constexpr StateKind kLastStateKind = StateKind::kVariance;
std::string_view Name(StateKind kind);  // "parameter", "momentum", "variance"

struct StateTensor {
  std::string name;  // of the parameter
  StateKind kind = StateKind::kParameter;
  std::vector<int64_t> shape;  // without padding
  bool operator==(const StateTensor&) const = default;
};

// "momentum of `h.0.mlp.weight`", for messages.
std::string Describe(const StateTensor& tensor);

struct StatePiece {
  uint32_t tensor = 0;  // into ProgramState::tensors
  TensorRegion region;
  DType dtype = DType::kF32;
  uint32_t buffer = 0;
  int64_t offset = 0;   // bytes
  bool primary = true;  // false: a copy of the primary element, rounded into `dtype`

  int64_t bytes() const { return region.count() * SizeOf(dtype); }
};

struct ZeroRange {
  uint32_t buffer = 0;
  int64_t begin = 0, end = 0;  // bytes
};

struct RankState {
  std::vector<StatePiece> pieces;  // no two share bytes
  std::vector<ZeroRange> zeros;    // padding
};

struct ProgramState {
  std::vector<StateTensor> tensors;
  std::vector<RankState> ranks;
};

// Precondition: the Program is verified. Errors: an internal error that names role and buffer of
// what is kept between steps and belongs to no tensor.
StatusOr<ProgramState> MapState(const Program& program);

// For each rank the pieces that it is to save, such that every element of the state is saved once:
// of ranks that hold equal pieces the one that has the fewest bytes so far. Errors (internal): some
// element is held by no rank or in less than fp32, or pieces of ranks overlap without being equal.
StatusOr<std::vector<std::vector<StatePiece>>> EachElementOnce(const ProgramState& state);

// OK when the regions together have every element of a tensor of this shape exactly once; else an
// error that says which element is there twice or not at all.
Status CheckTiles(const std::vector<int64_t>& shape, const std::vector<TensorRegion>& regions);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_STATE_MAP_H_
