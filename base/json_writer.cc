#include <cmath>

#include "base/check.h"
#include "base/json.h"
#include "base/units.h"

namespace tideline {
namespace {

// Length of the valid UTF-8 sequence at the start of `text`; 0 when there is none (RFC 3629).
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t position) { return static_cast<unsigned char>(text[position]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  size_t length = 0;
  unsigned char least = 0x80;
  unsigned char most = 0xbf;
  if (lead >= 0xc2 && lead <= 0xdf) {
    length = 2;
  } else if (lead >= 0xe0 && lead <= 0xef) {
    length = 3;
    if (lead == 0xe0) least = 0xa0;
    if (lead == 0xed) most = 0x9f;  // surrogates
  } else if (lead >= 0xf0 && lead <= 0xf4) {
    length = 4;
    if (lead == 0xf0) least = 0x90;
    if (lead == 0xf4) most = 0x8f;
  }
  if (length == 0 || text.size() < length) return 0;
  if (byte(1) < least || byte(1) > most) return 0;
  for (size_t position = 2; position < length; ++position) {
    if (byte(position) < 0x80 || byte(position) > 0xbf) return 0;
  }
  return length;
}

void AppendEscaped(char c, std::string* out) {
  constexpr char kDigits[] = "0123456789abcdef";
  switch (c) {
    case '"':
      *out += "\\\"";
      return;
    case '\\':
      *out += "\\\\";
      return;
    case '\n':
      *out += "\\n";
      return;
    case '\t':
      *out += "\\t";
      return;
    case '\r':
      *out += "\\r";
      return;
    default:
      if (static_cast<unsigned char>(c) < 0x20) {
        *out += {'\\', 'u', '0', '0', kDigits[c >> 4], kDigits[c & 15]};
      } else {
        *out += c;
      }
  }
}

void AppendString(std::string_view value, std::string* out) {
  *out += '"';
  while (!value.empty()) {
    const size_t length = Utf8Length(value);
    if (length == 0) {
      *out += "\xef\xbf\xbd";
    } else if (length == 1) {
      AppendEscaped(value[0], out);
    } else {
      *out += value.substr(0, length);
    }
    value.remove_prefix(length == 0 ? 1 : length);
  }
  *out += '"';
}

}  // namespace

void JsonWriter::NewLine() {
  text_ += '\n';
  text_.append(2 * levels_.size(), ' ');
}

void JsonWriter::BeforeValue() {
  if (levels_.empty()) {
    TL_CHECK(text_.empty(), "a JSON document has one root value");
    return;
  }
  Level& level = levels_.back();
  TL_CHECK(level.is_object == key_pending_, "a value in an object needs its key first");
  if (key_pending_) {
    key_pending_ = false;
    return;
  }
  if (!level.empty) text_ += level.is_inline ? ", " : ",";
  level.empty = false;
  if (!level.is_inline) NewLine();
}

JsonWriter& JsonWriter::Key(std::string_view name) {
  TL_CHECK(!levels_.empty() && levels_.back().is_object && !key_pending_,
           "a key stands in an object");
  if (!levels_.back().empty) text_ += ',';
  levels_.back().empty = false;
  NewLine();
  AppendString(name, &text_);
  text_ += ": ";
  key_pending_ = true;
  return *this;
}

JsonWriter& JsonWriter::BeginObject() {
  BeforeValue();
  text_ += '{';
  levels_.push_back({.is_object = true});
  return *this;
}

JsonWriter& JsonWriter::BeginArray() {
  BeforeValue();
  text_ += '[';
  levels_.push_back({});
  return *this;
}

JsonWriter& JsonWriter::BeginInlineArray() {
  BeforeValue();
  text_ += '[';
  levels_.push_back({.is_inline = true});
  return *this;
}

JsonWriter& JsonWriter::End(bool is_object, char bracket) {
  TL_CHECK(!levels_.empty() && levels_.back().is_object == is_object && !key_pending_,
           "every Begin has its End");
  const Level level = levels_.back();
  levels_.pop_back();
  if (!level.empty && !level.is_inline) NewLine();
  text_ += bracket;
  return *this;
}

JsonWriter& JsonWriter::EndObject() { return End(true, '}'); }
JsonWriter& JsonWriter::EndArray() { return End(false, ']'); }

JsonWriter& JsonWriter::Null() {
  BeforeValue();
  text_ += "null";
  return *this;
}

JsonWriter& JsonWriter::Value(bool value) {
  BeforeValue();
  text_ += value ? "true" : "false";
  return *this;
}

JsonWriter& JsonWriter::Value(int64_t value) {
  BeforeValue();
  text_ += std::to_string(value);
  return *this;
}

JsonWriter& JsonWriter::Value(uint64_t value) {
  BeforeValue();
  text_ += std::to_string(value);
  return *this;
}

JsonWriter& JsonWriter::Value(double value) {
  BeforeValue();
  text_ += std::isfinite(value) ? ShortestReal(value) : "null";
  if (value == 0 && std::signbit(value)) text_ += ".0";  // "-0" would be read as an integer
  return *this;
}

JsonWriter& JsonWriter::Value(std::string_view value) {
  BeforeValue();
  AppendString(value, &text_);
  return *this;
}

std::string JsonWriter::Take() {
  TL_CHECK(levels_.empty() && !text_.empty(), "Take of an unfinished document");
  text_ += '\n';
  return std::exchange(text_, "");
}

}  // namespace tideline
