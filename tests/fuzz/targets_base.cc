// Parsers of base/: sizes, rates, times, lists, JSON.
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "tests/fuzz/target.h"

namespace tideline {
namespace {

// Every parser sees every text; a quantity that is accepted must survive printing.
Status ParseUnits(std::string_view text) {
  const StatusOr<int64_t> bytes = ParseBytes(text);
  if (bytes.ok() && *ParseBytes(FormatBytes(*bytes)) != *bytes) {
    return InternalError("a size changes when printed and read");
  }
  const StatusOr<double> rate = ParseBytesPerSecond(text);
  if (rate.ok() && *ParseBytesPerSecond(FormatBytesPerSecond(*rate)) != *rate) {
    return InternalError("a rate changes when printed and read");
  }
  const StatusOr<double> time_s = ParseSeconds(text);
  if (time_s.ok() && *ParseSeconds(FormatSeconds(*time_s)) != *time_s) {
    return InternalError("a time changes when printed and read");
  }
  const StatusOr<double> speed = ParseFlopsPerSecond(text);
  if (speed.ok() && *ParseFlopsPerSecond(FormatFlopsPerSecond(*speed)) != *speed) {
    return InternalError("a speed changes when printed and read");
  }
  TL_RETURN_IF_ERROR(SplitBracedName(text).status());
  const StatusOr<std::vector<KeyValue>> list = ParseKeyValues(text);
  if (bytes.ok() || rate.ok() || time_s.ok() || speed.ok()) return absl::OkStatus();
  return list.status();
}

std::vector<std::string> UnitSeeds() {
  return {"80GiB",
          "1.5MiB",
          "600GB/s",
          "5us",
          "0.25ms",
          "200Gb/s",
          "312TFLOP/s",
          "tp=8,pp=2,offload={budget=2GiB,depth={a=1}}",
          "9223372036854775807B"};
}

// Visits every value by every accessor; errors must be well formed too.
Status Walk(const JsonValue& value) {
  Status worst;
  const auto note = [&](const Status& status) {
    if (!status.ok()) worst = status;
  };
  note(value.AsBool().status());
  note(value.AsInteger(-5, 5).status());
  note(value.AsReal(0, 1).status());
  note(value.AsString().status());
  if (const StatusOr<std::vector<JsonValue>> items = value.AsArray(); items.ok()) {
    for (const JsonValue& item : *items) note(Walk(item));
  }
  if (StatusOr<JsonObject> object = value.AsObject(); object.ok()) {
    int64_t number = 0;
    note(object->Read("nodes", &number));
    note(object->Finish());
    for (const auto& [name, member] : object->Members()) note(Walk(member));
  }
  return worst;
}

Status ParseJson(std::string_view text) {
  TL_ASSIGN_OR_RETURN(const JsonDocument document, JsonDocument::Parse(text, "fuzz.json"));
  const Status walked = Walk(document.root());
  if (!walked.ok() && (ExitCode(walked) != 5 || walked.message().empty())) {
    return InternalError("an accessor answers without a proper error");
  }
  return absl::OkStatus();
}

std::vector<std::string> JsonSeeds() {
  return {R"({"nodes": 4, "node": {"gpus": 8, "links": [[0, 1], [1, 0]], "rate": 6e11}})",
          R"([null, true, false, -12, 18446744073709551615, 0.5, "täxt\u00e4\n", {}, []])", "\"\""};
}

}  // namespace

std::vector<FuzzTarget> BaseTargets() {
  return {
      {.name = "units",
       .parse = ParseUnits,
       .seeds = UnitSeeds,
       .tokens = {"GiB", "GB/s", "us", "Gb/s", "FLOP/s", "{", "}", "=", ",", ".", "e9"},
       .exit_codes = {2, 3, 5}},
      {.name = "json",
       .parse = ParseJson,
       .seeds = JsonSeeds,
       .tokens = {"{", "}", "[", "]", ":", ",", "\"", "\\u", "\\ud800", "null", "true", "1e999",
                  "\"nodes\": 1,", "/*", "[[[[[[[[[[[[[[["}},
  };
}

}  // namespace tideline
