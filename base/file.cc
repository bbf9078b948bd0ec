#include "base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace tideline {
namespace {

std::string SystemReason(int error) { return std::strerror(error); }

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) close(value_);
  }
  int get() const { return value_; }

 private:
  int value_;
};

Status CannotRead(const std::string& path, const std::string& why) {
  return InputError(
      absl::StrCat("cannot read ", path, ": ", why, "; give the path of a readable file"));
}

// Follows symbolic links so that the file behind a link is replaced, not the link.
std::string FinalPath(const std::string& path) {
  char* resolved = realpath(path.c_str(), nullptr);
  if (resolved == nullptr) return path;
  std::string result = resolved;
  std::free(resolved);
  return result;
}

}  // namespace

StatusOr<std::string> ReadFile(const std::string& path, int64_t limit_bytes) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) return CannotRead(path, SystemReason(errno));
  struct stat information {};
  if (fstat(file.get(), &information) != 0) return CannotRead(path, SystemReason(errno));
  if (S_ISDIR(information.st_mode)) return CannotRead(path, "it is a folder");
  if (S_ISCHR(information.st_mode) || S_ISBLK(information.st_mode)) {
    return CannotRead(path, "it is a device, which may never end");
  }
  if (!S_ISREG(information.st_mode)) limit_bytes = std::min(limit_bytes, kPipeLimitBytes);
  std::string content;
  if (S_ISREG(information.st_mode) && information.st_size <= limit_bytes) {
    content.reserve(static_cast<size_t>(information.st_size));
  }
  std::array<char, 1 << 16> block;
  while (true) {
    const ssize_t count = read(file.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return CannotRead(path, SystemReason(errno));
    if (count == 0) return content;
    if (static_cast<int64_t>(content.size()) + count > limit_bytes) {
      return CannotRead(path, absl::StrCat("it is larger than ", limit_bytes, " bytes"));
    }
    content.append(block.data(), static_cast<size_t>(count));
  }
}

StatusOr<AtomicFile> AtomicFile::Create(const std::string& path) {
  AtomicFile file;
  file.path_ = FinalPath(path);
  struct stat information {};
  const bool exists = stat(file.path_.c_str(), &information) == 0;
  if (exists && !S_ISREG(information.st_mode)) {
    const char* const what = S_ISDIR(information.st_mode) ? "a folder" : "no regular file";
    return RunError(
        absl::StrCat("cannot write ", path, ": it is ", what, "; give the path of a file"));
  }
  struct stat link {};
  if (!exists && lstat(file.path_.c_str(), &link) == 0) {
    return RunError(absl::StrCat("cannot write ", path,
                                 ": it is a link to what is not there; give the path of a file"));
  }
  // A name that nobody else uses; one left behind by a killed process is passed over.
  constexpr int kMostAttempts = 1000;
  for (int attempt = 0; attempt < kMostAttempts && file.descriptor_ < 0; ++attempt) {
    file.temporary_path_ = absl::StrCat(file.path_, ".tmp-", getpid(), "-", attempt);
    file.descriptor_ =
        open(file.temporary_path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file.descriptor_ < 0 && errno != EEXIST) break;
  }
  if (file.descriptor_ < 0) {
    return RunError(absl::StrCat("cannot write ", path, ": ", SystemReason(errno),
                                 "; give a path in an existing writable folder"));
  }
  if (exists && fchmod(file.descriptor_, information.st_mode & 07777) != 0) {
    return file.Failure("set permissions of");
  }
  return file;
}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept { *this = std::move(other); }

AtomicFile& AtomicFile::operator=(AtomicFile&& other) noexcept {
  if (this == &other) return *this;
  Abandon();
  path_ = std::move(other.path_);
  temporary_path_ = std::move(other.temporary_path_);
  descriptor_ = std::exchange(other.descriptor_, -1);
  size_ = other.size_;
  return *this;
}

AtomicFile::~AtomicFile() { Abandon(); }

void AtomicFile::Abandon() {
  if (descriptor_ < 0) return;
  close(descriptor_);
  descriptor_ = -1;
  unlink(temporary_path_.c_str());
}

Status AtomicFile::Failure(const std::string& what) const {
  return RunError(absl::StrCat("cannot ", what, " ", path_, ": ", SystemReason(errno)));
}

Status AtomicFile::Append(std::string_view bytes) {
  TL_CHECK(descriptor_ >= 0, "Append after Commit");
  size_ += static_cast<int64_t>(bytes.size());
  while (!bytes.empty()) {
    const ssize_t count = write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Failure("write");
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return absl::OkStatus();
}

Status AtomicFile::Commit() {
  TL_CHECK(descriptor_ >= 0, "Commit twice");
  if (fsync(descriptor_) != 0) return Failure("write");
  if (rename(temporary_path_.c_str(), path_.c_str()) != 0) return Failure("replace");
  close(std::exchange(descriptor_, -1));
  return SyncFolder(FolderOf(path_));
}

Status WriteFileAtomically(const std::string& path, std::string_view bytes) {
  TL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  TL_RETURN_IF_ERROR(file.Append(bytes));
  return file.Commit();
}

Status CheckWritable(const std::string& path) { return AtomicFile::Create(path).status(); }

Status CheckFolderWritable(const std::string& folder) {
  const auto failure = [&](const std::string& why) {
    return RunError(absl::StrCat("cannot write into ", folder, ": ", why,
                                 "; name a writable folder, or one that can be made"));
  };
  std::error_code error;
  std::filesystem::path existing = std::filesystem::absolute(folder, error);
  if (error) return failure(error.message());
  struct stat information {};
  while (stat(existing.c_str(), &information) != 0) {
    if (errno != ENOENT || !existing.has_relative_path()) return failure(SystemReason(errno));
    existing = existing.parent_path();
  }
  if (!S_ISDIR(information.st_mode)) {
    return failure(absl::StrCat(existing.string(), " is no folder"));
  }
  if (access(existing.c_str(), W_OK | X_OK) != 0) {
    return failure(absl::StrCat(existing.string(), ": ", SystemReason(errno)));
  }
  return absl::OkStatus();
}

Status SyncFolder(const std::string& folder) {
  const Descriptor descriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (descriptor.get() < 0) {
    return RunError(absl::StrCat("cannot open the folder ", folder, ": ", SystemReason(errno)));
  }
  // Some file systems refuse to sync a folder; the rename itself has happened.
  if (fsync(descriptor.get()) != 0 && errno != EINVAL && errno != ENOTSUP) {
    return RunError(absl::StrCat("cannot sync the folder ", folder, ": ", SystemReason(errno)));
  }
  return absl::OkStatus();
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

}  // namespace tideline
