#include "cli/simulate.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/names.h"
#include "cli/run_files.h"
#include "models/cluster/cluster_json.h"
#include "planner/plan/validate.h"

namespace tideline {
namespace {

// "rank=3:1.2" slows rank 3's kernels by 1.2.
Status AddSlow(const std::string& text, int ranks, SimulationOptions* options) {
  const std::string usage = absl::StrCat("--slow `", text, "`: write rank=N:FACTOR, as rank=3:1.2");
  const size_t colon = text.find(':');
  if (text.rfind("rank=", 0) != 0 || colon == std::string::npos) return UsageError(usage);
  const StatusOr<int64_t> rank = ParseInteger(text.substr(5, colon - 5), 0, ranks - 1);
  if (!rank.ok()) return UsageError(absl::StrCat(usage, "; the plan has ranks 0 to ", ranks - 1));
  const StatusOr<double> factor = ParseReal(text.substr(colon + 1), 1e-3, 1e6);
  if (!factor.ok()) return UsageError(absl::StrCat(usage, "; ", factor.status().message()));
  if (options->slow.emplace(static_cast<int32_t>(*rank), *factor).second) return absl::OkStatus();
  return UsageError(
      absl::StrCat("--slow `", text, "`: rank ", *rank, " is slowed twice; keep one of them"));
}

std::string Json(const Plan& plan, const StepReport& report, const SimulationResult& result) {
  JsonWriter json;
  json.BeginObject().Field("schema_version", 1);
  json.Field("model", TraitsOf(plan.model).name).Field("cluster", plan.cluster.name);
  json.Field("calibrated", plan.cluster.device.calibrated);
  json.Field("gpus", plan.cluster.gpus());
  WriteStepReport(report, &json);
  json.Field("steady", result.steady);
  json.Field("node_classes", result.node_classes);
  json.Field("activities", result.activities);
  json.EndObject();
  return json.Take();
}

std::vector<OptionRecord> Options() {
  std::vector<OptionRecord> options = {
      {.name = "cluster",
       .value_name = "CLUSTER",
       .sentence = "Another cluster of as many GPUs: a catalogue name or a file.",
       .path_use = PathUse::kReadsOrName},
      {.name = "no-fold",
       .kind = OptionKind::kFlag,
       .sentence = "Simulates every node, not one of each kind."},
      {.name = "slow",
       .value_name = "rank=N:FACTOR",
       .sentence = "Makes the kernels of one rank slower (a straggler).",
       .repeated = true}};
  for (OptionRecord& option : RunFileOptions()) options.push_back(std::move(option));
  return options;
}

class SimulateCommand : public Command {
 public:
  CommandInfo Info() const override {
    return {
        .name = "simulate",
        .summary = "Plays a plan in virtual time: step time, memory tide, where the time goes",
        .description =
            "Lowers the plan to the Program of every rank and plays it on a simulated cluster with "
            "contention on links and cards. Nodes of one kind, which behave alike, are simulated "
            "once; --no-fold simulates all of them. A plan that needs more memory than a GPU has "
            "still gives its "
            "figures, with `fits` false and exit code 3.",
        .examples = {"tideline simulate plan.json",
                     "tideline simulate plan.json --perfetto trace.json --tide tide.svg",
                     "tideline simulate plan.json --cluster 'dgx-a100-40g{gpus=4}' --json",
                     "tideline simulate plan.json --slow rank=3:1.2 -o run.tlr"},
        .arguments = {{.name = "PLAN",
                       .sentence = "A plan file, as `tideline plan -o` writes it.",
                       .path_use = PathUse::kReads}},
        .options = Options(),
        .sections = {ClusterSection()},
        .output_sentence = "Also writes the Run (events and memory samples) to FILE.",
        .writes_output_itself = true};
  }

