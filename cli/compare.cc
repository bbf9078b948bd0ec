#include "cli/compare.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/json.h"
#include "base/units.h"
#include "cli/run_files.h"
#include "cli/simulate.h"
#include "cli/table.h"
#include "planner/plan/pins.h"
#include "planner/plan/validate.h"
#include "traces/run/run_file_reader.h"

namespace tideline {
namespace {

enum class Unit { kSeconds, kBytes, kCount, kTeraflops, kShare };

struct FigureRow {
  const char* key;
  const char* text;
  Unit unit;
  bool part_of_step;  // a class of DEFINITIONS 19: the differences add up to that of the mean step
};

constexpr std::array<FigureRow, 11> kFigures = {{
    {"step_time_s", "step time", Unit::kSeconds, false},
    {"compute_s", "  computing", Unit::kSeconds, true},
    {"host_s", "  waiting for launches", Unit::kSeconds, true},
    {"exposed_comm_s", "  exposed communication", Unit::kSeconds, true},
    {"bubble_s", "  pipeline bubble", Unit::kSeconds, true},
    {"stall_s", "  other stalls", Unit::kSeconds, true},
    {"samples_per_s", "samples per second", Unit::kCount, false},
    {"tokens_per_s", "tokens per second", Unit::kCount, false},
    {"tflops_per_gpu", "model FLOP/s per GPU", Unit::kTeraflops, false},
    {"mfu", "share of peak", Unit::kShare, false},
    {"peak_memory_bytes", "peak memory", Unit::kBytes, false},
}};

constexpr double kRounding = 1e-9;  // of a figure
constexpr double kShortest = 1e-9;  // seconds; what is shorter is rounding of sums

// One of the two: a plan with its simulation, or a recorded Run.
struct Side {
  std::string kind;  // "plan, simulated", "run, emulated"
  std::string title;
  std::map<std::string, std::string> decisions;  // plans only
  std::map<std::string, double> metrics;
  bool emulated = false;  // executed on emulated GPUs
};

Side FromMetadata(const std::string& kind, const RunMetadata& metadata) {
  return {.kind = absl::StrCat(kind, ", ", metadata.source),
          .title = metadata.title,
          .decisions = {},
          .metrics = metadata.metrics,
          .emulated = metadata.source == "emulated"};
}

std::map<std::string, std::string> DecisionsOf(const Plan& plan) {
  std::map<std::string, std::string> decisions = {
      {"model", TraitsOf(plan.model).name},
      {"cluster", plan.cluster.name},
      {"seq", absl::StrCat(plan.seq)},
      {"global_batch", absl::StrCat(plan.global_batch)}};
  const std::string pins = FormatPins(PinsOf(plan));
  for (const absl::string_view pin : absl::StrSplit(pins, ',')) {
    const std::vector<std::string> parts = absl::StrSplit(pin, '=');
    decisions[parts[0]] = parts[1];
  }
  return decisions;
}

// A Run file cut off inside its first word is no plan: one begins with { or with a whole word.
bool BeginsAsRun(std::string_view content) {
  constexpr std::string_view kMagic = "TLRUN";
  return !content.empty() && content.starts_with(kMagic.substr(0, content.size()));
}

StatusOr<Side> RunSide(const RunFileReader& reader, const std::string& path) {
  if (!reader.complete()) {
    return InputError(
        absl::StrCat(path, ": the Run is cut off, its end is missing; record it again"));
  }
  // Walks every block, so that a damaged one is found by its checksum.
  TL_RETURN_IF_ERROR(
      reader.VisitEvents([](std::span<const RunEvent>) { return absl::OkStatus(); }));
  TL_RETURN_IF_ERROR(
      reader.VisitSamples([](std::span<const MemorySample>) { return absl::OkStatus(); }));
  return FromMetadata("run", reader.metadata());
}

StatusOr<Side> PlanSide(const std::string& content, const std::string& path) {
  TL_ASSIGN_OR_RETURN(const Plan plan, ParsePlan(content, path));
  TL_RETURN_IF_ERROR(Annotate(Validate(plan), path));
  TL_ASSIGN_OR_RETURN(const Program program, LowerPlanOf(path, plan));
  TL_ASSIGN_OR_RETURN(const StepReport report,
                      SimulatedReport(plan, program, {}, nullptr, nullptr));
  Side side = FromMetadata("plan", MetadataOf(plan, program, report, "simulated"));
  side.decisions = DecisionsOf(plan);
  return side;
}

StatusOr<Side> ReadSide(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_regular_file(path, error)) {
    std::string begin(5, '\0');
    std::ifstream file(path, std::ios::binary);
    file.read(begin.data(), static_cast<std::streamsize>(begin.size()));
    begin.resize(static_cast<size_t>(file.gcount()));
    if (BeginsAsRun(begin)) {
      TL_ASSIGN_OR_RETURN(const auto reader, RunFileReader::Open(path));
      return RunSide(*reader, path);
    }
  }
  // A pipe can be read once only, so what it is shows when it is in memory.
  TL_ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
  if (content.empty()) {
    return InputError(absl::StrCat(path, ": it is empty; give a plan or a Run file"));
  }
  if (!BeginsAsRun(content)) return PlanSide(content, path);
  TL_ASSIGN_OR_RETURN(const auto reader, RunFileReader::FromBytes(content, path));
  return RunSide(*reader, path);
}

std::optional<double> Metric(const Side& side, const char* key) {
  const auto found = side.metrics.find(key);
  if (found == side.metrics.end()) return std::nullopt;
  return found->second;
}

// `difference`: of two values, with its sign; shares then differ by percentage points.
std::string Show(const std::optional<double>& value, Unit unit, bool difference) {
  if (!value.has_value()) return "-";
  double size = std::fabs(*value);
  if (unit == Unit::kSeconds && size < kShortest) size = 0;
  const std::string sign = size == 0 || !difference ? "" : *value < 0 ? "-" : "+";
  switch (unit) {
    case Unit::kSeconds:
      return sign + HumanSeconds(size);
    case Unit::kBytes:
      return sign + HumanBytes(size);
    case Unit::kCount:
      return sign + HumanCount(size);
    case Unit::kTeraflops:
      return sign + HumanFlopsPerSecond(size * 1e12);
    case Unit::kShare:
      break;
  }
  return absl::StrFormat(difference ? "%s%.1f points" : "%s%.1f %%", sign, 100 * size);
}

std::optional<double> Difference(const std::optional<double>& a, const std::optional<double>& b) {
  if (!a.has_value() || !b.has_value()) return std::nullopt;
  const double difference = *b - *a;
  // Times of equal plans differ by the rounding of a clock that did not start at 0.
  const double rounding = kRounding * std::max(std::fabs(*a), std::fabs(*b));
  return std::fabs(difference) <= rounding ? 0 : difference;
}

// The mean step's difference: what the classes add up to.
double StepGap(const Side& a, const Side& b) {
  double gap = 0;
  for (const FigureRow& figure : kFigures) {
    if (!figure.part_of_step) continue;
    gap += Difference(Metric(a, figure.key), Metric(b, figure.key)).value_or(0);
  }
  return std::fabs(gap) < kShortest ? 0 : gap;
}

// Names of decisions that differ; only where both sides are plans.
std::vector<std::string> ChangedDecisions(const Side& a, const Side& b) {
  std::vector<std::string> changed;
  for (const auto& [name, value] : a.decisions) {
    const auto other = b.decisions.find(name);
    if (other != b.decisions.end() && other->second != value) changed.push_back(name);
  }
  return changed;
}

std::string Text(const Side& a, const Side& b) {
  std::string text =
      absl::StrCat("A: ", a.title, " (", a.kind, ")\nB: ", b.title, " (", b.kind, ")\n\n");
  const std::vector<std::string> changed = ChangedDecisions(a, b);
  if (!changed.empty()) {
    std::vector<std::vector<std::string>> rows;
    for (const std::string& name : changed) {
      rows.push_back({name, a.decisions.at(name), b.decisions.at(name)});
    }
    absl::StrAppend(&text, FormatTable({"changed decision", "A", "B"}, rows), "\n");
  }
  const double gap = StepGap(a, b);
  std::vector<std::vector<std::string>> rows;
  for (const FigureRow& figure : kFigures) {
    const auto before = Metric(a, figure.key);
    const auto after = Metric(b, figure.key);
    const auto difference = Difference(before, after);
    std::string share;
    if (figure.part_of_step && difference.has_value() && gap != 0) {
      share = absl::StrFormat("%.1f %%", 100 * *difference / gap);
    }
    rows.push_back({figure.text, Show(before, figure.unit, false), Show(after, figure.unit, false),
                    Show(difference, figure.unit, true), share});
  }
  absl::StrAppend(&text, FormatTable({"figure", "A", "B", "B - A", "of the gap"}, rows));
  if (a.emulated != b.emulated) {
    absl::StrAppend(&text,
                    "\nThe executed Run took the time of this machine's cores, which the emulated "
                    "GPUs share:\nits memory is what a prediction is held against, its times are "
                    "not.\n");
  }
  return text;
}

void WriteSide(const char* name, const Side& side, JsonWriter* json) {
  json->Key(name).BeginObject().Field("kind", side.kind).Field("title", side.title);
  for (const FigureRow& figure : kFigures) json->Field(figure.key, Metric(side, figure.key));
  json->EndObject();
}

std::string Json(const Side& a, const Side& b) {
  JsonWriter json;
  json.BeginObject().Field("schema_version", 1);
  WriteSide("a", a, &json);
  WriteSide("b", b, &json);
  json.Key("changed_decisions").BeginArray();
  for (const std::string& name : ChangedDecisions(a, b)) {
    json.BeginObject().Field("name", name);
    json.Field("a", a.decisions.at(name)).Field("b", b.decisions.at(name)).EndObject();
  }
  json.EndArray();
  json.Key("gap").BeginObject();
  for (const FigureRow& figure : kFigures) {
    json.Field(figure.key, Difference(Metric(a, figure.key), Metric(b, figure.key)));
  }
  json.EndObject().EndObject();
  return json.Take();
}

class CompareCommand : public Command {
 public:
  CommandInfo Info() const override {
    return {
        .name = "compare",
        .summary = "Shows two plans or Runs side by side, with the gap in step time attributed",
        .description =
            "A plan is simulated first; a Run file (`-o` of simulate and execute) is read. So a "
            "plan can be compared with a plan, a prediction with what was measured, or two runs. "
            "The last column says which part of the difference in step time comes from where.",
        .examples = {"tideline compare plan.json run.tlr", "tideline compare plan.json other.json",
                     "tideline compare before.tlr after.tlr --json"},
        .arguments = {{.name = "A", .sentence = "A plan or Run file.", .path_use = PathUse::kReads},
                      {.name = "B", .sentence = "Another one.", .path_use = PathUse::kReads}}};
  }

  Status Run(CommandContext* context) const override {
    TL_ASSIGN_OR_RETURN(const Side a, ReadSide(context->arguments[0]));
    TL_ASSIGN_OR_RETURN(const Side b, ReadSide(context->arguments[1]));
    context->Print(context->json ? Json(a, b) : Text(a, b));
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Command> MakeCompareCommand() { return std::make_unique<CompareCommand>(); }

}  // namespace tideline
