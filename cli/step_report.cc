#include "cli/step_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/units.h"
#include "models/profile/profile.h"
#include "planner/program/explain_extent.h"
#include "planner/program/memory.h"

namespace tideline {
namespace {

constexpr double kTera = 1e12;

double PeakFlops(const DeviceSpec& device, DType dtype) {
  return dtype == DType::kF32 ? device.peak_fp32_flops : device.peak_16bit_flops;
}

// Kernels of one body of a role, recomputation and masked halves included.
double ExecutedFlops(const Program& program, const Section& body) {
  double flops = 0;
  for (const Instruction& instruction : body.instructions) {
    if (instruction.kind == InstructionKind::kCompute) {
      flops += program.kernels[instruction.what].work.flops;
    }
  }
  return flops;
}

std::string Share(double part, double whole) {
  return whole > 0 ? absl::StrFormat(" (%.1f %%)", 100 * part / whole) : "";
}

void AppendLine(std::string_view name, const std::string& value, std::string* text) {
  absl::StrAppendFormat(text, "  %-22s %s\n", std::string(name), value);
}

template <typename Number>
std::optional<double> Fraction(const std::optional<TimeSplit<Number>>& split, Number part) {
  const double whole = split.has_value() ? split->Total() : 0;
  if (whole <= 0) return std::nullopt;
  return part / whole;
}

void AppendTimes(const StepReport& report, std::string* text) {
  if (!report.step_time_s.has_value()) return;
  AppendLine("step time", HumanSeconds(*report.step_time_s), text);
  report.tokens_per_s.has_value()
      ? AppendLine("tokens per second", HumanCount(*report.tokens_per_s), text)
      : AppendLine("images per second", HumanCount(*report.samples_per_s), text);
  AppendLine("model FLOP/s per GPU",
             absl::StrCat(HumanFlopsPerSecond(*report.tflops_per_gpu * kTera),
                          absl::StrFormat(" (%.1f %% of the %s ", 100 * *report.mfu,
                                          report.nominal_speeds ? "nominal" : "peak"),
                          HumanFlopsPerSecond(report.peak_flops), ")"),
             text);
  if (!report.split.has_value()) return;
  const TimeSplit<double>& split = *report.split;
  const double whole = split.Total();
  const auto line = [&](std::string_view name, double seconds) {
    // Below a nanosecond is rounding of sums.
    const double shown = seconds < 1e-9 ? 0 : seconds;
    AppendLine(name, HumanSeconds(shown) + Share(shown, whole), text);
  };
  absl::StrAppend(text, "where the time goes, mean over ranks\n");
  line("computing", split.compute);
  line("waiting for launches", split.host);
  line("exposed communication", split.exposed_comm);
  line("pipeline bubble", split.bubble);
  line("other stalls", split.stall);
}

// Layouts this close to their live bound need no explanation.
constexpr double kExplainedRatio = 1.05;

std::string ReasonOfExtent(const Program& program, const Role& role, const MemoryFigures& figures) {
  const double ratio =
      static_cast<double>(figures.extent) / static_cast<double>(figures.live_bound);
  if (figures.live_bound == 0 || ratio <= kExplainedRatio) return "";
  const std::string times = absl::StrFormat("%.2f x the live bound: ", ratio);
  const ExtentReason reason = ExplainExtent(role, Space::kDevice);
  if (reason.highest == kNoId) {
    return absl::StrCat(times, "persistent buffers start at multiples of ", kAlignment, " B");
  }
  const auto name = [&](uint32_t buffer) {
    return buffer == kNoId ? std::string("the bottom")
                           : std::string(NameText(program, role.buffers[buffer].name));
  };
  const auto bytes = [](int64_t value) { return HumanBytes(static_cast<double>(value)); };
  return absl::StrCat(times, name(reason.highest), " (", bytes(role.buffers[reason.highest].bytes),
                      ") lies on top; of ", bytes(reason.free_bytes),
                      " free below the largest piece was ", bytes(reason.largest_hole),
                      reason.largest_hole == 0 ? ""
                                               : absl::StrCat(", between ", name(reason.below),
                                                              " and ", name(reason.above)));
}

}  // namespace

StepReport ReportMemory(const Plan& plan, const Program& program) {
  StepReport report;
  const DeviceSpec& device = plan.cluster.device;
  report.capacity_bytes = device.memory_bytes;
  report.runtime_bytes = device.runtime_reserve_bytes;
  std::vector<MemoryFigures> by_role;
  for (const Role& role : program.roles) {
    by_role.push_back(MeasureMemory(program, role, Space::kDevice));
  }
  std::vector<int64_t> host_bytes(plan.cluster.nodes, 0);
  uint32_t worst = 0;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const uint32_t role = program.ranks[rank].role;
    const MemoryFigures& figures = by_role[role];
    const int64_t peak = figures.extent + report.runtime_bytes;
    report.ranks.push_back({.peak_memory_bytes = peak,
                            .live_bound_bytes = figures.live_bound,
                            .serial_peak_bytes = figures.serial_peak,
                            .live_peak_bytes = std::nullopt,
                            .observed_peak_bytes = std::nullopt});
    if (peak > report.peak_memory_bytes) {
      report.peak_memory_bytes = peak;
      worst = role;
    }
    const size_t node = rank / static_cast<size_t>(plan.cluster.node.gpus);
    host_bytes[node] += program.roles[role].extent[static_cast<int>(Space::kPinnedHost)];
  }
  report.extent_reason = ReasonOfExtent(program, program.roles[worst], by_role[worst]);
  report.peak_by_category = by_role[worst].peak_by_category;
  report.category_max = by_role[worst].category_max;
  report.host_peak_memory_bytes = *std::max_element(host_bytes.begin(), host_bytes.end());
  report.fits = report.peak_memory_bytes <= report.capacity_bytes &&
                report.host_peak_memory_bytes <= plan.cluster.node.host_memory_bytes;
  return report;
}

