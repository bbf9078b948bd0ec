#include "cli/run_files.h"

#include <algorithm>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/sha256.h"
#include "planner/lowering/lower.h"
#include "traces/formats/chrome_trace.h"
#include "traces/run/run_file_writer.h"
#include "traces/tide/tide.h"
#include "traces/tide/tide_panels.h"
#include "traces/tide/tide_svg.h"

namespace tideline {
namespace {

std::string CoordinatesText(const Coordinates& coordinates) {
  return absl::StrCat("dp=", coordinates[static_cast<int>(Axis::kData)],
                      " pp=", coordinates[static_cast<int>(Axis::kPipeline)],
                      " tp=", coordinates[static_cast<int>(Axis::kTensor)]);
}

Status WriteRunFile(const RunRecorder& run, const std::string& path) {
  TL_ASSIGN_OR_RETURN(std::unique_ptr<RunFileWriter> writer, RunFileWriter::Create(path));
  writer->SetMetadata(run.metadata());
  for (const std::string& name : run.names()) writer->Intern(name);
  for (const RunLane& lane : run.lanes()) {
    writer->DeclareLane(lane.rank, lane.lane, run.names()[lane.name]);
  }
  for (const RunEvent& event : run.events()) writer->Add(event);
  for (const MemorySample& sample : run.samples()) writer->Add(sample);
  return writer->Finish();
}

// A stream buffer into an AtomicFile, so that a trace is replaced whole or not at all.
class AtomicFileBuffer : public std::streambuf {
 public:
  explicit AtomicFileBuffer(AtomicFile* file) : file_(file) {}

 protected:
  std::streamsize xsputn(const char* bytes, std::streamsize size) override {
    return file_->Append({bytes, static_cast<size_t>(size)}).ok() ? size : 0;
  }
  int overflow(int character) override {
    const char byte = static_cast<char>(character);
    return file_->Append({&byte, 1}).ok() ? character : EOF;
  }

 private:
  AtomicFile* file_;
};

// Viewers take a few hundred MB; an event or a memory sample is about 160 bytes.
constexpr size_t kViewableRecords = 1'000'000;

// What a viewer can open of a long Run: the last recorded step alone, and of that, when it is still
// too long, one rank of every role.
ChromeTraceOptions ViewablePart(const RunRecorder& run) {
  ChromeTraceOptions options;
  if (run.events().size() + run.samples().size() <= kViewableRecords) return options;
  int32_t last_step = -1;
  for (const RunEvent& event : run.events()) last_step = std::max(last_step, event.step);
  size_t records = 0;
  int64_t begin_ns = INT64_MAX;
  std::set<int32_t> recorded;
  for (const RunEvent& event : run.events()) {
    if (event.step != last_step) continue;
    ++records;
    begin_ns = std::min(begin_ns, event.start_ns);
    recorded.insert(event.rank);
  }
  options.begin_ns = begin_ns;
  for (const MemorySample& sample : run.samples()) records += sample.time_ns >= begin_ns ? 1 : 0;
  if (records <= kViewableRecords) return options;
  std::set<std::string> roles;
  for (const RunRank& rank : run.metadata().ranks) {
    if (recorded.contains(rank.rank) && roles.insert(rank.role).second) {
      options.ranks.push_back(rank.rank);
    }
  }
  return options;
}

Status WritePerfetto(const RunRecorder& run, const std::string& path) {
  TL_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::Create(path));
  AtomicFileBuffer buffer(&file);
  std::ostream stream(&buffer);
  TL_RETURN_IF_ERROR(WriteChromeTrace(run, ViewablePart(run), stream));
  return file.Commit();
}

// More would not be looked at; --tide-ranks all draws them.
constexpr size_t kMostPanels = 16;

// At most kMostPanels of them, the first and the last included.
std::vector<TidePanel> Selected(std::vector<TidePanel> panels) {
  if (panels.size() <= kMostPanels) return panels;
  std::vector<TidePanel> selected;
  for (size_t i = 0; i < kMostPanels; ++i) {
    selected.push_back(std::move(panels[i * (panels.size() - 1) / (kMostPanels - 1)]));
  }
  return selected;
}

Status WriteTide(const RunRecorder& run, const RunOutputs& outputs, const PlayedAs& played_as) {
  TL_ASSIGN_OR_RETURN(const Tide tide, BuildTide(run));
  std::vector<TideCurve> curves;
  for (const TideCurve& curve : tide.curves) {
    if (curve.space == static_cast<uint8_t>(Space::kDevice)) curves.push_back(curve);
  }
  const RunMetadata& metadata = run.metadata();
  std::string subtitle = absl::StrCat(metadata.title, ", ", metadata.source);
  std::vector<TidePanel> panels;
  if (outputs.every_tide || !outputs.tide_ranks.empty()) {
    std::vector<int32_t> ranks = outputs.tide_ranks;
    if (outputs.every_tide) {
      for (const RunRank& rank : metadata.ranks) ranks.push_back(rank.rank);
    }
    panels = ChosenPanels(curves, metadata, played_as, ranks);
  } else {
    panels = DistinctPanels(curves, metadata, played_as);
    const size_t distinct = panels.size();
    panels = Selected(std::move(panels));
    if (panels.size() < distinct) {
      absl::StrAppend(&subtitle, "; ", panels.size(), " of ", distinct, " different tides");
    }
  }
  const int height = panels.size() <= 8 ? 150 : panels.size() <= kMostPanels ? 110 : 70;
  return WriteFileAtomically(
      outputs.tide,
      DrawTideSvg(panels, tide.categories,
                  {.title = "Memory tide", .subtitle = subtitle, .panel_height = height}));
}

}  // namespace

