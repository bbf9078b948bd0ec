// FieldWriter and FieldReader: one list of a message's fields serves writing and reading.
//
// A message has one function that names its fields in wire order,
//   template <typename Wire, IsOrConst<LaneMessage> Lane>
//   void Fields(Wire& wire, Lane& lane) { wire(lane.rank, lane.lane, lane.name); }
// so that the two directions cannot differ. What a field takes is decided by its type: numbers and
// flags as they lie, texts and vectors of numbers after their length, arrays without one.
#ifndef TIDELINE_EXEC_WIRE_FIELDS_H_
#define TIDELINE_EXEC_WIRE_FIELDS_H_

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "exec/wire/bytes.h"

namespace tideline {

template <typename Type, typename Message>
concept IsOrConst = std::same_as<std::remove_const_t<Type>, Message>;

class FieldWriter {
 public:
  template <typename... Values>
  void operator()(const Values&... values) {
    (Put(values), ...);
  }
  // A value of an enumeration whose largest value is `last`.
  template <typename Enum>
  void Choice(Enum value, Enum /*last*/) {
    bytes_.Put<uint8_t>(static_cast<uint8_t>(value));
  }
  // Items that take at least `least_bytes` each; `fields(wire, item)` names those of one.
  template <typename Item, typename ItemFields>
  void List(const std::vector<Item>& items, uint64_t /*least_bytes*/, ItemFields fields) {
    bytes_.Put<uint64_t>(items.size());
    for (const Item& item : items) fields(*this, item);
  }
  template <typename Value, typename ValueFields>
  void Optional(const std::optional<Value>& value, ValueFields fields) {
    bytes_.Put<bool>(value.has_value());
    if (value.has_value()) fields(*this, *value);
  }
  std::string Take() { return bytes_.Take(); }

 private:
  template <typename Value>
  void Put(const Value& value) {
    bytes_.Put<Value>(value);
  }
  void Put(const std::string& text) { bytes_.PutText(text); }
  template <typename Value>
  void Put(const std::vector<Value>& values) {
    bytes_.PutVector(values);
  }
  template <typename Value, size_t kCount>
  void Put(const std::array<Value, kCount>& values) {
    for (const Value& value : values) bytes_.Put<Value>(value);
  }

  ByteWriter bytes_;
};

// Check Finish() before using what was read.
class FieldReader {
 public:
  explicit FieldReader(std::string_view bytes) : bytes_(bytes) {}

  template <typename... Values>
  void operator()(Values&... values) {
    (Get(values), ...);
  }
  template <typename Enum>
  void Choice(Enum& value, Enum last) {
    value = bytes_.GetEnum(last);
  }
  template <typename Item, typename ItemFields>
  void List(std::vector<Item>& items, uint64_t least_bytes, ItemFields fields) {
    items.resize(bytes_.GetCount(least_bytes));
    for (Item& item : items) fields(*this, item);
  }
  template <typename Value, typename ValueFields>
  void Optional(std::optional<Value>& value, ValueFields fields) {
    value = bytes_.Get<bool>() ? std::optional<Value>(Value()) : std::nullopt;
    if (value.has_value()) fields(*this, *value);
  }
  bool ok() const { return bytes_.ok(); }
  bool Finish() const { return bytes_.Finish(); }

 private:
  template <typename Value>
  void Get(Value& value) {
    value = bytes_.Get<Value>();
  }
  void Get(std::string& text) { text = bytes_.GetText(); }
  template <typename Value>
  void Get(std::vector<Value>& values) {
    values = bytes_.GetVector<Value>();
  }
  template <typename Value, size_t kCount>
  void Get(std::array<Value, kCount>& values) {
    for (Value& value : values) value = bytes_.Get<Value>();
  }

  ByteReader bytes_;
};

}  // namespace tideline

#endif  // TIDELINE_EXEC_WIRE_FIELDS_H_