StatusOr<StepFlops> FlopsOfStep(const Plan& plan, const Program& program) {
  TL_ASSIGN_OR_RETURN(const Profile profile,
                      ProfileModel(plan.model, {.batch = 1, .sequence = plan.seq}));
  StepFlops flops;
  flops.model =
      (profile.flops_forward + profile.flops_backward) * static_cast<double>(plan.global_batch);
  std::vector<double> by_role;
  for (const Role& role : program.roles) {
    const Section* body = SteadyBody(program, role);
    by_role.push_back(body == nullptr ? 0 : ExecutedFlops(program, *body));
  }
  for (const Rank& rank : program.ranks) flops.executed += by_role[rank.role];
  return flops;
}

void SetStepTime(double step_time_s, const Plan& plan, const StepFlops& flops, StepReport* report) {
  report->step_time_s = step_time_s;
  if (step_time_s <= 0) return;
  const double gpus = plan.cluster.gpus();
  report->samples_per_s = static_cast<double>(plan.global_batch) / step_time_s;
  if (TraitsOf(plan.model).samples == SampleKind::kTokens) {
    report->tokens_per_s = *report->samples_per_s * static_cast<double>(plan.seq);
  }
  report->tflops_per_gpu = flops.model / step_time_s / gpus / kTera;
  report->tflops_hw_per_gpu = flops.executed / step_time_s / gpus / kTera;
  report->peak_flops = PeakFlops(plan.cluster.device, plan.dtype);
  report->nominal_speeds = plan.cluster.emulated;
  report->mfu = *report->tflops_per_gpu * kTera / report->peak_flops;
}