  Status Run(CommandContext* context) const override {
    TL_ASSIGN_OR_RETURN(Plan plan, ReadPlan(context->arguments[0]));
    if (context->options.Has("cluster")) {
      TL_ASSIGN_OR_RETURN(plan.cluster, LoadCluster(context->options.Text("cluster")));
      const Status fits = Validate(plan);
      if (!fits.ok()) {
        return UsageError(absl::StrCat("--cluster ", context->options.Text("cluster"), ": ",
                                       std::string(fits.message())));
      }
    }
    SimulationOptions options;
    options.fold = !context->options.Flag("no-fold");
    if (context->options.Has("slow")) {
      for (const std::string& text : context->options.Texts("slow")) {
        TL_RETURN_IF_ERROR(AddSlow(text, plan.cluster.gpus(), &options));
      }
    }
    TL_ASSIGN_OR_RETURN(const RunOutputs outputs, ReadRunOutputs(*context, plan.cluster.gpus()));
    context->Note("lowering the plan");
    TL_ASSIGN_OR_RETURN(const Program program, LowerPlanOf(context->arguments[0], plan));
    RunRecorder recorder;
    context->Note("simulating");
    SimulationResult result;
    TL_ASSIGN_OR_RETURN(
        const StepReport report,
        SimulatedReport(plan, program, options, outputs.any() ? &recorder : nullptr, &result));
    if (outputs.any()) {
      recorder.SetMetadata(MetadataOf(plan, program, report, "simulated"));
      TL_RETURN_IF_ERROR(WriteRunFiles(recorder, outputs, PlayedAsOf(result), *context));
    }
    context->Print(context->json ? Json(plan, report, result) : Text(plan, report, result));
    if (report.fits) return absl::OkStatus();
    return InfeasibleError(absl::StrCat(
        context->arguments[0], ": needs ",
        HumanBytes(static_cast<double>(report.peak_memory_bytes)), " on the fullest GPU, ",
        HumanBytes(static_cast<double>(report.capacity_bytes)), " are there (",
        report.peak_memory_bytes - report.capacity_bytes,
        " bytes short); `tideline plan` finds one that fits"));
  }

 private:
  static std::string Text(const Plan& plan, const StepReport& report,
                          const SimulationResult& result) {
    std::string text = absl::StrCat(TraitsOf(plan.model).name, " on ", plan.cluster.name, " (",
                                    Counted(plan.cluster.gpus(), "GPU"));
    if (result.node_classes < plan.cluster.nodes) {
      absl::StrAppend(&text, "; ", plan.cluster.nodes, " nodes of ", result.node_classes,
                      result.node_classes == 1 ? " kind" : " kinds");
    }
    return absl::StrCat(text, ")\n", SimulatedSpeedNote(plan.cluster), StepReportText(report));
  }
};

}  // namespace

std::vector<int32_t> PlayedAsOf(const SimulationResult& result) {
  std::vector<int32_t> played_as;
  for (const RankResult& rank : result.ranks) played_as.push_back(rank.simulated_as);
  return played_as;
}

StatusOr<StepReport> SimulatedReport(const Plan& plan, const Program& program,
                                     const SimulationOptions& options, RunSink* sink,
                                     SimulationResult* result) {
  StepReport report = ReportMemory(plan, program);
  TL_ASSIGN_OR_RETURN(const StepFlops flops, FlopsOfStep(plan, program));
  TL_ASSIGN_OR_RETURN(SimulationResult simulated, Simulate(program, plan.cluster, options, sink));
  SetStepTime(simulated.step_time_s, plan, flops, &report);
  report.split = simulated.mean;
  for (const RankResult& rank : simulated.ranks) {
    report.ranks[rank.rank].live_peak_bytes =
        rank.live_peak_bytes[static_cast<int>(Space::kDevice)];
  }
  if (result != nullptr) *result = std::move(simulated);
  return report;
}

std::unique_ptr<Command> MakeSimulateCommand() { return std::make_unique<SimulateCommand>(); }

}  // namespace tideline
