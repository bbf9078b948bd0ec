#include "cli/plan.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/names.h"
#include "cli/optimizer_options.h"
#include "cli/simulator_evaluator.h"
#include "cli/step_report.h"
#include "cli/table.h"
#include "models/cluster/cluster_json.h"
#include "models/import/load_model.h"
#include "planner/plan/pins.h"
#include "planner/plan/workload.h"
#include "planner/search/search.h"

namespace tideline {
namespace {

std::string Bytes(int64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::string Percent(double fraction) { return absl::StrFormat("%.1f %%", 100 * fraction); }

StatusOr<Objective> ParseObjective(const std::string& name) {
  if (name == "throughput") return Objective::kThroughput;
  if (name == "latency") return Objective::kLatency;
  if (name == "memory") return Objective::kMemory;
  return UsageError(absl::StrCat("--objective `", name, "`: one of throughput, latency, memory"));
}

void WriteCandidates(const SearchResult& result, JsonWriter* json) {
  json->Key("candidates").BeginArray();
  for (const RankedPlan& ranked : result.candidates) {
    json->BeginObject().Field("pin", ranked.pin);
    json->Field("step_time_s", ranked.evaluation.step_time_s);
    json->Field("peak_memory_bytes", ranked.evaluation.peak_memory_bytes);
    json->Field("host_peak_memory_bytes", ranked.evaluation.host_peak_memory_bytes);
    json->Field("exposed_comm_fraction", ranked.evaluation.exposed_comm_fraction);
    json->Field("bubble_fraction", ranked.evaluation.bubble_fraction);
    json->Field("host_bound_fraction", ranked.evaluation.host_bound_fraction);
    json->Field("stall_fraction", ranked.evaluation.stall_fraction);
    json->Field("estimated_step_time_s", ranked.estimated_step_time_s).EndObject();
  }
  json->EndArray();
}

// 0 stands for none.
std::optional<double> KnownSeconds(double seconds) {
  return seconds > 0 ? std::optional<double>(seconds) : std::nullopt;
}

void WriteFamilies(const SearchResult& result, JsonWriter* json) {
  json->Key("families").BeginArray();
  for (const FamilyOutcome& family : result.families) {
    json->BeginObject().Field("pin", family.pin).Field("candidates", family.candidates);
    json->Field("over_memory", family.over_memory);
    json->Field("least_peak_bytes", family.least_peak_bytes).Field("exact", family.exact);
    json->Field("estimated_step_time_s", KnownSeconds(family.estimated_step_time_s));
    json->Field("step_time_s", KnownSeconds(family.step_time_s)).Field("listed", family.listed);
    json->Field("reason", family.reason).EndObject();
  }
  json->EndArray();
}

std::string Json(const Workload& workload, const SearchResult& result) {
  JsonWriter json;
  json.BeginObject().Field("schema_version", 1);
  json.Field("model", TraitsOf(workload.model).name).Field("cluster", workload.cluster.name);
  json.Field("calibrated", workload.cluster.device.calibrated);
  json.Field("gpus", workload.cluster.gpus());
  json.Field("seq", workload.seq).Field("global_batch", workload.global_batch);
  json.Field("feasible", result.feasible).Field("considered", result.considered);
  json.Field("bound_s", result.bound_s);
  json.Field("memory_limit_bytes", result.memory_limit_bytes);
  if (result.feasible) {
    json.NullField("least_peak_bytes").NullField("shortfall_bytes");
  } else {
    json.Field("least_peak_bytes", result.least_peak_bytes);
    json.Field("shortfall_bytes", result.shortfall_bytes);
  }
  WriteCandidates(result, &json);
  json.Key("remedies").BeginArray();
  for (const Remedy& remedy : result.remedies) {
    json.BeginObject().Field("what", remedy.what).Field("pin", remedy.pin);
    json.Field("gpus", remedy.gpus).Field("peak_memory_bytes", remedy.peak_memory_bytes);
    json.Field("step_time_s", remedy.step_time_s).EndObject();
  }
  json.EndArray();
  WriteFamilies(result, &json);
  json.EndObject();
  return json.Take();
}

// The decisions of `pin` that are, or are not, in all candidates.
std::string SelectDecisions(const SearchResult& result, const std::string& pin, bool common) {
  std::vector<std::string> selected;
  for (const absl::string_view decision : absl::StrSplit(pin, ',')) {
    const bool everywhere = std::all_of(
        result.candidates.begin(), result.candidates.end(), [&](const RankedPlan& ranked) {
          const std::vector<absl::string_view> others = absl::StrSplit(ranked.pin, ',');
          return std::find(others.begin(), others.end(), decision) != others.end();
        });
    if (everywhere == common) selected.emplace_back(decision);
  }
  return absl::StrJoin(selected, ",");
}

std::string CandidateTable(const SearchResult& result) {
  const bool several = result.candidates.size() > 1;
  const std::string common = SelectDecisions(result, result.candidates[0].pin, true);
  std::vector<std::vector<std::string>> rows;
  for (const RankedPlan& ranked : result.candidates) {
    const Evaluation& evaluation = ranked.evaluation;
    rows.push_back({several ? SelectDecisions(result, ranked.pin, false) : "the only one",
                    HumanSeconds(evaluation.step_time_s), Bytes(evaluation.peak_memory_bytes),
                    Percent(evaluation.exposed_comm_fraction), Percent(evaluation.bubble_fraction),
                    Percent(evaluation.host_bound_fraction), Percent(evaluation.stall_fraction)});
  }
  return absl::StrCat(
      FormatTable({"plan", "step", "peak", "comm", "bubble", "host", "stall"}, rows),
      common.empty() ? ""
                     : absl::StrCat(several ? "all of them: " : "its decisions: ", common, "\n"));
}

std::string FamilyTable(const SearchResult& result) {
  std::vector<std::vector<std::string>> rows;
  for (const FamilyOutcome& family : result.families) {
    if (family.listed) continue;
    rows.push_back({absl::StrCat(family.pin, ": ", family.reason), absl::StrCat(family.candidates),
                    absl::StrCat(family.over_memory),
                    absl::StrCat(family.exact ? "" : "~", Bytes(family.least_peak_bytes))});
  }
  if (rows.empty()) return "";
  return absl::StrCat("\nwhy the others fell out\n",
                      FormatTable({"family", "plans", "too big", "leanest"}, rows),
                      "too big: plans over the limit; leanest: least memory per GPU in the family; "
                      "~ is an estimate\n");
}

std::string Text(const Workload& workload, const SearchResult& result) {
  std::string text = absl::StrCat(
      TraitsOf(workload.model).name, " on ", workload.cluster.name, ": ",
      Counted(workload.cluster.gpus(), "GPU"), ", seq ", workload.seq, ", global batch ",
      workload.global_batch, ", ", std::string(Name(workload.dtype)), "; ",
      Counted(result.considered, "plan"), " considered, limit ", Bytes(result.memory_limit_bytes),
      " per GPU\n", SimulatedSpeedNote(workload.cluster), "\n");
  if (result.feasible) {
    absl::StrAppend(&text, CandidateTable(result),
                    "comm, bubble, host, stall: share of the step in which compute waits for a "
                    "transfer, a peer, its own launch, anything else\n\nno plan here is faster "
                    "than ",
                    HumanSeconds(result.bound_s), " (model FLOPs at peak)\n");
  } else {
    absl::StrAppend(&text, "no plan fits: the leanest (", result.least_pin, ") needs ",
                    result.least_peak_bytes, " bytes (", Bytes(result.least_peak_bytes), "), ",
                    result.shortfall_bytes, " bytes (", Bytes(result.shortfall_bytes),
                    ") more than the limit\n");
    for (const Remedy& remedy : result.remedies) {
      absl::StrAppend(&text, "  would help: ", remedy.what, " (", remedy.pin,
                      "): ", Bytes(remedy.peak_memory_bytes), " per GPU, step about ",
                      HumanSeconds(remedy.step_time_s), "\n");
    }
  }
  absl::StrAppend(&text, FamilyTable(result));
  return text;
}

std::vector<OptionRecord> Options() {
  return {{.name = "cluster",
           .value_name = "CLUSTER",
           .sentence = "The machines: a catalogue name with count and overrides, or a JSON file.",
           .required = true,
           .path_use = PathUse::kReadsOrName},
          {.name = "pin",
           .value_name = "DECISIONS",
           .sentence = "Decisions that are given, as tp=8,pp=4; the others are searched.",
           .repeated = true},
          {.name = "seq",
           .kind = OptionKind::kInteger,
           .value_name = "N",
           .sentence = "Tokens in a sequence; default the model's positions, at most 2048.",
           .least = 1,
           .most = kMostRows},
          {.name = "global-batch",
           .kind = OptionKind::kInteger,
           .value_name = "N",
           .sentence = "Sequences in one optimizer step; default 8 for each GPU.",
           .least = 1,
           .most = kMostGlobalBatch},
          {.name = "memory-limit",
           .kind = OptionKind::kBytes,
           .value_name = "SIZE",
           .sentence = "Memory a plan may take on each GPU, as 40GiB; default what the GPU has."},
          {.name = "objective",
           .kind = OptionKind::kChoice,
           .value_name = "WHAT",
           .sentence = "What makes a plan better:",
           .default_text = "throughput",
           .choices = {"throughput", "latency", "memory"}},
          {.name = "top",
           .kind = OptionKind::kInteger,
           .value_name = "N",
           .sentence = "Plans listed.",
           .default_text = "10",
           .least = 1,
           .most = 1000}};
}

std::vector<OptionRecord> AllOptions() {
  std::vector<OptionRecord> options = Options();
  for (OptionRecord& option : OptimizerOptions()) options.push_back(std::move(option));
  return options;
}

StatusOr<Workload> ReadWorkload(CommandContext* context, const Pins& pins) {
  const OptionValues& options = context->options;
  WorkloadRequest request;
  if (options.Has("seq")) request.seq = options.Integer("seq");
  if (options.Has("global-batch")) request.global_batch = options.Integer("global-batch");
  request.dtype = pins.dtype;
  request.grad_dtype = pins.grad_dtype;
  TL_ASSIGN_OR_RETURN(const LoadedModel model,
                      LoadModel(context->arguments[0], request.seq.value_or(0)));
  for (const std::string& warning : model.warnings) context->Note(warning);
  TL_ASSIGN_OR_RETURN(const ClusterSpec cluster, LoadCluster(options.Text("cluster")));
  TL_ASSIGN_OR_RETURN(Workload workload, MakeWorkload(model.config, cluster, request));
  TL_ASSIGN_OR_RETURN(workload.optimizer, ReadOptimizer(options));
  TL_ASSIGN_OR_RETURN(const GradientOptions gradients, ReadGradientOptions(options));
  workload.clip_norm = gradients.clip_norm;
  workload.loss_scale = gradients.loss_scale;
  workload.loss_scale_steps = gradients.loss_scale_steps;
  return workload;
}

class PlanCommand : public Command {
 public:
  CommandInfo Info() const override {
    return {
        .name = "plan",
        .summary = "Searches the best plans for a model on a cluster within a memory limit",
        .description =
            "Enumerates how a model can be cut over the GPUs (data, tensor and pipeline "
            "parallelism, ZeRO, recomputation, schedules), drops what does not fit, simulates the "
            "most promising and lists them best first, with why the others fell out. Passing a "
            "listed plan back with --pin gives the same plan. When nothing fits, says by how many "
            "bytes and what would help, and ends with exit code 3.",
        .examples = {"tideline plan gpt:layers=4,hidden=96,heads=4,vocab=256 --seq 96 --cluster "
                     "emulated:4x256MiB -o plan.json",
                     "tideline plan llama2-70b --cluster '8x dgx-a100-80g' -o llama.json",
                     "tideline plan gpt2 --cluster dgx-a100-40g --pin tp=2,zero=1 --pin dp=4 "
                     "--top 3",
                     "tideline plan path/to/config.json --cluster 'dgx-a100-80g{gpus=4}' "
                     "--memory-limit 40GiB --json",
                     "tideline plan gpt:layers=2,hidden=64,heads=4,vocab=256 --seq 64 --cluster "
                     "emulated:2x64MiB --lr 3e-3 --lr-schedule "
                     "cosine:warmup=100,steps=1000,least=1e-5 -o cosine.json",
                     "tideline plan opt-30b --cluster 'dgx-a100-40g{gpus=1}'"},
        .arguments = {{.name = "MODEL",
                       .sentence = "What to train: a name of the zoo, sizes of your own, or a "
                                   "config.json (below).",
                       .path_use = PathUse::kReadsOrName}},
        .options = AllOptions(),
        .sections = {ModelSection(), ClusterSection(), PinSection()},
        .output_sentence =
            "Writes the best plan to FILE as JSON; - is stdout, in place of the "
            "table.",
        .writes_output_itself = true};
  }

  Status Run(CommandContext* context) const override {
    const OptionValues& options = context->options;
    std::string pin_text;
    if (options.Has("pin")) {
      for (const std::string& text : options.Texts("pin")) {
        absl::StrAppend(&pin_text, pin_text.empty() ? "" : ",", text);
      }
    }
    StatusOr<Pins> pins_read = ParsePins(pin_text);
    if (!pins_read.ok()) return Annotate(pins_read.status(), "--pin");
    const Pins pins = *std::move(pins_read);
    TL_ASSIGN_OR_RETURN(const Workload workload, ReadWorkload(context, pins));
    SearchOptions search;
    TL_ASSIGN_OR_RETURN(search.objective, ParseObjective(options.Text("objective")));
    search.top = static_cast<int32_t>(options.Integer("top"));
    search.finalists = std::max(search.finalists, search.top);
    if (options.Has("memory-limit")) search.memory_limit_bytes = options.Bytes("memory-limit");
    TL_ASSIGN_OR_RETURN(auto evaluator, MakeSimulatorEvaluator(context->progress()));
    TL_ASSIGN_OR_RETURN(const SearchResult result,
                        SearchPlans(workload, pins, search, evaluator.get()));
    context->Print(context->json ? Json(workload, result) : Text(workload, result));
    if (!result.feasible) {
      return InfeasibleError(absl::StrCat("no plan of ", TraitsOf(workload.model).name, " fits ",
                                          workload.cluster.name, ": ", result.shortfall_bytes,
                                          " bytes short on the fullest GPU"));
    }
    if (context->output.empty()) {
      if (!context->json)
        context->Note("-o FILE writes the first of them, to simulate and execute");
      return absl::OkStatus();
    }
    if (context->output == "-") {
      context->result = PlanToJson(result.candidates[0].plan);
      return absl::OkStatus();
    }
    TL_RETURN_IF_ERROR(WritePlan(result.candidates[0].plan, context->output));
    context->NoteWritten(context->output);
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Command> MakePlanCommand() { return std::make_unique<PlanCommand>(); }

}  // namespace tideline
