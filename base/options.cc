#include "base/options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/text.h"
#include "base/units.h"

namespace tideline {
namespace {

Status WithName(const OptionRecord& record, const Status& status) {
  return Annotate(status, absl::StrCat("--", record.name));
}

}  // namespace

std::string DescribeRange(const OptionRecord& record) {
  switch (record.kind) {
    case OptionKind::kFlag:
      return "no value";
    case OptionKind::kText:
      return "a text";
    case OptionKind::kInteger:
      return absl::StrCat("a whole number from ", static_cast<int64_t>(record.least), " to ",
                          static_cast<int64_t>(record.most));
    case OptionKind::kReal:
      return absl::StrCat("a number from ", ShortestReal(record.least), " to ",
                          ShortestReal(record.most));
    case OptionKind::kBytes:
      return "a size such as 80GiB";
    case OptionKind::kSeconds:
      return "a time such as 5us";
    case OptionKind::kChoice:
      return absl::StrCat("one of ", JoinNames(record.choices));
  }
  return "";
}

Status CheckOptionValue(const OptionRecord& record, std::string_view text) {
  switch (record.kind) {
    case OptionKind::kFlag:
      return absl::OkStatus();
    case OptionKind::kText:
      if (!text.empty()) return absl::OkStatus();
      return WithName(record, UsageError("the value is empty; write some text"));
    case OptionKind::kInteger:
      return WithName(record, ParseInteger(text, static_cast<int64_t>(record.least),
                                           static_cast<int64_t>(record.most))
                                  .status());
    case OptionKind::kReal:
      return WithName(record, ParseReal(text, record.least, record.most).status());
    case OptionKind::kBytes:
      return WithName(record, ParseBytes(text).status());
    case OptionKind::kSeconds:
      return WithName(record, ParseSeconds(text).status());
    case OptionKind::kChoice:
      if (std::find(record.choices.begin(), record.choices.end(), text) != record.choices.end()) {
        return absl::OkStatus();
      }
      return WithName(record, UsageError(UnknownName("value", text, record.choices)));
  }
  return absl::OkStatus();
}

Status OptionValues::Add(const OptionRecord& record, std::string_view text) {
  TL_RETURN_IF_ERROR(CheckOptionValue(record, text));
  std::vector<std::string>& values = values_[record.name];
  if (!values.empty() && !record.repeated) {
    return UsageError(absl::StrCat("--", record.name, ": it is given twice; keep one of them"));
  }
  values.emplace_back(text);
  return absl::OkStatus();
}

Status OptionValues::FillDefaults(const std::vector<OptionRecord>& records) {
  for (const OptionRecord& record : records) {
    if (Has(record.name)) continue;
    if (record.required) {
      return UsageError(absl::StrCat("--", record.name, " is missing; write --", record.name, " ",
                                     record.value_name, ": ", record.sentence));
    }
    if (record.default_text.empty()) continue;
    TL_CHECK(CheckOptionValue(record, record.default_text).ok(), "a default is a valid value");
    values_[record.name].push_back(record.default_text);
  }
  return absl::OkStatus();
}

const std::string& OptionValues::Text(std::string_view name) const { return Texts(name).front(); }

const std::vector<std::string>& OptionValues::Texts(std::string_view name) const {
  const auto found = values_.find(name);
  TL_CHECK(found != values_.end() && !found->second.empty(), "ask Has() before reading an option");
  return found->second;
}

int64_t OptionValues::Integer(std::string_view name) const {
  const StatusOr<int64_t> value = ParseInteger(Text(name), std::numeric_limits<int64_t>::min(),
                                               std::numeric_limits<int64_t>::max());
  TL_CHECK(value.ok(), "the option is an integer");
  return *value;
}

double OptionValues::Real(std::string_view name) const {
  const StatusOr<double> value = ParseReal(Text(name), std::numeric_limits<double>::lowest(),
                                           std::numeric_limits<double>::max());
  TL_CHECK(value.ok(), "the option is a number");
  return *value;
}

int64_t OptionValues::Bytes(std::string_view name) const {
  const StatusOr<int64_t> value = ParseBytes(Text(name));
  TL_CHECK(value.ok(), "the option is a size");
  return *value;
}

double OptionValues::Seconds(std::string_view name) const {
  const StatusOr<double> value = ParseSeconds(Text(name));
  TL_CHECK(value.ok(), "the option is a time");
  return *value;
}

}  // namespace tideline
