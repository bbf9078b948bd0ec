#include "planner/plan/pins.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/units.h"
#include "models/cluster/validate.h"

namespace tideline {
namespace {

Status BadValue(const KeyValue& pin, const std::string& wanted) {
  return UsageError(absl::StrCat("pin `", pin.key, "`: ", Quoted(pin.value), " is not ", wanted));
}

template <typename Integer>
Status ReadInteger(const KeyValue& pin, int64_t least, int64_t most,
                   std::optional<Integer>* result) {
  const StatusOr<int64_t> value = ParseInteger(pin.value, least, most);
  if (!value.ok()) {
    return BadValue(pin, absl::StrCat("a whole number from ", least, " to ", most));
  }
  *result = static_cast<Integer>(*value);
  return absl::OkStatus();
}

// The choice whose Name() is the pin's value.
template <typename Value>
Status ReadChoice(const KeyValue& pin, std::initializer_list<Value> choices,
                  std::optional<Value>* result) {
  std::vector<std::string> valid;
  for (const Value choice : choices) {
    if (Name(choice) == pin.value) {
      *result = choice;
      return absl::OkStatus();
    }
    valid.emplace_back(Name(choice));
  }
  return UsageError(absl::StrCat("pin `", pin.key, "`: ", UnknownName("value", pin.value, valid)));
}

Status ReadFlag(const KeyValue& pin, std::optional<bool>* result) {
  if (pin.value != "0" && pin.value != "1") return BadValue(pin, "0 or 1");
  *result = pin.value == "1";
  return absl::OkStatus();
}

Status ReadSize(const KeyValue& pin, std::optional<int64_t>* result) {
  const StatusOr<int64_t> bytes = ParseBytes(pin.value);
  if (!bytes.ok() || *bytes < 1) return BadValue(pin, "a size of at least one byte, like 25MiB");
  *result = *bytes;
  return absl::OkStatus();
}

Status ReadOffload(const KeyValue& pin) {
  if (pin.value == "none") return absl::OkStatus();
  return UsageError(absl::StrCat("pin `offload`: ", UnknownName("value", pin.value, {"none"})));
}

struct PinReader {
  const char* key;
  Status (*read)(const KeyValue& pin, Pins* pins);
};

constexpr PinReader kReaders[] = {
    {"tp", [](const KeyValue& p, Pins* pins) { return ReadInteger(p, 1, kMostGpus, &pins->tp); }},
    {"pp", [](const KeyValue& p, Pins* pins) { return ReadInteger(p, 1, kMostGpus, &pins->pp); }},
    {"dp", [](const KeyValue& p, Pins* pins) { return ReadInteger(p, 1, kMostGpus, &pins->dp); }},
    {"micro_batch",
     [](const KeyValue& p, Pins* pins) {
       return ReadInteger(p, 1, kMostGlobalBatch, &pins->micro_batch);
     }},
    {"zero", [](const KeyValue& p, Pins* pins) { return ReadInteger(p, 0, 3, &pins->zero); }},
    {"reduce",
     [](const KeyValue& p, Pins* pins) {
       return ReadChoice(p, {GradientReduction::kOnce, GradientReduction::kEachMicroBatch},
                         &pins->reduce);
     }},
    {"recompute",
     [](const KeyValue& p, Pins* pins) {
       return ReadChoice(p, {Recompute::kNone, Recompute::kSelective, Recompute::kFull},
                         &pins->recompute);
     }},
    {"attention",
     [](const KeyValue& p, Pins* pins) {
       return ReadChoice(p, {AttentionForm::kUnfused, AttentionForm::kFused}, &pins->attention);
     }},
    {"schedule",
     [](const KeyValue& p, Pins* pins) {
       return ReadChoice(p, {Schedule::kGPipe, Schedule::k1F1B, Schedule::kInterleaved},
                         &pins->schedule);
     }},
    {"chunks",
     [](const KeyValue& p, Pins* pins) { return ReadInteger(p, 1, kMostLayers, &pins->chunks); }},
    {"sequence_parallel",
     [](const KeyValue& p, Pins* pins) { return ReadFlag(p, &pins->sequence_parallel); }},
    {"bucket", [](const KeyValue& p, Pins* pins) { return ReadSize(p, &pins->bucket_bytes); }},
    {"dtype",
     [](const KeyValue& p, Pins* pins) {
       return ReadChoice(p, {DType::kF32, DType::kBF16, DType::kF16}, &pins->dtype);
     }},
    {"grad_dtype",
     [](const KeyValue& p, Pins* pins) {
       return ReadChoice(p, {DType::kF32, DType::kBF16, DType::kF16}, &pins->grad_dtype);
     }},
    {"offload", [](const KeyValue& p, Pins*) { return ReadOffload(p); }},
};

}  // namespace

StatusOr<Pins> ParsePins(std::string_view text) {
  TL_ASSIGN_OR_RETURN(const std::vector<KeyValue> entries, ParseKeyValues(text));
  Pins pins;
  for (const KeyValue& entry : entries) {
    const PinReader* reader = nullptr;
    std::vector<std::string> keys;
    for (const PinReader& candidate : kReaders) {
      if (entry.key == candidate.key) reader = &candidate;
      keys.emplace_back(candidate.key);
    }
    if (reader == nullptr) return UsageError(UnknownName("pin", entry.key, keys));
    TL_RETURN_IF_ERROR(reader->read(entry, &pins));
  }
  return pins;
}

Pins PinsOf(const Plan& plan) {
  return {.tp = plan.tp,
          .pp = plan.pp,
          .dp = plan.dp,
          .micro_batch = plan.micro_batch,
          .zero = plan.zero,
          .reduce = plan.reduce,
          .recompute = plan.recompute,
          .attention = plan.attention == AttentionForm::kFused ? std::optional(plan.attention)
                                                               : std::nullopt,
          .schedule = plan.schedule,
          .chunks = plan.chunks,
          .sequence_parallel = plan.sequence_parallel,
          .bucket_bytes = plan.bucket_bytes,
          .dtype = plan.dtype,
          .grad_dtype = plan.grad_dtype};
}

std::string FormatPins(const Pins& pins) {
  std::string text;
  const auto add = [&](std::string_view key, const std::string& value) {
    absl::StrAppend(&text, text.empty() ? "" : ",", std::string(key), "=", value);
  };
  if (pins.tp) add("tp", absl::StrCat(*pins.tp));
  if (pins.pp) add("pp", absl::StrCat(*pins.pp));
  if (pins.dp) add("dp", absl::StrCat(*pins.dp));
  if (pins.micro_batch) add("micro_batch", absl::StrCat(*pins.micro_batch));
  if (pins.zero) add("zero", absl::StrCat(*pins.zero));
  if (pins.reduce) add("reduce", std::string(Name(*pins.reduce)));
  if (pins.recompute) add("recompute", std::string(Name(*pins.recompute)));
  if (pins.attention) add("attention", std::string(Name(*pins.attention)));
  if (pins.schedule) add("schedule", std::string(Name(*pins.schedule)));
  if (pins.chunks) add("chunks", absl::StrCat(*pins.chunks));
  if (pins.sequence_parallel) add("sequence_parallel", *pins.sequence_parallel ? "1" : "0");
  if (pins.bucket_bytes) add("bucket", FormatBytes(*pins.bucket_bytes));
  if (pins.dtype) add("dtype", std::string(Name(*pins.dtype)));
  if (pins.grad_dtype) add("grad_dtype", std::string(Name(*pins.grad_dtype)));
  return text;
}

}  // namespace tideline
