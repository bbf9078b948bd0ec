#include "cli/run_files.h"

#include <algorithm>
#include <memory>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/sha256.h"
#include "traces/formats/chrome_trace.h"
#include "traces/run/run_file_writer.h"
#include "traces/tide/tide.h"
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

}  // namespace

RunMetadata MetadataOf(const Plan& plan, const Program& program, const StepReport& report,
                       const std::string& source) {
  RunMetadata metadata;
  metadata.source = source;
  metadata.plan_hash = Sha256Hex(PlanToJson(plan));
  metadata.title = absl::StrCat(plan.model.name, " on ", plan.cluster.name);
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

Status WriteRunFiles(const RunRecorder& run, const std::string& run_path,
                     const std::string& perfetto_path) {
  if (!run_path.empty()) TL_RETURN_IF_ERROR(WriteRunFile(run, run_path));
  if (!perfetto_path.empty()) TL_RETURN_IF_ERROR(WritePerfetto(run, perfetto_path));
  return absl::OkStatus();
}

Status WriteTide(const RunRecorder& run, const std::string& path) {
  TL_ASSIGN_OR_RETURN(const Tide tide, BuildTide(run));
  std::vector<TideCurve> device_curves;
  for (const TideCurve& curve : tide.curves) {
    if (curve.space == static_cast<uint8_t>(Space::kDevice)) device_curves.push_back(curve);
  }
  return WriteFileAtomically(
      path,
      DrawTideSvg(device_curves, tide.categories,
                  {.title = "Memory tide",
                   .subtitle = absl::StrCat(run.metadata().title, ", ", run.metadata().source)}));
}

}  // namespace tideline
