// Whole files in and out of memory, and files that are replaced in one step.
//
// A reader sees the old content or the new one, never a part: the new content is written to a
// temporary file in the same folder, fsynced, renamed over the old name, and the folder fsynced.
// Errors: reading gives input errors (exit 5), writing run errors (exit 1); both name the path and
// the system's reason.
#ifndef TIDELINE_BASE_FILE_H_
#define TIDELINE_BASE_FILE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tideline {

// 64 MiB: more than any plan, cluster or configuration a person writes.
inline constexpr int64_t kDefaultFileLimitBytes = int64_t{64} << 20;

// A pipe does not say how long it is, so less is taken from one than from a file.
inline constexpr int64_t kPipeLimitBytes = int64_t{256} << 20;

// The bytes of a file, or of a pipe (of which at most kPipeLimitBytes). More than `limit_bytes`, a
// folder, a device (which may never end), or an unreadable path is an error.
StatusOr<std::string> ReadFile(const std::string& path,
                               int64_t limit_bytes = kDefaultFileLimitBytes);

// Whether AtomicFile::Create(path) works now, with its error if not; leaves nothing behind. For
// asking before hours of work whether their result can be kept.
Status CheckWritable(const std::string& path);

// Whether files can be written into `folder`, or it can be made, with its parents. Error (exit 1):
// it or one of its parents is no folder, or is not writable.
Status CheckFolderWritable(const std::string& folder);

// A file being written beside its final name. Destroyed without Commit() it leaves nothing behind
// and the old content in place. Not thread-safe.
//
//   TL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create("plan.json"));
//   TL_RETURN_IF_ERROR(file.Append(text));
//   TL_RETURN_IF_ERROR(file.Commit());
class AtomicFile {
 public:
  static StatusOr<AtomicFile> Create(const std::string& path);
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) noexcept;
  ~AtomicFile();

  Status Append(std::string_view bytes);
  // Makes the new content durable under the final name. Once only.
  Status Commit();
  // Bytes appended so far.
  int64_t size() const { return size_; }

 private:
  AtomicFile() = default;
  void Abandon();
  Status Failure(const std::string& what) const;

  std::string path_;
  std::string temporary_path_;
  int descriptor_ = -1;
  int64_t size_ = 0;
};

// Create, Append and Commit in one. `path` must not be "-".
Status WriteFileAtomically(const std::string& path, std::string_view bytes);

// Makes renames and removals in `folder` durable.
Status SyncFolder(const std::string& folder);

// "/a/b.json" -> "/a", "b.json" -> ".".
std::string FolderOf(const std::string& path);

}  // namespace tideline

#endif  // TIDELINE_BASE_FILE_H_
