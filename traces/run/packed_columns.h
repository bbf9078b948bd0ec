// Packed columns: a block of records as one column per field, each with the fewest whole bytes that
// hold its range.
//
// A column is its smallest value (8 bytes), a width w of 0 to 8 (1 byte), and count little-endian
// numbers of w bytes, each value minus the smallest. A constant column costs 9 bytes. Signed values
// go through ZigZag, slowly changing ones through differences. Cost: one pass to find the range,
// one to write. Source: frame-of-reference coding (Goldstein, Ramakrishnan, Shaft 1998).
#ifndef TIDELINE_TRACES_RUN_PACKED_COLUMNS_H_
#define TIDELINE_TRACES_RUN_PACKED_COLUMNS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tideline {

// 0, -1, 1, -2, 2, ... -> 0, 1, 2, 3, 4, ...
constexpr uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
constexpr int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

void AppendColumn(std::span<const uint64_t> values, std::string& out);

// Reads columns one after the other from a payload whose bytes may be anything.
class ColumnReader {
 public:
  explicit ColumnReader(std::string_view bytes) : bytes_(bytes) {}

  // Reads `count` values into `values` (resized). Errors (exit 5 kind): the payload is too short or
  // a width is above 8; the message gives the offset within the payload.
  Status Read(size_t count, std::vector<uint64_t>& values);

  size_t offset() const { return offset_; }
  bool at_end() const { return offset_ == bytes_.size(); }

 private:
  std::string_view bytes_;
  size_t offset_ = 0;
};

// CRC-32C (Castagnoli) of `bytes`; every burst of up to 32 flipped bits changes it.
uint32_t Crc32c(std::string_view bytes);

}  // namespace tideline

#endif  // TIDELINE_TRACES_RUN_PACKED_COLUMNS_H_
