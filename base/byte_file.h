// ByteFile: bytes at any offset of a file that is never held in memory, or of bytes that are.
//
// Reads are made by pread and not through a mapping: where another process cuts the file off, a
// read then ends short and is an error, while a mapped page would end this process by SIGBUS. The
// system's page cache serves what several ranks read; there is no cache of our own.
// Threads: Read may be called from any number at once.
#ifndef TIDELINE_BASE_BYTE_FILE_H_
#define TIDELINE_BASE_BYTE_FILE_H_

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace tideline {

class ByteFile {
 public:
  // A regular file of any size. Errors (exit 5): it is not there, unreadable, or a folder, pipe or
  // device.
  static StatusOr<ByteFile> Open(const std::string& path);
  static ByteFile FromMemory(std::string bytes, std::string name);
  ByteFile(ByteFile&& other) noexcept;
  ByteFile& operator=(ByteFile&& other) noexcept;
  ~ByteFile();

  const std::string& name() const { return name_; }
  int64_t size() const { return size_; }  // when it was opened

  // Fills `bytes` from `offset` on. Precondition: offset >= 0. Error (exit 5): the file ends
  // before, or the system's reason.
  Status Read(int64_t offset, std::span<char> bytes) const;

 private:
  ByteFile() = default;

  std::string name_;
  std::string memory_;
  int descriptor_ = -1;  // -1: the bytes are in memory_
  int64_t size_ = 0;
};

}  // namespace tideline

#endif  // TIDELINE_BASE_BYTE_FILE_H_
