#include "planner/plan/message_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <array>
#include <charconv>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/json.h"
#include "base/text.h"

namespace tideline {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kMaxDepth = 32;

// The double whose shortest text is that of the float: 1e-5f is written as 1e-05, not as the
// 9.999999747378752e-06 that it holds.
double Widen(float value) {
  std::array<char, 32> text{};
  const auto written = std::to_chars(text.begin(), text.end(), value);
  double widened = value;
  std::from_chars(text.begin(), written.ptr, widened);
  return widened;
}

// `index` < 0: the field is not repeated.
void WriteScalar(const Message& message, const FieldDescriptor* field, int index,
                 JsonWriter* json) {
  const Reflection* r = message.GetReflection();
  const bool one = index < 0;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      json->Value(static_cast<int64_t>(one ? r->GetInt32(message, field)
                                           : r->GetRepeatedInt32(message, field, index)));
      return;
    case FieldDescriptor::CPPTYPE_INT64:
      json->Value(static_cast<int64_t>(one ? r->GetInt64(message, field)
                                           : r->GetRepeatedInt64(message, field, index)));
      return;
    case FieldDescriptor::CPPTYPE_FLOAT:
      json->Value(
          Widen(one ? r->GetFloat(message, field) : r->GetRepeatedFloat(message, field, index)));
      return;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      json->Value(one ? r->GetDouble(message, field) : r->GetRepeatedDouble(message, field, index));
      return;
    case FieldDescriptor::CPPTYPE_BOOL:
      json->Value(one ? r->GetBool(message, field) : r->GetRepeatedBool(message, field, index));
      return;
    case FieldDescriptor::CPPTYPE_STRING:
      json->Value(one ? r->GetString(message, field) : r->GetRepeatedString(message, field, index));
      return;
    default:
      TL_CHECK(false, "our schemas use int32, int64, float, double, bool and string");
  }
}

void WriteMessage(const Message& message, JsonWriter* json) {
  const Descriptor* type = message.GetDescriptor();
  const Reflection* reflection = message.GetReflection();
  json->BeginObject();
  for (int i = 0; i < type->field_count(); ++i) {
    const FieldDescriptor* field = type->field(i);
    const bool is_message = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!field->is_repeated() && is_message && !reflection->HasField(message, field)) continue;
    json->Key(field->name());
    if (!field->is_repeated()) {
      if (is_message) {
        WriteMessage(reflection->GetMessage(message, field), json);
      } else {
        WriteScalar(message, field, -1, json);
      }
      continue;
    }
    is_message ? json->BeginArray() : json->BeginInlineArray();
    for (int index = 0; index < reflection->FieldSize(message, field); ++index) {
      if (is_message) {
        WriteMessage(reflection->GetRepeatedMessage(message, field, index), json);
      } else {
        WriteScalar(message, field, index, json);
      }
    }
    json->EndArray();
  }
  json->EndObject();
}

Status ReadMessage(const JsonValue& value, Message* message);

// Sets or adds one value.
Status ReadValue(const JsonValue& value, const FieldDescriptor* field, Message* message) {
  const Reflection* r = message->GetReflection();
  const bool many = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ReadMessage(value,
                         many ? r->AddMessage(message, field) : r->MutableMessage(message, field));
    case FieldDescriptor::CPPTYPE_INT32: {
      TL_ASSIGN_OR_RETURN(const int64_t number,
                          value.AsInteger(std::numeric_limits<int32_t>::min(),
                                          std::numeric_limits<int32_t>::max()));
      const int32_t narrow = static_cast<int32_t>(number);
      many ? r->AddInt32(message, field, narrow) : r->SetInt32(message, field, narrow);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      TL_ASSIGN_OR_RETURN(const int64_t number, value.AsInteger());
      many ? r->AddInt64(message, field, number) : r->SetInt64(message, field, number);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      constexpr double kMost = std::numeric_limits<float>::max();
      TL_ASSIGN_OR_RETURN(const double number, value.AsReal(-kMost, kMost));
      const float narrow = static_cast<float>(number);
      many ? r->AddFloat(message, field, narrow) : r->SetFloat(message, field, narrow);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      TL_ASSIGN_OR_RETURN(const double number, value.AsReal());
      many ? r->AddDouble(message, field, number) : r->SetDouble(message, field, number);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      TL_ASSIGN_OR_RETURN(const bool yes, value.AsBool());
      many ? r->AddBool(message, field, yes) : r->SetBool(message, field, yes);
      return absl::OkStatus();
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      TL_ASSIGN_OR_RETURN(std::string text, value.AsString());
      many ? r->AddString(message, field, std::move(text))
           : r->SetString(message, field, std::move(text));
      return absl::OkStatus();
    }
    default:
      return InternalError("a schema uses a type that JSON files do not");
  }
}

Status ReadMessage(const JsonValue& value, Message* message) {
  const Descriptor* type = message->GetDescriptor();
  TL_ASSIGN_OR_RETURN(JsonObject object, value.AsObject());
  for (const auto& [key, entry] : object.Members()) {
    const FieldDescriptor* field = type->FindFieldByName(key);
    if (field == nullptr) {
      std::vector<std::string> names;
      for (int i = 0; i < type->field_count(); ++i) names.push_back(type->field(i)->name());
      return value.Error(UnknownName("field", key, names));
    }
    const google::protobuf::OneofDescriptor* choice = field->real_containing_oneof();
    if (choice != nullptr && message->GetReflection()->HasOneof(*message, choice)) {
      const FieldDescriptor* other =
          message->GetReflection()->GetOneofFieldDescriptor(*message, choice);
      return entry.Error(absl::StrCat("stands beside '", other->name(),
                                      "', but only one of the two may; drop one"));
    }
    if (!field->is_repeated()) {
      TL_RETURN_IF_ERROR(ReadValue(entry, field, message));
      continue;
    }
    TL_ASSIGN_OR_RETURN(const std::vector<JsonValue> items, entry.AsArray());
    for (const JsonValue& item : items) {
      TL_RETURN_IF_ERROR(ReadValue(item, field, message));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string MessageToJson(const Message& message) {
  JsonWriter json;
  WriteMessage(message, &json);
  return json.Take();
}

Status MessageFromJson(std::string_view text, const std::string& where, Message* message) {
  message->Clear();
  JsonLimits limits;
  limits.depth = kMaxDepth;
  TL_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text, where, limits));
  return ReadMessage(document.root(), message);
}

}  // namespace tideline
