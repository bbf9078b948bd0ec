#include "cli/executed_report.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/json.h"
#include "base/text.h"
#include "exec/ops/partial_touch.h"

namespace tideline {
namespace {

constexpr double kNsPerSecond = 1e9;

// DEFINITIONS 18: the median over steps 2..N, the largest over ranks; none with a single step.
std::optional<double> MeasuredStepSeconds(const RunReport& run) {
  std::optional<double> slowest;
  for (const RankReport& rank : run.ranks) {
    if (rank.step_time_ns.size() < 2) return std::nullopt;
    std::vector<int64_t> times(rank.step_time_ns.begin() + 1, rank.step_time_ns.end());
    const size_t middle = times.size() / 2;
    std::nth_element(times.begin(), times.begin() + middle, times.end());
    double median = static_cast<double>(times[middle]);
    if (times.size() % 2 == 0) {
      median =
          (median + static_cast<double>(*std::max_element(times.begin(), times.begin() + middle))) /
          2;
    }
    slowest = std::max(slowest.value_or(0), median / kNsPerSecond);
  }
  return slowest;
}

TimeSplit<double> MeanSplit(const RunReport& run) {
  TimeSplit<double> mean;
  const double scale = 1 / (kNsPerSecond * static_cast<double>(run.counted_steps) *
                            static_cast<double>(run.ranks.size()));
  for (const RankReport& rank : run.ranks) {
    mean.compute += static_cast<double>(rank.time_ns.compute) * scale;
    mean.host += static_cast<double>(rank.time_ns.host) * scale;
    mean.exposed_comm += static_cast<double>(rank.time_ns.exposed_comm) * scale;
    mean.bubble += static_cast<double>(rank.time_ns.bubble) * scale;
    mean.stall += static_cast<double>(rank.time_ns.stall) * scale;
  }
  return mean;
}

void WriteTouched(const RunReport& run, JsonWriter* json) {
  json->Key("touched").BeginArray();
  for (const TouchedOp& touched : run.touched) {
    json->BeginObject().Field("op", Name(touched.op));
    json->Field("declared_bytes", touched.declared_bytes);
    json->Field("touched_bytes", touched.touched_bytes);
    const std::string_view why = PartialTouchReason(touched.op);
    if (why.empty()) {
      json->NullField("why");
    } else {
      json->Field("why", why);
    }
    json->EndObject();
  }
  json->EndArray();
}

// DEFINITIONS 21: null where the plan neither clips nor scales, and in the lists for steps that are
// not known (before a resume) and norms that are no finite numbers.
void WriteGradients(const RunReport& run, JsonWriter* json) {
  if (run.gradients.empty()) {
    json->NullField("gradient_norms").NullField("loss_scales").NullField("skipped_steps");
    return;
  }
  json->Key("gradient_norms").BeginInlineArray();
  for (const StepGradients& step : run.gradients) {
    step.norm.has_value() && std::isfinite(*step.norm) ? json->Value(*step.norm) : json->Null();
  }
  json->EndArray();
  json->Key("loss_scales").BeginInlineArray();
  int64_t skipped = 0;
  for (const StepGradients& step : run.gradients) {
    step.norm.has_value() ? json->Value(step.loss_scale) : json->Null();
    skipped += step.skipped ? 1 : 0;
  }
  json->EndArray();
  json->Field("skipped_steps", skipped);
}

// What clipping and loss scaling did; empty where the plan does neither.
std::string GradientsText(const RunReport& run) {
  if (run.gradients.empty()) return "";
  int64_t skipped = 0;
  for (const StepGradients& step : run.gradients) skipped += step.skipped ? 1 : 0;
  const StepGradients& last = run.gradients.back();
  std::string text = "gradients\n";
  if (last.norm.has_value()) {
    absl::StrAppendFormat(&text, "  norm in the last step  %.6g\n", *last.norm);
  }
  if (last.loss_scale != 0) {
    absl::StrAppendFormat(&text, "  loss scale then        %g\n", last.loss_scale);
  }
  absl::StrAppendFormat(&text, "  steps skipped          %d\n", skipped);
  return text;
}

// Ops that touched less than 99 % of what they declared, with the reason.
std::string TouchedText(const RunReport& run) {
  std::string text;
  for (const TouchedOp& touched : run.touched) {
    const double share = static_cast<double>(touched.touched_bytes) /
                         static_cast<double>(std::max<int64_t>(1, touched.declared_bytes));
    if (share >= 0.99) continue;
    const std::string_view why = PartialTouchReason(touched.op);
    absl::StrAppendFormat(&text, "  %-22s %.1f %% of the declared bytes: %s\n", Name(touched.op),
                          100 * share, why.empty() ? "NO REASON KNOWN" : why);
  }
  return text.empty() ? "" : absl::StrCat("touched by kernels\n", text);
}

}  // namespace

StatusOr<StepReport> ExecutedReport(const Plan& plan, const Program& program,
                                    const RunReport& run) {
  StepReport report = ReportMemory(plan, program);
  constexpr int kDevice = static_cast<int>(Space::kDevice);
  report.peak_memory_bytes = 0;
  const ObservedMemory* fullest = nullptr;
  for (size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const RankReport& measured = run.ranks[rank];
    RankFigures& figures = report.ranks[rank];
    // An eager run reserves every buffer apart; what the plan takes is then its layout.
    const bool eager = measured.observed[kDevice].has_value();
    figures.peak_memory_bytes =
        (eager ? measured.extent : measured.reserved_peak)[kDevice] + report.runtime_bytes;
    figures.live_peak_bytes = measured.live_peak[kDevice];
    report.peak_memory_bytes = std::max(report.peak_memory_bytes, figures.peak_memory_bytes);
    if (!measured.observed[kDevice].has_value()) continue;
    const ObservedMemory& observed = *measured.observed[kDevice];
    figures.observed_peak_bytes = observed.peak;
    if (fullest == nullptr || observed.peak > fullest->peak) fullest = &observed;
  }
  if (fullest != nullptr) {
    report.peak_by_category = fullest->peak_by_category;
  }
  if (run.counted_steps > 0) report.split = MeanSplit(run);
  if (const std::optional<double> seconds = MeasuredStepSeconds(run); seconds.has_value()) {
    TL_ASSIGN_OR_RETURN(const StepFlops flops, FlopsOfStep(plan, program));
    SetStepTime(*seconds, plan, flops, &report);
  }
  return report;
}

std::string ExecutedJson(const Plan& plan, const std::string& device,
                         const std::optional<StepReport>& report, const RunReport& run) {
  JsonWriter json;
  json.BeginObject().Field("schema_version", 1);
  json.Field("model", TraitsOf(plan.model).name).Field("cluster", plan.cluster.name);
  json.Field("device", device).Field("gpus", plan.cluster.gpus());
  if (report.has_value()) {
    WriteStepReport(*report, &json);
  } else {
    WriteNoStepReport(&json);
  }
  json.Key("losses").BeginInlineArray();
  for (const double loss : run.losses) json.Value(loss);
  json.EndArray();
  WriteGradients(run, &json);
  if (run.resumed_from_step >= 0) {
    json.Field("resumed_from_step", run.resumed_from_step);
  } else {
    json.NullField("resumed_from_step");
  }
  if (run.finding.empty()) {
    json.NullField("finding");
  } else {
    json.Field("finding", run.finding);
  }
  WriteTouched(run, &json);
  json.EndObject();
  return json.Take();
}

std::string ExecutedText(const Plan& plan, const std::string& device,
                         const std::optional<StepReport>& report, const RunReport& run) {
  std::string text = absl::StrCat(TraitsOf(plan.model).name, " on ", plan.cluster.name, " (",
                                  Counted(plan.cluster.gpus(), device + " GPU"), ")\n");
  if (report.has_value()) text += ExecutedSpeedNote(plan.cluster);
  if (run.resumed_from_step >= 0) {
    absl::StrAppend(&text, "resumed from step ", run.resumed_from_step, "\n");
  }
  if (!report.has_value()) {
    absl::StrAppend(&text,
                    "nothing was left to run: the checkpoint has as many steps as --steps asks "
                    "for, or more; give a larger --steps to go on\n");
  }
  absl::StrAppend(&text, "loss, nats per token\n");
  const size_t stride = std::max<size_t>(1, run.losses.size() / 10);
  for (size_t step = 0; step < run.losses.size(); ++step) {
    if (step % stride != 0 && step + 1 != run.losses.size()) continue;
    absl::StrAppendFormat(&text, "  step %-6d %.6f\n", step, run.losses[step]);
  }
  text += GradientsText(run);
  if (!report.has_value()) return text;
  return absl::StrCat(text, StepReportText(*report), TouchedText(run));
}

}  // namespace tideline
