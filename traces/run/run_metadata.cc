#include "traces/run/run_metadata.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace tideline {
namespace {

using Json = nlohmann::ordered_json;

Status FieldError(std::string_view field, std::string_view wanted) {
  return InputError(absl::StrCat("run metadata: field ", std::string(field), " must be ",
                                 std::string(wanted),
                                 "; the file was not written by tideline or is damaged"));
}

Status ReadText(const Json& object, const char* field, std::string& value) {
  const auto found = object.find(field);
  if (found == object.end()) return absl::OkStatus();
  if (!found->is_string()) return FieldError(field, "a text");
  value = found->get<std::string>();
  return absl::OkStatus();
}

template <class Integer>
Status ReadInteger(const Json& object, const char* field, Integer& value) {
  const auto found = object.find(field);
  if (found == object.end()) return absl::OkStatus();
  if (!found->is_number_integer() || !(*found >= 0) ||
      *found > std::numeric_limits<Integer>::max()) {
    return FieldError(
        field, absl::StrCat("a whole number from 0 to ", std::numeric_limits<Integer>::max()));
  }
  value = found->get<Integer>();
  return absl::OkStatus();
}

Status ReadTexts(const Json& object, const char* field, std::vector<std::string>& values) {
  const auto found = object.find(field);
  if (found == object.end()) return absl::OkStatus();
  if (!found->is_array()) return FieldError(field, "a list of texts");
  for (const Json& item : *found) {
    if (!item.is_string()) return FieldError(field, "a list of texts");
    values.push_back(item.get<std::string>());
  }
  return absl::OkStatus();
}

Status ReadRanks(const Json& object, std::vector<RunRank>& ranks) {
  const auto found = object.find("ranks");
  if (found == object.end()) return absl::OkStatus();
  if (!found->is_array()) return FieldError("ranks", "a list of objects");
  for (const Json& item : *found) {
    if (!item.is_object()) return FieldError("ranks", "a list of objects");
    RunRank rank;
    TL_RETURN_IF_ERROR(ReadInteger(item, "rank", rank.rank));
    TL_RETURN_IF_ERROR(ReadInteger(item, "node", rank.node));
    TL_RETURN_IF_ERROR(ReadText(item, "role", rank.role));
    TL_RETURN_IF_ERROR(ReadText(item, "coordinates", rank.coordinates));
    TL_RETURN_IF_ERROR(ReadInteger(item, "capacity_bytes", rank.capacity_bytes));
    ranks.push_back(std::move(rank));
  }
  return absl::OkStatus();
}

}  // namespace

std::string ToJson(const RunMetadata& metadata) {
  Json ranks = Json::array();
  for (const RunRank& rank : metadata.ranks) {
    ranks.push_back({{"rank", rank.rank},
                     {"node", rank.node},
                     {"role", rank.role},
                     {"coordinates", rank.coordinates},
                     {"capacity_bytes", rank.capacity_bytes}});
  }
  Json metrics = Json::object();
  for (const auto& [name, value] : metadata.metrics) {
    metrics[name] = std::isfinite(value) ? Json(value) : Json();
  }
  const Json document = {{"schema_version", 1},
                         {"source", metadata.source},
                         {"plan_hash", metadata.plan_hash},
                         {"title", metadata.title},
                         {"kinds", metadata.kinds},
                         {"phases", metadata.phases},
                         {"spaces", metadata.spaces},
                         {"categories", metadata.categories},
                         {"ranks", std::move(ranks)},
                         {"metrics", std::move(metrics)}};
  // Text that is not UTF-8 is shown with replacement characters rather than refused.
  return document.dump(-1, ' ', false, Json::error_handler_t::replace);
}

StatusOr<RunMetadata> ParseRunMetadata(std::string_view json) {
  const Json document = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object()) return FieldError("(document)", "a JSON object");
  RunMetadata metadata;
  TL_RETURN_IF_ERROR(ReadText(document, "source", metadata.source));
  TL_RETURN_IF_ERROR(ReadText(document, "plan_hash", metadata.plan_hash));
  TL_RETURN_IF_ERROR(ReadText(document, "title", metadata.title));
  TL_RETURN_IF_ERROR(ReadTexts(document, "kinds", metadata.kinds));
  TL_RETURN_IF_ERROR(ReadTexts(document, "phases", metadata.phases));
  TL_RETURN_IF_ERROR(ReadTexts(document, "spaces", metadata.spaces));
  TL_RETURN_IF_ERROR(ReadTexts(document, "categories", metadata.categories));
  TL_RETURN_IF_ERROR(ReadRanks(document, metadata.ranks));
  if (const auto metrics = document.find("metrics"); metrics != document.end()) {
    if (!metrics->is_object()) return FieldError("metrics", "an object of numbers");
    for (const auto& [name, value] : metrics->items()) {
      if (!value.is_number() && !value.is_null()) {
        return FieldError(absl::StrCat("metrics.", name), "a number");
      }
      metadata.metrics[name] =
          value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
    }
  }
  return metadata;
}

std::string NameOrNumber(const std::vector<std::string>& names, size_t index,
                         std::string_view what) {
  if (index < names.size()) return names[index];
  return absl::StrCat(std::string(what), " ", index);
}

}  // namespace tideline
