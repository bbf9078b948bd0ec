#include "traces/run/packed_columns.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

static_assert(std::endian::native == std::endian::little, "columns are copied as they lie");

constexpr size_t kColumnHeader = 9;

template <size_t kWidth>
void Pack(std::span<const uint64_t> values, uint64_t smallest, char* out) {
  for (const uint64_t value : values) {
    const uint64_t offset = value - smallest;
    std::memcpy(out, &offset, kWidth);
    out += kWidth;
  }
}

template <size_t kWidth>
void Unpack(const char* in, uint64_t smallest, std::vector<uint64_t>& values) {
  for (uint64_t& value : values) {
    uint64_t offset = 0;
    std::memcpy(&offset, in, kWidth);
    in += kWidth;
    value = smallest + offset;
  }
}

constexpr std::array<std::array<uint32_t, 256>, 4> MakeCrcTables() {
  std::array<std::array<uint32_t, 256>, 4> tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78u : 0u);
    tables[0][byte] = crc;
  }
  for (uint32_t byte = 0; byte < 256; ++byte) {
    for (size_t table = 1; table < 4; ++table) {
      const uint32_t before = tables[table - 1][byte];
      tables[table][byte] = (before >> 8) ^ tables[0][before & 255];
    }
  }
  return tables;
}

}  // namespace

void AppendColumn(std::span<const uint64_t> values, std::string& out) {
  uint64_t smallest = 0;
  uint64_t largest = 0;
  if (!values.empty()) {
    const auto [low, high] = std::minmax_element(values.begin(), values.end());
    smallest = *low;
    largest = *high;
  }
  const auto width = static_cast<size_t>((std::bit_width(largest - smallest) + 7) / 8);
  const size_t begin = out.size();
  out.resize(begin + kColumnHeader + values.size() * width);
  char* at = out.data() + begin;
  std::memcpy(at, &smallest, 8);
  at[8] = static_cast<char>(width);
  at += kColumnHeader;
  switch (width) {
    case 1:
      return Pack<1>(values, smallest, at);
    case 2:
      return Pack<2>(values, smallest, at);
    case 3:
      return Pack<3>(values, smallest, at);
    case 4:
      return Pack<4>(values, smallest, at);
    case 5:
      return Pack<5>(values, smallest, at);
    case 6:
      return Pack<6>(values, smallest, at);
    case 7:
      return Pack<7>(values, smallest, at);
    case 8:
      return Pack<8>(values, smallest, at);
    default:
      return;
  }
}

Status ColumnReader::Read(size_t count, std::vector<uint64_t>& values) {
  const size_t left = bytes_.size() - offset_;
  const size_t width = left < kColumnHeader ? 0 : static_cast<unsigned char>(bytes_[offset_ + 8]);
  const bool fits = left >= kColumnHeader && width <= 8 &&
                    (width == 0 || count <= (left - kColumnHeader) / width);
  if (!fits) {
    return InputError(absl::StrCat("packed column at byte ", offset_, " of its block: ", count,
                                   " values of width ", width, " do not fit in ", left, " bytes"));
  }
  uint64_t smallest = 0;
  std::memcpy(&smallest, bytes_.data() + offset_, 8);
  const char* at = bytes_.data() + offset_ + kColumnHeader;
  offset_ += kColumnHeader + count * width;
  values.resize(count);
  switch (width) {
    case 1:
      Unpack<1>(at, smallest, values);
      break;
    case 2:
      Unpack<2>(at, smallest, values);
      break;
    case 3:
      Unpack<3>(at, smallest, values);
      break;
    case 4:
      Unpack<4>(at, smallest, values);
      break;
    case 5:
      Unpack<5>(at, smallest, values);
      break;
    case 6:
      Unpack<6>(at, smallest, values);
      break;
    case 7:
      Unpack<7>(at, smallest, values);
      break;
    case 8:
      Unpack<8>(at, smallest, values);
      break;
    default:
      std::fill(values.begin(), values.end(), smallest);
  }
  return absl::OkStatus();
}

uint32_t Crc32c(std::string_view bytes) {
  static constexpr auto kTables = MakeCrcTables();
  uint32_t crc = ~0u;
  size_t i = 0;
  for (; i + 4 <= bytes.size(); i += 4) {
    uint32_t word = 0;
    std::memcpy(&word, bytes.data() + i, 4);
    crc ^= word;
    crc = kTables[3][crc & 255] ^ kTables[2][(crc >> 8) & 255] ^ kTables[1][(crc >> 16) & 255] ^
          kTables[0][crc >> 24];
  }
  for (; i < bytes.size(); ++i) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<unsigned char>(bytes[i])) & 255];
  }
  return ~crc;
}

}  // namespace tideline