RunMetadata MetadataOf(const Plan& plan, const Program& program, const StepReport& report,
                       const std::string& source) {
  RunMetadata metadata;
  metadata.source = source;
  metadata.plan_hash = Sha256Hex(PlanToJson(plan));
  metadata.title = absl::StrCat(TraitsOf(plan.model).name, " on ", plan.cluster.name);
  metadata.kinds = {"compute", "collective", "send",         "receive", "copy",
                    "alloc",   "free",       "host compute", "policy",  "loop"};
  metadata.phases = {"forward", "backward", "recompute", "update"};
  for (int i = 0; i < kSpaces; ++i) metadata.spaces.emplace_back(Name(static_cast<Space>(i)));
  for (int i = 0; i < kCategories; ++i) {
    metadata.categories.emplace_back(Name(static_cast<Category>(i)));
  }
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    metadata.ranks.push_back({.rank = static_cast<int32_t>(rank),
                              .node = static_cast<int32_t>(rank) / plan.cluster.node.gpus,
                              .role = program.roles[program.ranks[rank].role].name,
                              .coordinates = CoordinatesText(program.ranks[rank].coordinates),
                              .capacity_bytes = plan.cluster.device.memory_bytes});
  }
  const auto metric = [&](const char* name, const std::optional<double>& value) {
    if (value.has_value()) metadata.metrics[name] = *value;
  };
  metric("step_time_s", report.step_time_s);
  metric("samples_per_s", report.samples_per_s);
  metric("tokens_per_s", report.tokens_per_s);
  metric("tflops_per_gpu", report.tflops_per_gpu);
  metric("mfu", report.mfu);
  metric("peak_memory_bytes", static_cast<double>(report.peak_memory_bytes));
  if (report.split.has_value()) {
    metric("compute_s", report.split->compute);
    metric("host_s", report.split->host);
    metric("exposed_comm_s", report.split->exposed_comm);
    metric("bubble_s", report.split->bubble);
    metric("stall_s", report.split->stall);
  }
  return metadata;
}

StatusOr<Program> LowerPlanOf(const std::string& path, const Plan& plan) {
  StatusOr<Program> program = Lower(plan);
  if (program.ok()) return program;
  const Status named = Annotate(program.status(), path);
  return absl::IsInvalidArgument(named) ? InputError(std::string(named.message())) : named;
}

std::vector<OptionRecord> RunFileOptions() {
  return {{.name = "perfetto",
           .value_name = "FILE",
           .sentence = "Also writes the Run as Chrome trace JSON, to open at ui.perfetto.dev (of a "
                       "long one the last step, and if need be one rank per role).",
           .path_use = PathUse::kWritesFile},
          {.name = "tide",
           .value_name = "FILE",
           .sentence = "Also draws the memory tide (live bytes over time by category) as SVG.",
           .path_use = PathUse::kWritesFile},
          {.name = "tide-ranks",
           .value_name = "RANKS",
           .sentence = "Panels of --tide: distinct (one for all ranks that look alike), all, or "
                       "chosen ranks as 0,3,8-15.",
           .default_text = "distinct"}};
}

StatusOr<RunOutputs> ReadRunOutputs(const CommandContext& context, int32_t ranks) {
  const OptionValues& options = context.options;
  RunOutputs outputs;
  outputs.run = context.output;
  if (options.Has("perfetto")) outputs.perfetto = options.Text("perfetto");
  if (options.Has("tide")) outputs.tide = options.Text("tide");
  for (const auto& [option, path] : {std::pair{"-o", &outputs.run},
                                     {"--perfetto", &outputs.perfetto},
                                     {"--tide", &outputs.tide}}) {
    if (*path != "-") continue;
    return UsageError(
        absl::StrCat(option, " -: stdout holds the figures; write the name of a file"));
  }
  const std::string& which = options.Text("tide-ranks");
  outputs.every_tide = which == "all";
  if (which == "all" || which == "distinct") return outputs;
  if (outputs.tide.empty()) return UsageError("--tide-ranks chooses panels of --tide FILE; add it");
  StatusOr<std::vector<int32_t>> chosen = ParseRanks(which, ranks);
  if (!chosen.ok()) {
    return UsageError(
        absl::StrCat("--tide-ranks: ", chosen.status().message(), ", or distinct, or all"));
  }
  outputs.tide_ranks = *std::move(chosen);
  return outputs;
}

Status WriteRunFiles(const RunRecorder& run, const RunOutputs& outputs,
                     const std::vector<int32_t>& played_as, const CommandContext& context) {
  if (!outputs.run.empty()) {
    TL_RETURN_IF_ERROR(WriteRunFile(run, outputs.run));
    context.NoteWritten(outputs.run);
  }
  if (!outputs.perfetto.empty()) {
    TL_RETURN_IF_ERROR(WritePerfetto(run, outputs.perfetto));
    context.NoteWritten(outputs.perfetto);
  }
  if (!outputs.tide.empty()) {
    TL_RETURN_IF_ERROR(WriteTide(run, outputs, played_as));
    context.NoteWritten(outputs.tide);
  }
  return absl::OkStatus();
}

}  // namespace tideline
