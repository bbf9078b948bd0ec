#include "base/json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/text.h"
#include "base/units.h"

namespace tideline {
namespace internal {

// Index 0 is the root; siblings are chained.
inline constexpr uint32_t kNoNode = std::numeric_limits<uint32_t>::max();

struct JsonNode {
  JsonKind kind = JsonKind::kNull;
  bool boolean = false;
  bool beyond_int64 = false;  // a whole number from 2^63 on; `real` holds it
  uint32_t parent = kNoNode;
  uint32_t first_child = kNoNode;
  uint32_t next_sibling = kNoNode;
  uint32_t position = 0;  // among its siblings
  uint32_t children = 0;
  int64_t integer = 0;
  double real = 0;
  std::string key;
  std::string text;
};

struct JsonNodes {
  std::string file;
  std::vector<JsonNode> nodes;
};

}  // namespace internal

namespace {

using internal::JsonNode;
using internal::JsonNodes;
using internal::kNoNode;

// Receives nlohmann's parse events and builds the flat node array.
class Builder {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  Builder(JsonNodes* document, const JsonLimits& limits) : document_(document), limits_(limits) {}

  const std::string& failure() const { return failure_; }

  bool null() { return Add(JsonKind::kNull) != nullptr; }
  bool boolean(bool value) {
    JsonNode* node = Add(JsonKind::kBool);
    if (node != nullptr) node->boolean = value;
    return node != nullptr;
  }
  bool number_integer(number_integer_t value) { return AddInteger(value); }
  bool number_unsigned(number_unsigned_t value) {
    constexpr uint64_t kMost = std::numeric_limits<int64_t>::max();
    if (value <= kMost) return AddInteger(static_cast<int64_t>(value));
    JsonNode* node = Add(JsonKind::kInteger);
    if (node == nullptr) return false;
    node->beyond_int64 = true;
    node->real = static_cast<double>(value);
    return true;
  }
  bool number_float(number_float_t value, const string_t& /*text*/) {
    JsonNode* node = Add(JsonKind::kReal);
    if (node == nullptr) return false;
    if (!std::isfinite(value)) return Fail("a number is too large for a double");
    node->real = value;
    return true;
  }
  bool string(string_t& value) {
    JsonNode* node = Add(JsonKind::kString);
    if (node != nullptr) node->text = std::move(value);
    return node != nullptr;
  }
  bool binary(binary_t& /*value*/) { return Fail("binary values are no JSON"); }
  bool start_object(size_t /*elements*/) { return Open(JsonKind::kObject); }
  bool end_object() { return Close(); }
  bool start_array(size_t /*elements*/) { return Open(JsonKind::kArray); }
  bool end_array() { return Close(); }
  bool key(string_t& value) {
    if (!open_.back().keys.insert(value).second) {
      return Fail(absl::StrCat("the key ", Quoted(value), " stands twice in one object"));
    }
    key_ = std::move(value);
    return true;
  }
  bool parse_error(size_t /*position*/, const std::string& /*token*/,
                   const nlohmann::detail::exception& error) {
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..." without its tag.
    std::string what = error.what();
    const size_t tag_end = what.find("] ");
    return Fail(tag_end == std::string::npos ? what : what.substr(tag_end + 2));
  }

 private:
  struct OpenNode {
    uint32_t index = 0;
    uint32_t last_child = kNoNode;
    std::unordered_set<std::string> keys;
  };

  bool Fail(std::string why) {
    failure_ = std::move(why);
    return false;
  }

  bool AddInteger(int64_t value) {
    JsonNode* node = Add(JsonKind::kInteger);
    if (node == nullptr) return false;
    node->integer = value;
    node->real = static_cast<double>(value);
    return true;
  }

  JsonNode* Add(JsonKind kind) {
    if (static_cast<int64_t>(document_->nodes.size()) >= limits_.nodes) {
      Fail(absl::StrCat("it holds more than ", limits_.nodes, " values"));
      return nullptr;
    }
    const auto index = static_cast<uint32_t>(document_->nodes.size());
    JsonNode& node = document_->nodes.emplace_back();
    node.kind = kind;
    if (open_.empty()) return &node;
    OpenNode& open = open_.back();
    JsonNode& parent = document_->nodes[open.index];
    node.parent = open.index;
    node.position = parent.children++;
    if (parent.kind == JsonKind::kObject) node.key = std::exchange(key_, "");
    if (open.last_child == kNoNode) {
      parent.first_child = index;
    } else {
      document_->nodes[open.last_child].next_sibling = index;
    }
    open.last_child = index;
    return &node;
  }

