// State slices: what goes from where to where when a training state moves from one layout to
// another, be it from the files of a checkpoint into the ranks of a plan, or from the ranks of one
// plan to those of another.
//
// For each destination piece the source pieces of the same tensor are intersected with it
// (tensor_region.h); the rest is arithmetic. Where several sources hold an element, the one on the
// same rank is taken, else the one that has given the fewest bytes so far. Only primary pieces are
// sources; a destination of a narrower type gets the rounded element, as a cast would make it.
//
// Cost: O(source pieces of the tensor + slices x log) per destination piece. Finding slices for
// different ranks at once needs a finder per thread.
#ifndef TIDELINE_PLANNER_PROGRAM_STATE_SLICES_H_
#define TIDELINE_PLANNER_PROGRAM_STATE_SLICES_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "planner/program/state_map.h"

namespace tideline {

// Elements that lie one after the other at both ends.
struct StateSlice {
  uint32_t tensor = 0;  // of the destination's state
  int32_t source_rank = 0, destination_rank = 0;
  uint32_t source_buffer = 0, destination_buffer = 0;
  int64_t source_offset = 0, destination_offset = 0;  // bytes
  int64_t elements = 0;
  DType source_dtype = DType::kF32, destination_dtype = DType::kF32;

  int64_t source_bytes() const { return elements * SizeOf(source_dtype); }
  int64_t destination_bytes() const { return elements * SizeOf(destination_dtype); }
  bool operator==(const StateSlice&) const = default;
};

class SliceFinder {
 public:
  // Keeps a reference to `from`.
  explicit SliceFinder(const ProgramState& from);

  // Everything that fills the pieces of one rank, in the order of its pieces and within one in that
  // of its bytes. Errors (exit 5), naming the tensor: `from` lacks it, has it in another shape, or
  // lacks elements of it.
  StatusOr<std::vector<StateSlice>> Fill(const ProgramState& to, int32_t rank);

 private:
  struct Holder {
    int32_t rank = 0;
    const StatePiece* piece = nullptr;
  };
  // Equal pieces of several ranks.
  struct Replicas {
    TensorRegion region;
    std::vector<Holder> holders;
  };

  StatusOr<uint32_t> SourceOf(const StateTensor& tensor) const;
  Status FillPiece(const StatePiece& piece, const StateTensor& tensor, int32_t rank,
                   std::vector<StateSlice>& slices);
  Holder Choose(const Replicas& replicas, int32_t rank) const;

  const ProgramState& from_;
  std::map<std::pair<std::string, StateKind>, uint32_t> tensors_;
  std::vector<std::vector<Replicas>> replicas_;  // by tensor of `from`
  std::vector<int64_t> given_;                   // bytes, by rank of `from`
};

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PROGRAM_STATE_SLICES_H_
