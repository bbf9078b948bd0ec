#include "cli/quickstart.h"

#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/units.h"
#include "cli/execute.h"
#include "cli/executed_report.h"
#include "cli/run_files.h"
#include "cli/simulate.h"
#include "cli/simulator_evaluator.h"
#include "cli/table.h"
#include "exec/launch/worker_client.h"
#include "models/cluster/cluster_json.h"
#include "models/import/load_model.h"
#include "planner/lowering/lower.h"
#include "planner/plan/workload.h"
#include "planner/search/search.h"
#include "traces/tide/tide_panels.h"

namespace tideline {
namespace {

// Small enough for seconds on two cores, large enough that every part of the plan shows.
constexpr const char* kModel = "gpt:layers=4,hidden=96,heads=4,vocab=256";
constexpr const char* kCluster = "emulated:4x256MiB";
constexpr int64_t kSequence = 96;
constexpr int64_t kGlobalBatch = 16;
constexpr int64_t kReferenceSteps = 3;
// Two: persistent buffers that a step touches only at its end are seen to live from its start in
// the second.
constexpr int64_t kObservedSteps = 2;

// What is written into the folder.
constexpr const char* kFiles[] = {"plan.json",    "simulated.tlr",       "simulated.trace.json",
                                  "executed.tlr", "executed.trace.json", "tide.svg"};

std::string Bytes(int64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

// The losses that the independent reference prints; none when the program is not there.
StatusOr<std::vector<double>> ReferenceLosses(const std::string& program) {
  const std::string command = absl::StrCat("'", program, "' ", kModel, " ", kSequence, " ",
                                           kGlobalBatch, " ", kReferenceSteps, " 0");
  std::FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return UnavailableError(absl::StrCat("cannot start ", program));
  std::vector<double> losses;
  double loss = 0;
  while (std::fscanf(pipe, "%lf", &loss) == 1) losses.push_back(loss);
  if (pclose(pipe) != 0 || losses.size() != kReferenceSteps) {
    return RunError(absl::StrCat(program, " did not give ", kReferenceSteps, " losses"));
  }
  return losses;
}

StatusOr<RankedPlan> FindPlan(CommandContext* context) {
  TL_ASSIGN_OR_RETURN(const LoadedModel model, LoadModel(kModel, kSequence));
  TL_ASSIGN_OR_RETURN(const ClusterSpec cluster, LoadCluster(kCluster));
  WorkloadRequest request;
  request.seq = kSequence;
  request.global_batch = kGlobalBatch;
  TL_ASSIGN_OR_RETURN(const Workload workload, MakeWorkload(model.config, cluster, request));
  TL_ASSIGN_OR_RETURN(auto evaluator, MakeSimulatorEvaluator(context->progress()));
  TL_ASSIGN_OR_RETURN(SearchResult result, SearchPlans(workload, {}, {}, evaluator.get()));
  if (!result.feasible) return InfeasibleError("no plan of the quickstart model fits");
  context->Print(absl::StrCat("  ", result.considered,
                              " plans considered; the best: ", result.candidates[0].pin, "\n"));
  return std::move(result.candidates[0]);
}

struct Executed {
  RunReport run;
  StepReport report;
};

StatusOr<Executed> Execute(const Plan& plan, const Program& program, int64_t steps, bool observe,
                           RunSink* sink, CommandContext* context) {
  WorkerRequest request = RequestFor(plan, program);
  request.steps = steps;
  request.eager = observe;
  if (observe) request.schedule = SchedulePolicy::kSerial;
  request.record = sink != nullptr;
  TL_ASSIGN_OR_RETURN(const std::string worker, FindWorker("tideline-worker-emulated"));
  const std::unique_ptr<RunObserver> watcher = MakeStepWatcher(steps, context);
  Executed executed;
  TL_ASSIGN_OR_RETURN(
      executed.run, RunWorker(worker, request, program, {.sink = sink, .observer = watcher.get()}));
  if (!executed.run.finding.empty()) return ComparisonError(executed.run.finding);
  TL_ASSIGN_OR_RETURN(executed.report, ExecutedReport(plan, program, executed.run));
  return executed;
}

std::string LossTable(const std::vector<double>& losses, const std::vector<double>& reference) {
  std::vector<std::vector<std::string>> rows;
  const size_t stride = std::max<size_t>(1, losses.size() / 8);
  for (size_t step = 0; step < losses.size(); ++step) {
    const bool has_reference = step < reference.size();
    if (!has_reference && step % stride != 0 && step + 1 != losses.size()) continue;
    rows.push_back(
        {absl::StrCat(step), absl::StrFormat("%.6f", losses[step]),
         has_reference ? absl::StrFormat("%.6f", reference[step]) : "",
         has_reference ? absl::StrFormat("%.1e", std::fabs(losses[step] - reference[step])) : ""});
  }
  return FormatTable({"step", "loss", "reference", "difference"}, rows);
}

struct Figures {
  StepReport simulated;
  StepReport executed;
  StepReport observed;
};

// The three memory figures of a rank, predicted and measured.
using MemoryRow = std::array<std::optional<int64_t>, 6>;

MemoryRow MemoryOf(const Figures& figures, size_t rank) {
  const RankFigures& predicted = figures.simulated.ranks[rank];
  const RankFigures& measured = figures.executed.ranks[rank];
  return {predicted.peak_memory_bytes, measured.peak_memory_bytes,
          predicted.live_bound_bytes,  measured.live_peak_bytes,
          predicted.serial_peak_bytes, figures.observed.ranks[rank].observed_peak_bytes};
}

std::string MemoryTable(const Figures& figures) {
  // Ranks with equal figures share their rows.
  std::map<MemoryRow, std::vector<int32_t>> groups;
  for (size_t rank = 0; rank < figures.simulated.ranks.size(); ++rank) {
    groups[MemoryOf(figures, rank)].push_back(static_cast<int32_t>(rank));
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& [figure, ranks] : groups) {
    const std::string who =
        absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", FormatRanks(ranks));
    const auto row = [&](const char* name, const std::optional<int64_t>& before,
                         const std::optional<int64_t>& after) {
      const auto text = [](const std::optional<int64_t>& bytes) {
        return bytes.has_value() ? absl::StrCat(*bytes) : "-";
      };
      rows.push_back({absl::StrCat(who, " ", name), text(before), text(after)});
    };
    row("extent (reserved)", figure[0], figure[1]);
    row("live peak, at most the bound", figure[2], figure[3]);
    row("serial peak (observed)", figure[4], figure[5]);
  }
  return absl::StrCat(FormatTable({"memory, bytes", "predicted", "measured"}, rows),
                      "extent: what a GPU reserves; live peak: the most alive at once; serial "
                      "peak: the same\nin list order, measured by an allocator that knows nothing "
                      "of the plan\n");
}

std::string TimeTable(const Figures& figures) {
  const TimeSplit<double>& before = *figures.simulated.split;
  const TimeSplit<double>& after = *figures.executed.split;
  std::vector<std::vector<std::string>> rows;
  rows.push_back({"step", HumanSeconds(figures.simulated.step_time_s.value_or(0)),
                  HumanSeconds(figures.executed.step_time_s.value_or(0))});
  const auto row = [&](const char* name, double predicted, double measured) {
    rows.push_back({name, absl::StrFormat("%.1f %%", 100 * predicted / before.Total()),
                    absl::StrFormat("%.1f %%", 100 * measured / after.Total())});
  };
  row("  computing", before.compute, after.compute);
  row("  waiting for launches", before.host, after.host);
  row("  exposed communication", before.exposed_comm, after.exposed_comm);
  row("  pipeline bubble", before.bubble, after.bubble);
  row("  other stalls", before.stall, after.stall);
  return absl::StrCat(FormatTable({"where the time goes", "simulated", "executed"}, rows),
                      "simulated at nominal speeds, executed on this machine's cores, which the "
                      "emulated GPUs\nshare: these times need not agree\n");
}

// Every figure that must agree does.
Status CheckAgreement(const Figures& figures, const std::vector<double>& losses,
                      const std::vector<double>& reference) {
  for (size_t rank = 0; rank < figures.simulated.ranks.size(); ++rank) {
    const RankFigures& predicted = figures.simulated.ranks[rank];
    const RankFigures& observed = figures.observed.ranks[rank];
    if (observed.observed_peak_bytes != predicted.serial_peak_bytes) {
      return ComparisonError(absl::StrCat("rank ", rank, ": observed peak ",
                                          observed.observed_peak_bytes.value_or(-1),
                                          " bytes, predicted ", predicted.serial_peak_bytes));
    }
    if (figures.executed.ranks[rank].live_peak_bytes > predicted.live_bound_bytes) {
      return ComparisonError(absl::StrCat("rank ", rank, ": live peak above the live bound"));
    }
  }
  for (size_t step = 0; step < std::min<size_t>(3, reference.size()); ++step) {
    if (std::fabs(losses[step] - reference[step]) > 1e-5) {
      return ComparisonError(
          absl::StrCat("step ", step, ": loss ", losses[step], ", reference ", reference[step]));
    }
  }
  if (!(losses.back() < losses.front())) return ComparisonError("the loss does not fall");
  return absl::OkStatus();
}

class QuickstartCommand : public Command {
 public:
  CommandInfo Info() const override {
    return {
        .name = "quickstart",
        .summary = "Plans, simulates and executes a small GPT and compares the two",
        .description =
            "Searches a plan of a small GPT for four emulated GPUs, simulates it, trains it on the "
            "built-in text, and prints what was predicted beside what was measured. Writes plan, "
            "runs, a Perfetto trace and a picture of the memory tide into a folder.",
        .examples = {"tideline quickstart", "tideline quickstart --steps 20 --folder try"},
        .options = {{.name = "steps",
                     .kind = OptionKind::kInteger,
                     .value_name = "N",
                     .sentence = "Training steps.",
                     .default_text = "40",
                     .least = 5,
                     .most = 100000},
                    {.name = "folder",
                     .value_name = "DIR",
                     .sentence = "Where the files go.",
                     .default_text = "quickstart",
                     .path_use = PathUse::kWritesFolder},
                    {.name = "reference",
                     .value_name = "PROGRAM",
                     .sentence = "The independent reference program to hold losses against."}}};
  }

  Status Run(CommandContext* context) const override {
    const std::string folder = context->options.Text("folder");
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return RunError(absl::StrCat(folder, ": ", error.message()));
    for (const char* name : kFiles) {
      TL_RETURN_IF_ERROR(CheckWritable(absl::StrCat(folder, "/", name)));
    }
    context->Print(absl::StrCat("1. plan ", kModel, " on ", kCluster, "\n"));
    TL_ASSIGN_OR_RETURN(const RankedPlan ranked, FindPlan(context));
    const Plan& plan = ranked.plan;
    TL_RETURN_IF_ERROR(WritePlan(plan, absl::StrCat(folder, "/plan.json")));
    context->NoteWritten(folder + "/plan.json");
    TL_ASSIGN_OR_RETURN(const Program program, Lower(plan));

    Figures figures;
    RunRecorder simulated;
    SimulationResult result;
    TL_ASSIGN_OR_RETURN(figures.simulated, SimulatedReport(plan, program, {}, &simulated, &result));
    simulated.SetMetadata(MetadataOf(plan, program, figures.simulated, "simulated"));
    TL_RETURN_IF_ERROR(WriteRunFiles(simulated,
                                     {.run = folder + "/simulated.tlr",
                                      .perfetto = folder + "/simulated.trace.json",
                                      .tide = folder + "/tide.svg"},
                                     PlayedAsOf(result), *context));
    context->Print(absl::StrCat("2. simulate: step ", HumanSeconds(ranked.evaluation.step_time_s),
                                " at nominal speeds (not calibrated), extent ",
                                Bytes(figures.simulated.peak_memory_bytes), " per GPU\n"));

    RunRecorder recorded;
    TL_ASSIGN_OR_RETURN(
        const Executed executed,
        Execute(plan, program, context->options.Integer("steps"), false, &recorded, context));
    figures.executed = executed.report;
    recorded.SetMetadata(MetadataOf(plan, program, executed.report, "emulated"));
    TL_RETURN_IF_ERROR(WriteRunFiles(recorded,
                                     {.run = folder + "/executed.tlr",
                                      .perfetto = folder + "/executed.trace.json",
                                      .tide = folder + "/executed.tide.svg"},
                                     {}, *context));
    TL_ASSIGN_OR_RETURN(const Executed observed,
                        Execute(plan, program, kObservedSteps, true, nullptr, context));
    figures.observed = observed.report;
    context->Print(
        absl::StrCat("3. execute: ", executed.run.losses.size(), " steps on 4 emulated GPUs\n\n"));

    std::vector<double> reference;
    if (context->options.Has("reference")) {
      context->Note("running the independent reference");
      TL_ASSIGN_OR_RETURN(reference, ReferenceLosses(context->options.Text("reference")));
    }
    context->Print(LossTable(executed.run.losses, reference) + "\n" + MemoryTable(figures) + "\n" +
                   TimeTable(figures) + "\n");
    TL_RETURN_IF_ERROR(CheckAgreement(figures, executed.run.losses, reference));
    context->Print(absl::StrCat("agreed: memory to the byte on every rank",
                                reference.empty() ? "" : ", losses with the reference within 1e-5",
                                ", and the loss fell\n\n", Next(folder)));
    return absl::OkStatus();
  }

 private:
  static std::string Next(const std::string& folder) {
    return absl::StrCat(
        "what to try next\n", "  open ", folder, "/tide.svg in a browser, ", folder,
        "/simulated.trace.json at ui.perfetto.dev\n",
        "  ./tideline plan llama2-70b --cluster '8x dgx-a100-80g' -o p.json   (a minute)\n",
        "  ./tideline simulate p.json --perfetto t.json\n", "  ./tideline execute ", folder,
        "/plan.json --steps 100 --checkpoint run1\n");
  }
};

}  // namespace

std::unique_ptr<Command> MakeQuickstartCommand() { return std::make_unique<QuickstartCommand>(); }

}  // namespace tideline
