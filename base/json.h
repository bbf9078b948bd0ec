// JSON documents, read strictly and written exactly.
//
// Reading: RFC 8259 with limits on size and depth; duplicate keys, bad UTF-8, trailing text and
// numbers that do not fit are refused. Every error is an input error (exit 5) that names file and
// field: "plan.json: field `stages[2].layers`: ...". A document is one flat array of nodes, so
// neither reading nor destroying one recurses. Writing: two-space indentation, 64-bit integers as
// numbers, doubles in their shortest form that reads back to the same value, non-finite ones as
// null.
//
//   TL_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text, "cluster.json"));
//   TL_ASSIGN_OR_RETURN(JsonObject object, document.root().AsObject());
//   TL_RETURN_IF_ERROR(object.Read("nodes", &nodes, 1, 65536));
//   TL_RETURN_IF_ERROR(object.ReadOptional("name", &name));
//   TL_RETURN_IF_ERROR(object.Finish());  // a field nobody asked for is an error
#ifndef TIDELINE_BASE_JSON_H_
#define TIDELINE_BASE_JSON_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"

namespace tideline {

struct JsonLimits {
  int64_t size_bytes = int64_t{64} << 20;
  int64_t nodes = 2'000'000;
  int depth = 64;
};

enum class JsonKind : uint8_t { kNull, kBool, kInteger, kReal, kString, kArray, kObject };

namespace internal {
struct JsonNodes;
}  // namespace internal

class JsonObject;

// One value of a document: a cheap handle that must not outlive it.
class JsonValue {
 public:
  JsonValue(const internal::JsonNodes* nodes, uint32_t index) : nodes_(nodes), index_(index) {}

  JsonKind kind() const;
  bool IsNull() const { return kind() == JsonKind::kNull; }
  StatusOr<bool> AsBool() const;
  // A whole number in [least, most]; 3.0 is refused, as are numbers beyond 64 bits.
  StatusOr<int64_t> AsInteger(int64_t least = std::numeric_limits<int64_t>::min(),
                              int64_t most = std::numeric_limits<int64_t>::max()) const;
  // A number in [least, most], whole or not; it is finite.
  StatusOr<double> AsReal(double least = std::numeric_limits<double>::lowest(),
                          double most = std::numeric_limits<double>::max()) const;
  StatusOr<std::string> AsString() const;
  StatusOr<std::vector<JsonValue>> AsArray() const;
  StatusOr<JsonObject> AsObject() const;

  // "stages[2].layers"; the root is "".
  std::string Path() const;
  // An input error about this value: "FILE: field `PATH`: why".
  Status Error(const std::string& why) const;

 private:
  friend class JsonObject;
  const internal::JsonNodes* nodes_;
  uint32_t index_;
};

// An object being read field by field; remembers what was asked for.
class JsonObject {
 public:
  const JsonValue& value() const { return value_; }

  // The field, or none. A field that is null counts as present.
  std::optional<JsonValue> Find(std::string_view name);
  // The field; an error when missing.
  StatusOr<JsonValue> Get(std::string_view name);
  // All fields in file order; counts as having asked for each of them.
  std::vector<std::pair<std::string, JsonValue>> Members();

  // Reads a field into `*out`; missing is an error.
  Status Read(std::string_view name, bool* out);
  Status Read(std::string_view name, std::string* out);
  Status Read(std::string_view name, int64_t* out,
              int64_t least = std::numeric_limits<int64_t>::min(),
              int64_t most = std::numeric_limits<int64_t>::max());
  Status Read(std::string_view name, int32_t* out,
              int32_t least = std::numeric_limits<int32_t>::min(),
              int32_t most = std::numeric_limits<int32_t>::max());
  Status Read(std::string_view name, double* out,
              double least = std::numeric_limits<double>::lowest(),
              double most = std::numeric_limits<double>::max());

  // The same, leaving `*out` alone when the field is missing or null.
  template <typename T, typename... Bounds>
  Status ReadOptional(std::string_view name, T* out, Bounds... bounds) {
    const std::optional<JsonValue> value = Find(name);
    if (!value.has_value() || value->IsNull()) return absl::OkStatus();
    return Read(name, out, bounds...);
  }

  // Error naming the first field that nobody asked for, with the nearest known one.
  Status Finish() const;

 private:
  friend class JsonValue;
  explicit JsonObject(JsonValue value) : value_(value) {}
  JsonValue value_;
  std::set<std::string, std::less<>> asked_;
};

// An immutable document. Threads may read one together.
class JsonDocument {
 public:
  // `file` only serves messages.
  static StatusOr<JsonDocument> Parse(std::string_view text, std::string file,
                                      const JsonLimits& limits = {});
  // Reads the file, at most limits.size_bytes of it.
  static StatusOr<JsonDocument> Load(const std::string& path, const JsonLimits& limits = {});
  JsonValue root() const;

 private:
  explicit JsonDocument(std::shared_ptr<const internal::JsonNodes> nodes)
      : nodes_(std::move(nodes)) {}
  std::shared_ptr<const internal::JsonNodes> nodes_;
};

// Writes one document, value by value. Misuse (a value without key in an object, unbalanced ends)
// is a programmer error and aborts. Invalid UTF-8 in texts is replaced by U+FFFD.
//
//   JsonWriter json;
//   json.BeginObject().Field("schema_version", 1).Field("step_time_s", 0.25).EndObject();
//   std::string text = json.Take();
class JsonWriter {
 public:
  JsonWriter& BeginObject();
  JsonWriter& EndObject();
  JsonWriter& BeginArray();
  // Like BeginArray, but all its (scalar) items stand on one line.
  JsonWriter& BeginInlineArray();
  JsonWriter& EndArray();
  JsonWriter& Key(std::string_view name);

  JsonWriter& Null();
  JsonWriter& Value(bool value);
  JsonWriter& Value(int value) { return Value(static_cast<int64_t>(value)); }
  JsonWriter& Value(int64_t value);
  JsonWriter& Value(uint64_t value);
  JsonWriter& Value(double value);
  JsonWriter& Value(std::string_view value);
  JsonWriter& Value(const std::string& value) { return Value(std::string_view(value)); }
  JsonWriter& Value(const char* value) { return Value(std::string_view(value)); }
  // None is null.
  template <typename T>
  JsonWriter& Value(const std::optional<T>& value) {
    return value.has_value() ? Value(*value) : Null();
  }

  template <typename T>
  JsonWriter& Field(std::string_view name, const T& value) {
    return Key(name).Value(value);
  }
  JsonWriter& NullField(std::string_view name) { return Key(name).Null(); }

  // The finished text, ending in a newline.
  std::string Take();

 private:
  struct Level {
    bool is_object = false;
    bool is_inline = false;
    bool empty = true;
  };
  void BeforeValue();
  void NewLine();
  JsonWriter& End(bool is_object, char bracket);

  std::string text_;
  std::vector<Level> levels_;
  bool key_pending_ = false;
};

}  // namespace tideline

#endif  // TIDELINE_BASE_JSON_H_
