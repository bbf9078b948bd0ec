#include "cli/optimizer_options.h"

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/units.h"
#include "planner/plan/plan.h"
#include "planner/plan/validate.h"

namespace tideline {
namespace {

Status ReadKind(const std::string& text, AdamSettings* adam) {
  std::vector<std::string> valid;
  for (const RateSchedule schedule :
       {RateSchedule::kConstant, RateSchedule::kLinear, RateSchedule::kCosine}) {
    valid.emplace_back(Name(schedule));
    if (text != Name(schedule)) continue;
    adam->schedule = schedule;
    return absl::OkStatus();
  }
  return UsageError(UnknownName("schedule", text, valid));
}

Status ReadKey(const KeyValue& entry, AdamSettings* adam) {
  if (entry.key == "least") {
    const StatusOr<double> rate = ParseReal(entry.value, 0, std::numeric_limits<float>::max());
    if (rate.ok()) {
      adam->least_learning_rate = static_cast<float>(*rate);
      return absl::OkStatus();
    }
    return UsageError(absl::StrCat("least=", entry.value, ": write a rate such as 1e-5"));
  }
  int64_t* steps = nullptr;
  if (entry.key == "warmup") steps = &adam->warmup_steps;
  if (entry.key == "steps") steps = &adam->decay_steps;
  if (steps == nullptr) {
    return UsageError(UnknownName("key", entry.key, {"warmup", "steps", "least"}));
  }
  const StatusOr<int64_t> count = ParseInteger(entry.value, 0, kMostSteps);
  if (!count.ok()) {
    return UsageError(absl::StrCat(entry.key, "=", entry.value,
                                   ": write a whole number of steps from 0 to ", kMostSteps));
  }
  *steps = *count;
  return absl::OkStatus();
}

// "cosine:warmup=100,steps=1000,least=1e-5", the part from the colon on left out or not.
Status ReadSchedule(const std::string& text, AdamSettings* adam) {
  const size_t colon = text.find(':');
  TL_RETURN_IF_ERROR(ReadKind(text.substr(0, colon), adam));
  if (colon != std::string::npos) {
    TL_ASSIGN_OR_RETURN(const std::vector<KeyValue> entries,
                        ParseKeyValues(text.substr(colon + 1)));
    for (const KeyValue& entry : entries) TL_RETURN_IF_ERROR(ReadKey(entry, adam));
  }
  if (adam->schedule != RateSchedule::kConstant && adam->decay_steps <= adam->warmup_steps) {
    return UsageError(absl::StrCat("steps=", adam->decay_steps, ": ",
                                   std::string(Name(adam->schedule)),
                                   " reaches its least rate at that step, so write one above ",
                                   "warmup=", adam->warmup_steps));
  }
  if (adam->least_learning_rate > adam->learning_rate) {
    return UsageError(absl::StrCat("least=", adam->least_learning_rate,
                                   ": the rate falls to it, so it is at most --lr ",
                                   adam->learning_rate));
  }
  const Status status = ValidateOptimizer(*adam);
  return status.ok() ? status : UsageError(std::string(status.message()));
}

// "65536:steps=2000", the part from the colon on left out or not.
Status ReadLossScale(const std::string& text, GradientOptions* read) {
  const size_t colon = text.find(':');
  const StatusOr<double> scale = ParseReal(text.substr(0, colon), 0, kLargestLossScale);
  if (!scale.ok()) return UsageError("write a power of two such as 65536, or 0 for none");
  read->loss_scale = *scale;
  if (colon != std::string::npos) {
    TL_ASSIGN_OR_RETURN(const std::vector<KeyValue> entries,
                        ParseKeyValues(text.substr(colon + 1)));
    for (const KeyValue& entry : entries) {
      if (entry.key != "steps") return UsageError(UnknownName("key", entry.key, {"steps"}));
      const StatusOr<int64_t> steps = ParseInteger(entry.value, 1, kMostSteps);
      if (!steps.ok()) {
        return UsageError(absl::StrCat("steps=", entry.value,
                                       ": write a whole number of steps from 1 to ", kMostSteps));
      }
      read->loss_scale_steps = *steps;
    }
  }
  const Status status = ValidateGradientControl(
      {.initial_loss_scale = *scale, .growth_steps = read->loss_scale_steps});
  return status.ok() ? status : UsageError(std::string(status.message()));
}

}  // namespace

std::vector<OptionRecord> OptimizerOptions() {
  return {{.name = "lr",
           .kind = OptionKind::kReal,
           .value_name = "RATE",
           .sentence = "Learning rate, the highest that a schedule comes to.",
           .default_text = "1e-3",
           .least = 0,
           .most = 1e6},
          {.name = "lr-schedule",
           .value_name = "SCHEDULE",
           .sentence = "constant, linear or cosine; as cosine:warmup=100,steps=1000,least=1e-5 up "
                       "to --lr over 100 steps and down to 1e-5 at step 1000.",
           .default_text = "constant"},
          {.name = "clip-norm",
           .kind = OptionKind::kReal,
           .value_name = "NORM",
           .sentence = "Scales gradients down to this norm over all parameters when theirs is "
                       "larger; 0: never.",
           .default_text = "0",
           .least = 0,
           .most = 1e30},
          {.name = "loss-scale",
           .value_name = "SCALE",
           .sentence = "Multiplies the loss's gradient by this power of two at first; a step that "
                       "overflows is skipped and halves it, 2000 clean ones double it "
                       "(65536:steps=2000 says so); 0: no loss scaling; default 65536 with fp16, "
                       "else 0."}};
}

StatusOr<GradientOptions> ReadGradientOptions(const OptionValues& options) {
  GradientOptions read;
  read.clip_norm = options.Real("clip-norm");
  if (!options.Has("loss-scale")) return read;
  const std::string& text = options.Text("loss-scale");
  TL_RETURN_IF_ERROR(
      Annotate(ReadLossScale(text, &read), absl::StrCat("--loss-scale ", Quoted(text))));
  return read;
}

StatusOr<AdamSettings> ReadOptimizer(const OptionValues& options) {
  AdamSettings adam;
  adam.learning_rate = static_cast<float>(options.Real("lr"));
  const std::string& schedule = options.Text("lr-schedule");
  TL_RETURN_IF_ERROR(
      Annotate(ReadSchedule(schedule, &adam), absl::StrCat("--lr-schedule ", Quoted(schedule))));
  return adam;
}

}  // namespace tideline
