#include "base/byte_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/check.h"

namespace tideline {
namespace {

Status CannotRead(const std::string& path, const std::string& why) {
  return InputError(
      absl::StrCat("cannot read ", path, ": ", why, "; give the path of a readable file"));
}

}  // namespace

StatusOr<ByteFile> ByteFile::Open(const std::string& path) {
  ByteFile file;
  file.name_ = path;
  // Not blocking: opening a pipe that nobody writes to would wait for ever.
  file.descriptor_ = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file.descriptor_ < 0) return CannotRead(path, std::strerror(errno));
  struct stat information {};
  if (fstat(file.descriptor_, &information) != 0) return CannotRead(path, std::strerror(errno));
  if (S_ISDIR(information.st_mode)) return CannotRead(path, "it is a folder");
  if (!S_ISREG(information.st_mode)) {
    return CannotRead(path, "it is a pipe or device, which cannot be read at any place");
  }
  file.size_ = information.st_size;
  return file;
}

ByteFile ByteFile::FromMemory(std::string bytes, std::string name) {
  ByteFile file;
  file.name_ = std::move(name);
  file.size_ = static_cast<int64_t>(bytes.size());
  file.memory_ = std::move(bytes);
  return file;
}

ByteFile::ByteFile(ByteFile&& other) noexcept { *this = std::move(other); }

ByteFile& ByteFile::operator=(ByteFile&& other) noexcept {
  std::swap(name_, other.name_);
  std::swap(memory_, other.memory_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

ByteFile::~ByteFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

Status ByteFile::Read(int64_t offset, std::span<char> bytes) const {
  TL_CHECK(offset >= 0, "an offset into a file");
  if (offset > size_ || static_cast<int64_t>(bytes.size()) > size_ - offset) {
    return InputError(absl::StrCat(name_, ": it has ", size_, " bytes, but ", bytes.size(),
                                   " are needed from byte ", offset, " on; give the whole file"));
  }
  if (descriptor_ < 0) {
    if (!bytes.empty()) std::memcpy(bytes.data(), memory_.data() + offset, bytes.size());
    return absl::OkStatus();
  }
  while (!bytes.empty()) {
    const ssize_t count = pread(descriptor_, bytes.data(), bytes.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return CannotRead(name_, std::strerror(errno));
    if (count == 0) {
      return InputError(absl::StrCat(name_, ": it was cut off while it was read: ", size_,
                                     " bytes when it was opened, now it ends before byte ",
                                     offset + 1, "; leave the file alone until the run is over"));
    }
    bytes = bytes.subspan(static_cast<size_t>(count));
    offset += count;
  }
  return absl::OkStatus();
}

}  // namespace tideline