  bool Open(JsonKind kind) {
    if (static_cast<int>(open_.size()) >= limits_.depth) {
      return Fail(absl::StrCat("it is nested deeper than ", limits_.depth, " levels"));
    }
    if (Add(kind) == nullptr) return false;
    open_.emplace_back().index = static_cast<uint32_t>(document_->nodes.size() - 1);
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  JsonNodes* document_;
  const JsonLimits& limits_;
  std::vector<OpenNode> open_;
  std::string key_;
  std::string failure_;
};

std::string_view KindName(JsonKind kind) {
  switch (kind) {
    case JsonKind::kNull:
      return "null";
    case JsonKind::kBool:
      return "true or false";
    case JsonKind::kInteger:
      return "a whole number";
    case JsonKind::kReal:
      return "a number with a fraction";
    case JsonKind::kString:
      return "a text";
    case JsonKind::kArray:
      return "an array";
    case JsonKind::kObject:
      return "an object";
  }
  return "nothing";
}

Status WrongKind(const JsonValue& value, std::string_view wanted) {
  return value.Error(
      absl::StrCat("it is ", std::string(KindName(value.kind())), "; write ", std::string(wanted)));
}

}  // namespace

JsonKind JsonValue::kind() const { return nodes_->nodes[index_].kind; }

StatusOr<bool> JsonValue::AsBool() const {
  if (kind() != JsonKind::kBool) return WrongKind(*this, "true or false");
  return nodes_->nodes[index_].boolean;
}

StatusOr<int64_t> JsonValue::AsInteger(int64_t least, int64_t most) const {
  const std::string wanted = absl::StrCat("a whole number from ", least, " to ", most);
  if (kind() != JsonKind::kInteger) return WrongKind(*this, wanted);
  const JsonNode& node = nodes_->nodes[index_];
  if (node.beyond_int64) {
    return Error(absl::StrCat(ShortestReal(node.real), " is out of range; write ", wanted));
  }
  if (node.integer < least || node.integer > most) {
    return Error(absl::StrCat(node.integer, " is out of range; write ", wanted));
  }
  return node.integer;
}

StatusOr<double> JsonValue::AsReal(double least, double most) const {
  const std::string wanted =
      absl::StrCat("a number from ", ShortestReal(least), " to ", ShortestReal(most));
  if (kind() != JsonKind::kInteger && kind() != JsonKind::kReal) return WrongKind(*this, wanted);
  const double real = nodes_->nodes[index_].real;
  if (!(real >= least && real <= most)) {
    return Error(absl::StrCat(ShortestReal(real), " is out of range; write ", wanted));
  }
  return real;
}

StatusOr<std::string> JsonValue::AsString() const {
  if (kind() != JsonKind::kString) return WrongKind(*this, "a text");
  return nodes_->nodes[index_].text;
}

StatusOr<std::vector<JsonValue>> JsonValue::AsArray() const {
  if (kind() != JsonKind::kArray) return WrongKind(*this, "an array");
  std::vector<JsonValue> items;
  items.reserve(nodes_->nodes[index_].children);
  uint32_t child = nodes_->nodes[index_].first_child;
  for (; child != kNoNode; child = nodes_->nodes[child].next_sibling) {
    items.emplace_back(nodes_, child);
  }
  return items;
}

StatusOr<JsonObject> JsonValue::AsObject() const {
  if (kind() != JsonKind::kObject) return WrongKind(*this, "an object");
  return JsonObject(*this);
}

std::string JsonValue::Path() const {
  std::vector<uint32_t> chain;
  for (uint32_t index = index_; index != 0; index = nodes_->nodes[index].parent) {
    chain.push_back(index);
  }
  std::reverse(chain.begin(), chain.end());
  std::string path;
  for (const uint32_t index : chain) {
    const JsonNode& node = nodes_->nodes[index];
    if (nodes_->nodes[node.parent].kind == JsonKind::kArray) {
      absl::StrAppend(&path, "[", node.position, "]");
    } else {
      absl::StrAppend(&path, path.empty() ? "" : ".", node.key);
    }
  }
  return path;
}

Status JsonValue::Error(const std::string& why) const {
  const std::string path = Path();
  if (path.empty()) return InputError(absl::StrCat(nodes_->file, ": ", why));
  return InputError(absl::StrCat(nodes_->file, ": field ", Quoted(path, 200), ": ", why));
}

std::optional<JsonValue> JsonObject::Find(std::string_view name) {
  asked_.emplace(name);
  const std::vector<JsonNode>& nodes = value_.nodes_->nodes;
  uint32_t child = nodes[value_.index_].first_child;
  for (; child != kNoNode; child = nodes[child].next_sibling) {
    if (nodes[child].key == name) return JsonValue(value_.nodes_, child);
  }
  return std::nullopt;
}

StatusOr<JsonValue> JsonObject::Get(std::string_view name) {
  const std::optional<JsonValue> value = Find(name);
  if (!value.has_value()) {
    return value_.Error(absl::StrCat("the field ", Quoted(name), " is missing; add it"));
  }
  return *value;
}

std::vector<std::pair<std::string, JsonValue>> JsonObject::Members() {
  const std::vector<JsonNode>& nodes = value_.nodes_->nodes;
  std::vector<std::pair<std::string, JsonValue>> members;
  uint32_t child = nodes[value_.index_].first_child;
  for (; child != kNoNode; child = nodes[child].next_sibling) {
    asked_.insert(nodes[child].key);
    members.emplace_back(nodes[child].key, JsonValue(value_.nodes_, child));
  }
  return members;
}

Status JsonObject::Read(std::string_view name, bool* out) {
  TL_ASSIGN_OR_RETURN(const JsonValue value, Get(name));
  TL_ASSIGN_OR_RETURN(*out, value.AsBool());
  return absl::OkStatus();
}

Status JsonObject::Read(std::string_view name, std::string* out) {
  TL_ASSIGN_OR_RETURN(const JsonValue value, Get(name));
  TL_ASSIGN_OR_RETURN(*out, value.AsString());
  return absl::OkStatus();
}

Status JsonObject::Read(std::string_view name, int64_t* out, int64_t least, int64_t most) {
  TL_ASSIGN_OR_RETURN(const JsonValue value, Get(name));
  TL_ASSIGN_OR_RETURN(*out, value.AsInteger(least, most));
  return absl::OkStatus();
}

Status JsonObject::Read(std::string_view name, int32_t* out, int32_t least, int32_t most) {
  TL_ASSIGN_OR_RETURN(const JsonValue value, Get(name));
  TL_ASSIGN_OR_RETURN(const int64_t wide, value.AsInteger(least, most));
  *out = static_cast<int32_t>(wide);
  return absl::OkStatus();
}

Status JsonObject::Read(std::string_view name, double* out, double least, double most) {
  TL_ASSIGN_OR_RETURN(const JsonValue value, Get(name));
  TL_ASSIGN_OR_RETURN(*out, value.AsReal(least, most));
  return absl::OkStatus();
}

Status JsonObject::Finish() const {
  const std::vector<JsonNode>& nodes = value_.nodes_->nodes;
  uint32_t child = nodes[value_.index_].first_child;
  for (; child != kNoNode; child = nodes[child].next_sibling) {
    if (asked_.contains(nodes[child].key)) continue;
    return value_.Error(UnknownName("field", nodes[child].key,
                                    std::vector<std::string>(asked_.begin(), asked_.end())));
  }
  return absl::OkStatus();
}

StatusOr<JsonDocument> JsonDocument::Parse(std::string_view text, std::string file,
                                           const JsonLimits& limits) {
  const auto document = std::make_shared<JsonNodes>();
  document->file = std::move(file);
  if (static_cast<int64_t>(text.size()) > limits.size_bytes) {
    return InputError(absl::StrCat(document->file, ": it is larger than ", limits.size_bytes,
                                   " bytes; give a smaller file"));
  }
  // nlohmann takes a zero byte for the end of the text and would not look at what follows.
  if (const size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return InputError(absl::StrCat(document->file, ": it is no valid JSON: byte ", zero,
                                   " is zero; correct the file"));
  }
  Builder builder(document.get(), limits);
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &builder)) {
    // nlohmann quotes the offending bytes: make them printable.
    return InputError(absl::StrCat(document->file, ": it is no valid JSON: ",
                                   Quoted(builder.failure(), 300), "; correct the file"));
  }
  return JsonDocument(document);
}

StatusOr<JsonDocument> JsonDocument::Load(const std::string& path, const JsonLimits& limits) {
  TL_ASSIGN_OR_RETURN(const std::string text, ReadFile(path, limits.size_bytes));
  return Parse(text, path, limits);
}

JsonValue JsonDocument::root() const { return JsonValue(nodes_.get(), 0); }

}  // namespace tideline
