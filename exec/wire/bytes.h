// ByteWriter and ByteReader: plain values as bytes, little-endian, for checkpoints and the worker
// protocol.
//
// A reader never trusts its input: every length is held against what is left before anything is
// allocated, and the first thing that does not fit makes it fail for good. Check ok() (or finish
// with Finish()) before using what was read.
#ifndef TIDELINE_EXEC_WIRE_BYTES_H_
#define TIDELINE_EXEC_WIRE_BYTES_H_

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace tideline {

static_assert(std::endian::native == std::endian::little, "values are written as they lie");

class ByteWriter {
 public:
  template <typename Value>
  void Put(Value value) {
    static_assert(std::is_arithmetic_v<Value>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void PutText(std::string_view text) {
    Put<uint64_t>(text.size());
    bytes_.append(text);
  }
  template <typename Value>
  void PutVector(const std::vector<Value>& values) {
    static_assert(std::is_arithmetic_v<Value>);
    Put<uint64_t>(values.size());
    bytes_.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Value));
  }
  const std::string& bytes() const { return bytes_; }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <typename Value>
  Value Get() {
    static_assert(std::is_arithmetic_v<Value>);
    Value value{};
    if (!Has(sizeof value)) return value;
    if constexpr (std::is_same_v<Value, bool>) {
      const char byte = rest_[0];
      if (byte != 0 && byte != 1) ok_ = false;
      value = byte == 1;
    } else {
      std::memcpy(&value, rest_.data(), sizeof value);
    }
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string GetText() {
    const uint64_t size = Get<uint64_t>();
    if (!Has(size)) return {};
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  template <typename Value>
  std::vector<Value> GetVector() {
    static_assert(std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>);
    const uint64_t size = GetCount(sizeof(Value));
    std::vector<Value> values(size);
    if (size > 0) std::memcpy(values.data(), rest_.data(), size * sizeof(Value));
    rest_.remove_prefix(size * sizeof(Value));
    return values;
  }
  // A number of items that take at least `least_bytes` each.
  uint64_t GetCount(uint64_t least_bytes) {
    const uint64_t count = Get<uint64_t>();
    if (!ok_ || count > rest_.size() / least_bytes) {
      ok_ = false;
      return 0;
    }
    return count;
  }
  // A value of an enumeration whose largest value is `last`.
  template <typename Enum>
  Enum GetEnum(Enum last) {
    const uint8_t value = Get<uint8_t>();
    if (value > static_cast<uint8_t>(last)) ok_ = false;
    return ok_ ? static_cast<Enum>(value) : Enum{};
  }

  bool ok() const { return ok_; }
  // Whether everything was read and nothing is left.
  bool Finish() const { return ok_ && rest_.empty(); }

 private:
  bool Has(uint64_t bytes) {
    if (bytes > rest_.size()) ok_ = false;
    return ok_;
  }

  std::string_view rest_;
  bool ok_ = true;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_WIRE_BYTES_H_