void WriteStepReport(const StepReport& report, JsonWriter* json) {
  using Times = TimeSplit<double>;
  const auto part = [&](double Times::*member) -> std::optional<double> {
    if (!report.split.has_value()) return std::nullopt;
    return (*report.split).*member;
  };
  json->Field("step_time_s", report.step_time_s);
  json->Field("samples_per_s", report.samples_per_s);
  json->Field("tokens_per_s", report.tokens_per_s);
  json->Field("tflops_per_gpu", report.tflops_per_gpu);
  json->Field("tflops_hw_per_gpu", report.tflops_hw_per_gpu);
  json->Field("mfu", report.mfu);
  json->Field("compute_s", part(&Times::compute));
  json->Field("host_s", part(&Times::host));
  json->Field("exposed_comm_s", part(&Times::exposed_comm));
  json->Field("bubble_s", part(&Times::bubble));
  json->Field("stall_s", part(&Times::stall));
  json->Field("bubble_fraction", Fraction(report.split, part(&Times::bubble).value_or(0)));
  json->Field("host_bound_fraction", Fraction(report.split, part(&Times::host).value_or(0)));
  json->Field("fits", report.fits);
  json->Field("capacity_bytes", report.capacity_bytes);
  json->Field("peak_memory_bytes", report.peak_memory_bytes);
  json->Field("host_peak_memory_bytes", report.host_peak_memory_bytes);
  const auto categories = [&](const char* name, const std::array<int64_t, kCategories>& bytes) {
    json->Key(name).BeginObject();
    for (int i = 0; i < kCategories; ++i) json->Field(Name(static_cast<Category>(i)), bytes[i]);
    json->EndObject();
  };
  categories("peak_by_category", report.peak_by_category);
  categories("category_max_bytes", report.category_max);
  json->Key("ranks").BeginArray();
  for (size_t rank = 0; rank < report.ranks.size(); ++rank) {
    const RankFigures& figures = report.ranks[rank];
    json->BeginObject();
    json->Field("rank", static_cast<int64_t>(rank));
    json->Field("peak_memory_bytes", figures.peak_memory_bytes);
    json->Field("live_peak_bytes", figures.live_peak_bytes);
    json->Field("live_bound_bytes", figures.live_bound_bytes);
    json->Field("serial_peak_bytes", figures.serial_peak_bytes);
    json->Field("observed_peak_bytes", figures.observed_peak_bytes);
    json->EndObject();
  }
  json->EndArray();
}

void WriteNoStepReport(JsonWriter* json) {
  for (const char* name :
       {"step_time_s", "samples_per_s", "tokens_per_s", "tflops_per_gpu", "tflops_hw_per_gpu",
        "mfu", "compute_s", "host_s", "exposed_comm_s", "bubble_s", "stall_s", "bubble_fraction",
        "host_bound_fraction", "fits", "capacity_bytes", "peak_memory_bytes",
        "host_peak_memory_bytes", "peak_by_category", "category_max_bytes"}) {
    json->NullField(name);
  }
  json->Key("ranks").BeginArray().EndArray();
}

std::string SimulatedSpeedNote(const ClusterSpec& cluster) {
  if (cluster.emulated) {
    return absl::StrCat("nominal speeds (", HumanFlopsPerSecond(cluster.device.peak_fp32_flops),
                        " a GPU, not calibrated): good to compare plans, not to predict times\n");
  }
  return cluster.device.calibrated ? "" : "speeds from data sheets, not calibrated\n";
}

std::string ExecutedSpeedNote(const ClusterSpec& cluster) {
  if (!cluster.emulated) return "";
  return "times are of this machine's cores, which the emulated GPUs share; memory and losses are "
         "what a prediction is held against\n";
}

std::string StepReportText(const StepReport& report) {
  std::string text;
  AppendTimes(report, &text);
  const auto bytes = [](int64_t value) { return HumanBytes(static_cast<double>(value)); };
  absl::StrAppend(&text, "memory of the fullest GPU\n");
  AppendLine("extent",
             absl::StrCat(bytes(report.peak_memory_bytes), " of ", bytes(report.capacity_bytes),
                          report.fits ? "" : ": DOES NOT FIT"),
             &text);
  const auto fullest = std::max_element(report.ranks.begin(), report.ranks.end(),
                                        [](const RankFigures& a, const RankFigures& b) {
                                          return a.peak_memory_bytes < b.peak_memory_bytes;
                                        });
  if (fullest != report.ranks.end()) {
    if (!report.extent_reason.empty()) AppendLine("", report.extent_reason, &text);
    AppendLine("live bound", bytes(fullest->live_bound_bytes), &text);
    AppendLine("serial peak", bytes(fullest->serial_peak_bytes), &text);
    if (fullest->live_peak_bytes) AppendLine("live peak", bytes(*fullest->live_peak_bytes), &text);
    if (fullest->observed_peak_bytes) {
      AppendLine("observed peak", bytes(*fullest->observed_peak_bytes), &text);
    }
  }
  const bool observed = fullest != report.ranks.end() && fullest->observed_peak_bytes.has_value();
  absl::StrAppend(&text, observed ? "at the observed peak\n" : "at the serial peak\n");
  for (int i = 0; i < kCategories; ++i) {
    if (report.peak_by_category[i] == 0) continue;
    AppendLine(Name(static_cast<Category>(i)), bytes(report.peak_by_category[i]), &text);
  }
  return text;
}

}  // namespace tideline
