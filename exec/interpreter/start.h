// Start: what a run begins from: a checkpoint, weights, or nothing; and what its own checkpoints
// will hold.
#ifndef TIDELINE_EXEC_INTERPRETER_START_H_
#define TIDELINE_EXEC_INTERPRETER_START_H_

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "exec/data/sample_source.h"
#include "exec/interpreter/interpreter.h"
#include "exec/memory/checkpoint.h"
#include "exec/memory/restore.h"
#include "exec/weights/weights.h"
#include "planner/program/program.h"
#include "planner/program/state_map.h"

namespace tideline {

struct Start {
  std::optional<CheckpointFolder> folder;
  std::optional<CheckpointFolder::Found> found;
  std::optional<StateRestorer> restorer;  // of `found`
  std::optional<WeightSource> weights;
  // With a checkpoint folder: what each rank saves, and the manifest without step and losses.
  std::vector<std::vector<StatePiece>> saved;
  CheckpointManifest manifest;
  std::vector<std::string> notes;
};

// Opens and checks all that is to be read; writes nothing but an empty folder and its lock, and in
// a dry run not even that. Errors: exit 2 for options that do not go together, exit 5 for what
// cannot be used.
StatusOr<Start> FindStart(const Program& program, const SampleSource& samples,
                          const ExecuteOptions& options);

}  // namespace tideline

#endif  // TIDELINE_EXEC_INTERPRETER_START_H_
