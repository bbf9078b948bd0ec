// Restoring: from the files of a checkpoint into the ranks of any plan of the same model.
//
// What each rank needs is found by logical tensors (planner/program/state_slices.h); it then reads
// just those bytes from the shards, through a staging memory of 1 MiB, casts where its copy is of a
// narrower type (as the cast of the prologue would), and puts them into place. Nothing is written
// before all ranks' needs are known to be met. Padding becomes 0. What is neither (gradients) stays
// undefined: every step writes it before it reads it.
//
//   TL_ASSIGN_OR_RETURN(const StateRestorer restorer, StateRestorer::Make(found, state));
//   TL_RETURN_IF_ERROR(restorer.Restore(rank, write));      // each rank's thread, in any process
#ifndef TIDELINE_EXEC_MEMORY_RESTORE_H_
#define TIDELINE_EXEC_MEMORY_RESTORE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "exec/memory/checkpoint.h"
#include "planner/program/state_map.h"
#include "planner/program/state_slices.h"

namespace tideline {

// Puts bytes at an offset of a persistent buffer of the rank.
using WriteState = std::function<Status(uint32_t buffer, int64_t offset, std::string_view bytes)>;

class StateRestorer {
 public:
  // Errors (exit 5), naming checkpoint and tensor: the state has a tensor that the checkpoint lacks
  // or has in another shape, or the other way round.
  static StatusOr<StateRestorer> Make(const CheckpointFolder::Found& found,
                                      const ProgramState& state);

  // Safe from several threads for different ranks. Errors: a file that changed since it was
  // checked (exit 5); those of `write`.
  Status Restore(int32_t rank, const WriteState& write) const;

 private:
  StateRestorer() = default;

  std::string path_;
  std::vector<StateTensor> tensors_;
  std::vector<std::string> files_;               // by source rank
  std::vector<std::vector<StateSlice>> slices_;  // by rank
  std::vector<std::vector<ZeroRange>> zeros_;    // by rank
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_MEMORY_RESTORE_H_
