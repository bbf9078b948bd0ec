// Checkpoint: the whole state of a training run in one file, and the folder that keeps two of them
// (DEFINITIONS 16).
//
// File: magic, header length, header (step, hashes, losses, the buffers of every rank by name and
// bytes), the buffers' bytes in that order, SHA-256 of everything before. Little-endian. It is
// written beside its final name, fsynced, renamed, and the folder fsynced, so that a kill at any
// moment leaves the previous file or the new one. A file whose length, structure or checksum is
// wrong is damaged: the one before it is taken. One process at a time uses a folder (flock).
//
//   TL_ASSIGN_OR_RETURN(auto folder, CheckpointFolder::Open("ckpt", 10.0));
//   TL_ASSIGN_OR_RETURN(auto found, folder.FindNewest(&notes));
//   if (found) TL_RETURN_IF_ERROR(folder.Load(*found, put));
//   TL_RETURN_IF_ERROR(folder.Save(header, get));
#ifndef TIDELINE_EXEC_MEMORY_CHECKPOINT_H_
#define TIDELINE_EXEC_MEMORY_CHECKPOINT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "planner/program/program.h"

namespace tideline {

struct CheckpointHeader {
  struct BufferRecord {
    std::string name;
    int64_t bytes = 0;
    bool operator==(const BufferRecord&) const = default;
  };

  int64_t step = 0;  // optimizer steps done
  std::string graph_hash;
  std::string plan_hash;
  uint64_t seed = 0;                             // of the initial values
  std::string data_origin;                       // what --data named, for messages
  std::string data_hash;                         // SHA-256 of its tokens: data may move
  std::vector<double> losses;                    // of the steps done
  std::vector<RegisterValue> registers;          // persistent ones, the same on every rank
  std::vector<std::vector<BufferRecord>> ranks;  // persistent buffers
  bool operator==(const CheckpointHeader&) const = default;
};

class CheckpointFolder {
 public:
  struct Found {
    std::string path;
    CheckpointHeader header;
    int64_t payload_begin = 0;
  };
  // Bytes [offset, offset + size) of a buffer; called in order.
  using Get = std::function<Status(int rank, int buffer, int64_t offset, std::span<char> bytes)>;
  using Put = std::function<Status(int rank, int buffer, int64_t offset, std::string_view bytes)>;

  // Makes the folder if it is not there, locks it (waiting up to `wait_s` for another process) and
  // removes what a killed run left half written. Errors: exit 1, naming the folder.
  static StatusOr<CheckpointFolder> Open(const std::string& path, double wait_s);
  // The same, but to look only: makes and removes nothing. None when the folder is not there.
  static StatusOr<std::optional<CheckpointFolder>> OpenExisting(const std::string& path,
                                                                double wait_s);
  CheckpointFolder(CheckpointFolder&& other) noexcept;
  CheckpointFolder& operator=(CheckpointFolder&& other) noexcept;
  ~CheckpointFolder();

  // The newest undamaged checkpoint, verified to the last byte; none in an empty folder. A line
  // per damaged one goes to `notes`. Error (exit 5): there are some and all are damaged.
  StatusOr<std::optional<Found>> FindNewest(std::vector<std::string>* notes) const;

  // Whether any checkpoint, damaged or not, is there.
  StatusOr<bool> HasAny() const;

  Status Load(const Found& found, const Put& put) const;

  // Writes one, and of those up to its step removes all but the two newest.
  Status Save(const CheckpointHeader& header, const Get& get) const;

 private:
  CheckpointFolder() = default;
  Status Lock(double wait_s);
  // File names by step, newest first.
  StatusOr<std::vector<std::string>> List() const;
  StatusOr<Found> Read(const std::string& name) const;

  std::string path_;
  int lock_ = -1;
};

// OK when a checkpoint belongs to this graph, plan, seed, text and set of buffers; else an error
// (exit 5) that names what differs with both values: going on would give losses that neither run
// has.
Status CheckSameRun(const CheckpointHeader& stored, const CheckpointHeader& expected);

}  // namespace tideline

#endif  // TIDELINE_EXEC_MEMORY_CHECKPOINT_H_
