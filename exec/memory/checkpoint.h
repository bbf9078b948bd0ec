// The folder in which a run keeps its checkpoints (DEFINITIONS 16).
//
// A checkpoint is a folder of its own, "step-000000000010.checkpoint": one shard per rank
// (shard.h), written by all ranks at once, and a manifest (manifest.h), written last. The state is
// stored by logical tensors, each element once however many ranks hold it; of replicas the one with
// the least to write writes it. All is made under a temporary name and then renamed, every file and
// folder synced before, so that a kill at any moment leaves the previous checkpoints and the new
// one or not. One that is not what its manifest says, to the last byte, is damaged: the one before
// it is taken. One run at a time uses a folder (flock).
//
//   TL_ASSIGN_OR_RETURN(auto folder, CheckpointFolder::Open("ckpt", 10.0));
//   TL_ASSIGN_OR_RETURN(auto found, folder.FindNewest(&notes));
//   ...
//   TL_RETURN_IF_ERROR(folder.Begin(step));                                  // one process
//   TL_RETURN_IF_ERROR(WriteShard(folder.ShardPath("ckpt", step, rank), ...));  // every rank
//   TL_RETURN_IF_ERROR(folder.Commit(manifest));                             // one process
//
// The caller has all ranks wait between the three (in as many processes as there are: a shard's
// record comes from its file, so nothing but the file system and a barrier is between them).
#ifndef TIDELINE_EXEC_MEMORY_CHECKPOINT_H_
#define TIDELINE_EXEC_MEMORY_CHECKPOINT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "exec/memory/manifest.h"

namespace tideline {

class CheckpointFolder {
 public:
  struct Found {
    std::string path;  // of the checkpoint's folder
    CheckpointManifest manifest;
  };

  // Makes the folder if it is not there, locks it (waiting up to `wait_s` for another process) and
  // removes what a killed run left half written. Errors: exit 1, naming the folder.
  static StatusOr<CheckpointFolder> Open(const std::string& path, double wait_s);
  // The same, but to look only: makes and removes nothing. None when the folder is not there.
  static StatusOr<std::optional<CheckpointFolder>> OpenExisting(const std::string& path,
                                                                double wait_s);
  CheckpointFolder(CheckpointFolder&& other) noexcept;
  CheckpointFolder& operator=(CheckpointFolder&& other) noexcept;
  ~CheckpointFolder();

  // The newest undamaged checkpoint, verified to the last byte by as many threads as there are
  // cores; none in an empty folder. A line per damaged one goes to `notes` (may be null). Error
  // (exit 5): there are some and all are damaged.
  StatusOr<std::optional<Found>> FindNewest(std::vector<std::string>* notes) const;

  // The checkpoint of a step as its manifest says, its shards not looked at: for the other
  // processes of a run in which one has found the newest. Errors (exit 5): it is damaged.
  static StatusOr<Found> ReadManifest(const std::string& folder, int64_t step);

  // Whether any checkpoint, damaged or not, is there.
  StatusOr<bool> HasAny() const;

  // Makes room for the shards of a step.
  Status Begin(int64_t step) const;

  // Where the shard of a rank is to be written between Begin and Commit.
  static std::string ShardPath(const std::string& folder, int64_t step, int32_t rank);

  // Completes the checkpoint of manifest.step and of those up to it removes all but the two newest.
  // The shards of `manifest` have their pieces; file, bytes and digest are read from the files.
  Status Commit(CheckpointManifest manifest) const;

 private:
  CheckpointFolder() = default;
  Status Lock(double wait_s);
  // File names by step, newest first.
  StatusOr<std::vector<std::string>> List() const;
  StatusOr<Found> Read(const std::string& name) const;
  Status Remove(const std::string& name) const;

  std::string path_;
  int lock_ = -1;
};

// OK when a run may go on from a checkpoint: the same graph, batch, seed and data; else an error
// (exit 5) that names what differs with both values: going on would give losses that neither run
// has. How the work is split, and the optimizer's settings, may differ.
Status CheckSameRun(const CheckpointManifest& stored, const CheckpointManifest& expected);

// What a person should know about going on under another plan; empty under the same one.
std::string NoteOfOtherPlan(const CheckpointManifest& stored, const CheckpointManifest& expected);

}  // namespace tideline

#endif  // TIDELINE_EXEC_MEMORY_CHECKPOINT_H_
