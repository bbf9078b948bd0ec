#include "exec/interpreter/start.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

constexpr double kLockWaitSeconds = 10.0;

std::optional<AdamSettings> OptimizerOf(const Program& program) {
  for (const Kernel& kernel : program.kernels) {
    if (kernel.op == Op::kAdamW) return kernel.attributes.adam;
  }
  return std::nullopt;
}

// What a checkpoint of this run says and holds.
Status DescribeOwn(const Program& program, const SampleSource& samples,
                   const ExecuteOptions& options, const ProgramState& state, Start& start) {
  TL_ASSIGN_OR_RETURN(start.saved, EachElementOnce(state));
  CheckpointManifest& manifest = start.manifest;
  manifest.graph_hash = program.graph_hash;
  manifest.plan_hash = options.plan_hash;
  manifest.global_batch = program.global_batch;
  manifest.seed = program.seed;
  manifest.data_origin = samples.origin();
  manifest.data_hash = samples.hash();
  manifest.optimizer = OptimizerOf(program);
  manifest.tensors = state.tensors;
  for (const std::vector<StatePiece>& pieces : start.saved) {
    ShardRecord& shard = manifest.shards.emplace_back();
    for (const StatePiece& piece : pieces) {
      shard.pieces.push_back({piece.tensor, piece.region, piece.dtype});
    }
  }
  return absl::OkStatus();
}

// None: a dry run, and the folder is not there yet.
StatusOr<std::optional<CheckpointFolder>> OpenFolder(const ExecuteOptions& options) {
  const double wait_s = options.resume ? kLockWaitSeconds : 0;
  const std::string& path = options.checkpoint_folder;
  if (options.dry_run) return CheckpointFolder::OpenExisting(path, wait_s);
  TL_ASSIGN_OR_RETURN(CheckpointFolder folder, CheckpointFolder::Open(path, wait_s));
  return std::optional<CheckpointFolder>(std::move(folder));
}

// A folder to begin in must hold no checkpoints.
Status CheckUnused(const CheckpointFolder& folder, const ExecuteOptions& options) {
  TL_ASSIGN_OR_RETURN(const bool any, folder.HasAny());
  if (!any) return absl::OkStatus();
  return UsageError(absl::StrCat("--checkpoint ", options.checkpoint_folder,
                                 ": the folder holds checkpoints already; add --resume to "
                                 "continue from them, or name an empty folder"));
}

Status FindCheckpoint(const ProgramState& state, const ExecuteOptions& options, Start& start) {
  if (start.folder) {
    TL_ASSIGN_OR_RETURN(start.found, start.folder->FindNewest(&start.notes));
  }
  if (!start.found) {
    start.notes.push_back(
        absl::StrCat("no checkpoint in '", options.checkpoint_folder, "'; starting at step 0"));
    return absl::OkStatus();
  }
  const CheckpointManifest& stored = start.found->manifest;
  TL_RETURN_IF_ERROR(CheckSameRun(stored, start.manifest));
  TL_ASSIGN_OR_RETURN(start.restorer, StateRestorer::Make(*start.found, state));
  const std::string note = NoteOfOtherPlan(stored, start.manifest);
  if (!note.empty()) start.notes.push_back(note);
  start.notes.push_back(absl::StrCat("resuming after step ", stored.step));
  return absl::OkStatus();
}

Status OpenCheckpoints(const Program& program, const SampleSource& samples,
                       const ExecuteOptions& options, Start& start) {
  if (options.checkpoint_folder.empty()) {
    if (!options.resume) return absl::OkStatus();
    return UsageError("--resume needs --checkpoint DIR, the folder to resume from");
  }
  if (options.checkpoint_every < 1) {
    return UsageError(absl::StrCat("--checkpoint-every ", options.checkpoint_every,
                                   " is not a number of steps; give 1 or more"));
  }
  TL_ASSIGN_OR_RETURN(const ProgramState state, MapState(program));
  TL_RETURN_IF_ERROR(DescribeOwn(program, samples, options, state, start));
  TL_ASSIGN_OR_RETURN(start.folder, OpenFolder(options));
  if (options.resume) return FindCheckpoint(state, options, start);
  return start.folder ? CheckUnused(*start.folder, options) : absl::OkStatus();
}

// Weights are where a run begins from; a checkpoint that it goes on from already has them in it.
Status OpenWeights(const Program& program, const ExecuteOptions& options, Start& start) {
  if (options.weights_path.empty()) return absl::OkStatus();
  if (start.found) {
    start.notes.push_back("--weights is not read: the checkpoint goes on from it");
    return absl::OkStatus();
  }
  TL_ASSIGN_OR_RETURN(start.weights,
                      WeightSource::Open(options.weights_path, options.weights, program));
  start.notes.push_back(start.weights->Summary());
  return absl::OkStatus();
}

}  // namespace

StatusOr<Start> FindStart(const Program& program, const SampleSource& samples,
                          const ExecuteOptions& options) {
  Start start;
  TL_RETURN_IF_ERROR(OpenCheckpoints(program, samples, options, start));
  TL_RETURN_IF_ERROR(OpenWeights(program, options, start));
  return start;
}

}  // namespace tideline
