#include "cli/execute.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/sha256.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/device_options.h"
#include "cli/dry_run.h"
#include "cli/executed_report.h"
#include "cli/loss_log.h"
#include "cli/run_files.h"
#include "exec/data/data_name.h"
#include "exec/launch/worker_client.h"
#include "models/import/hf_weights.h"
#include "models/import/safetensors.h"
#include "planner/program/file.h"

namespace tideline {
namespace {

// Progress and notes of the running worker.
class Watcher : public RunObserver {
 public:
  Watcher(int64_t steps, CommandContext* context)
      : context_(context), progress_("training", steps, context->progress()) {}
  void OnStep(const StepResult& result) override {
    std::string text = absl::StrFormat("loss %.4f", result.loss);
    if (result.gradients.has_value() && result.gradients->skipped) text += ", skipped (overflow)";
    progress_.Update(result.step + 1, text);
    if (context_->verbosity > 0) {
      context_->Note(
          absl::StrCat("step ", result.step, ": ", text, ", ", HumanSeconds(result.seconds)));
    }
  }
  void OnNote(std::string_view text) override { context_->Note(text); }

 private:
  CommandContext* context_;
  Progress progress_;
};

Status ReadSchedule(const std::string& text, WorkerRequest* request) {
  if (text == "concurrent") return absl::OkStatus();
  if (text == "serial") {
    request->schedule = SchedulePolicy::kSerial;
    return absl::OkStatus();
  }
  if (text.rfind("seed:", 0) == 0) {
    const StatusOr<int64_t> seed = ParseInteger(text.substr(5), 0, INT64_MAX);
    if (seed.ok()) {
      request->schedule = SchedulePolicy::kSeeded;
      request->schedule_seed = static_cast<uint64_t>(*seed);
      return absl::OkStatus();
    }
  }
  return UsageError(absl::StrCat("--schedule `", text, "`: concurrent, serial or seed:N"));
}

CheckLevel ReadCheck(const std::string& text) {
  if (text == "none") return CheckLevel::kNone;
  return text == "kernels" ? CheckLevel::kKernels : CheckLevel::kOrder;
}

// --weights may name a folder or an index: its files are inputs as well.
Status CheckKeepsWeights(const OptionValues& options, const TensorFiles& files) {
  if (!options.Has("save-weights")) return absl::OkStatus();
  const std::string path = options.Text("save-weights");
  for (const auto& [name, tensor] : files.tensors()) {
    std::error_code none;
    if (!std::filesystem::equivalent(path, files.FileName(tensor), none)) continue;
    return UsageError(absl::StrCat("--save-weights ", path,
                                   ": the file is one of --weights and would be overwritten; give "
                                   "--save-weights another path"));
  }
  return absl::OkStatus();
}

// The worker opens the data, and its descriptors are others than ours: its standard input is the
// pipe that its request came through.
Status CheckOthersCanOpen(const std::string& path) {
  const std::string plain = std::filesystem::path(path).lexically_normal();
  bool ours = plain == "-";
  for (const char* place : {"/dev/std", "/dev/fd/", "/proc/self/", "/proc/thread-self/"}) {
    ours = ours || plain.starts_with(place);
  }
  if (!ours) return absl::OkStatus();
  return UsageError(absl::StrCat("--data ", path,
                                 ": data is opened by another process, so no standard input and no "
                                 "descriptor is read; give the path of a file"));
}

// The names of weights are known for decoders.
StatusOr<DecoderConfig> ModelOfWeights(const Plan& plan, const char* option) {
  const DecoderConfig* decoder = DecoderOf(plan.model);
  if (decoder != nullptr) return *decoder;
  return UsageError(absl::StrCat(option, " knows the weights of decoders, and ",
                                 TraitsOf(plan.model).name, " is none; drop the option"));
}

StatusOr<WorkerRequest> MakeRequest(const CommandContext& context, const Plan& plan,
                                    const Program& program) {
  const OptionValues& options = context.options;
  WorkerRequest request = RequestFor(plan, program);
  if (options.Has("data")) {
    request.data_path = options.Text("data");
    if (TraitsOf(plan.model).samples == SampleKind::kImages) {
      return UsageError(absl::StrCat("--data ", request.data_path, ": ", TraitsOf(plan.model).name,
                                     " takes images, and files of images are not read; leave "
                                     "--data out, and generated images are used"));
    }
    TL_ASSIGN_OR_RETURN(const DataName data, ParseDataName(request.data_path));
    TL_RETURN_IF_ERROR(CheckOthersCanOpen(data.path));
  }
  request.steps = options.Integer("steps");
  if (options.Has("checkpoint")) request.checkpoint_folder = options.Text("checkpoint");
  request.checkpoint_every = options.Integer("checkpoint-every");
  request.resume = options.Flag("resume");
  if (request.resume && request.checkpoint_folder.empty()) {
    return UsageError("--resume needs --checkpoint DIR, the folder to resume from");
  }
  request.dry_run = options.Flag("dry-run");
  request.eager = options.Text("allocator") == "eager";
  request.check = ReadCheck(options.Text("check"));
  TL_RETURN_IF_ERROR(ReadSchedule(options.Text("schedule"), &request));
  if (options.Has("weights")) {
    request.weights_path = options.Text("weights");
    TL_ASSIGN_OR_RETURN(const TensorFiles files, TensorFiles::Open(request.weights_path));
    TL_ASSIGN_OR_RETURN(const DecoderConfig model, ModelOfWeights(plan, "--weights"));
    TL_ASSIGN_OR_RETURN(request.weights, MatchWeights(model, files));
    TL_RETURN_IF_ERROR(CheckKeepsWeights(options, files));
  }
  if (options.Has("save-weights")) {
    request.save_weights_path = options.Text("save-weights");
    TL_ASSIGN_OR_RETURN(const DecoderConfig model, ModelOfWeights(plan, "--save-weights"));
    request.save_weights = HuggingFaceWeights(model);
  }
  return request;
}

// The log that --losses asks for; none without it.
StatusOr<std::unique_ptr<LossLog>> OpenLossLog(const OptionValues& options, const Plan& plan) {
  if (!options.Has("losses")) return std::unique_ptr<LossLog>();
  if (options.Text("losses") == "-") {
    return UsageError("--losses -: stdout is for the result; give a file");
  }
  auto log =
      std::make_unique<LossLog>(options.Text("losses"), plan.optimizer, plan.gradients.any());
  if (options.Flag("resume")) TL_RETURN_IF_ERROR(log->CheckContinues());
  return log;
}

// A resume whose checkpoint is at --steps already.
bool NothingWasLeft(const RunReport& run, int64_t steps) { return run.resumed_from_step >= steps; }

std::vector<OptionRecord> Options() {
  return {
      {.name = "steps",
       .kind = OptionKind::kInteger,
       .value_name = "N",
       .sentence = "Optimizer steps in total, those before a resume included.",
       .default_text = "10",
       .least = 1,
       .most = 1e9},
      {.name = "data",
       .value_name = "FILE",
       .sentence = "Data to train on: a file, of which each byte is a token; u16:FILE or u32:FILE, "
                   "little-endian tokens; megatron:PREFIX, PREFIX.bin with PREFIX.idx; default a "
                   "built-in text of 25 kB.",
       .path_use = PathUse::kReadsData},
      {.name = "seed",
       .kind = OptionKind::kInteger,
       .value_name = "N",
       .sentence = "Seed of the initial values.",
       .default_text = "0",
       .least = 0,
       .most = 9e15},
      {.name = "checkpoint",
       .value_name = "DIR",
       .sentence = "Folder for checkpoints, made when it is not there; each rank writes its own "
                   "file of each. Without it none are written.",
       .path_use = PathUse::kWritesFolder},
      {.name = "checkpoint-every",
       .kind = OptionKind::kInteger,
       .value_name = "K",
       .sentence = "Steps between checkpoints; one more is written at the end, the two newest "
                   "are kept.",
       .default_text = "10",
       .least = 1,
       .most = 1e9},
      {.name = "resume",
       .kind = OptionKind::kFlag,
       .sentence = "Goes on from the newest checkpoint of the folder, also under another plan of "
                   "the same model and batch."},
      {.name = "weights",
       .value_name = "FILE",
       .sentence = "Begins from these weights with Hugging Face names: a .safetensors file, an "
                   "index of several, or their folder.",
       .path_use = PathUse::kReads},
      {.name = "save-weights",
       .value_name = "FILE",
       .sentence = "Writes the trained weights to a .safetensors file (F32).",
       .path_use = PathUse::kWritesFile},
      {.name = "losses",
       .value_name = "FILE",
       .sentence = "Writes step,loss,learning_rate,seconds to a CSV file, a line as each step "
                   "ends, with clipping or loss scaling also gradient_norm,loss_scale; with "
                   "--resume the file is continued.",
       .path_use = PathUse::kWritesFile},
      {.name = "dry-run",
       .kind = OptionKind::kFlag,
       .sentence = "Checks everything that a run checks before its first step and prints what each "
                   "rank would do, its memory and the predicted step; runs and writes nothing."},
      {.name = "check",
       .kind = OptionKind::kChoice,
       .value_name = "LEVEL",
       .sentence = "What the emulated devices check: order finds races and reads of what was "
                   "never written, kernels also every access within kernels:",
       .default_text = "order",
       .choices = {"order", "kernels", "none"}},
      {.name = "schedule",
       .value_name = "ORDER",
       .sentence = "concurrent, serial (list order), or seed:N (one at a time, drawn).",
       .default_text = "concurrent"},
      {.name = "allocator",
       .kind = OptionKind::kChoice,
       .value_name = "KIND",
       .sentence = "layout uses the plan's addresses; eager measures lifetimes by itself:",
       .default_text = "layout",
       .choices = {"layout", "eager"}}};
}

std::vector<OptionRecord> AllOptions() {
  std::vector<OptionRecord> options = DeviceOptionRecords();
  for (OptionRecord& option : Options()) options.push_back(std::move(option));
  for (OptionRecord& option : RunFileOptions()) options.push_back(std::move(option));
  return options;
}

class ExecuteCommand : public Command {
 public:
  CommandInfo Info() const override {
    return {
        .name = "execute",
        .summary = "Runs a plan on devices: losses, measured memory and times",
        .description =
            "Plays the very Program that `simulate` plays, on real numbers. Emulated devices have "
            "the memory of the plan's GPUs and check every operation for races and for reads of "
            "what was never written; --device cuda is this machine's GPUs. Training state is kept "
            "in "
            "checkpoints that survive a kill.",
        .examples = {"tideline execute plan.json --steps 20 -o run.tlr --tide tide.svg",
                     "tideline execute plan.json --checkpoint run1 --checkpoint-every 5",
                     "tideline execute plan.json --checkpoint run1 --resume --steps 20 --json",
                     "tideline execute plan.json --steps 1000 --dry-run",
                     "tideline execute plan.json --allocator eager --schedule serial --steps 2",
                     "tideline execute plan.json --data book.txt --losses losses.csv",
                     "tideline execute plan.json --save-weights tuned.safetensors",
                     "tideline execute plan.json --weights tuned.safetensors"},
        .arguments = {{.name = "PLAN",
                       .sentence = "A plan file, as `tideline plan -o` writes it.",
                       .path_use = PathUse::kReads}},
        .options = AllOptions(),
        .output_sentence = "Also writes the Run (events and memory samples) to FILE.",
        .writes_output_itself = true};
  }

  Status Run(CommandContext* context) const override {
    const OptionValues& options = context->options;
    TL_ASSIGN_OR_RETURN(const Plan plan, ReadPlan(context->arguments[0]));
    TL_ASSIGN_OR_RETURN(const RunOutputs outputs, ReadRunOutputs(*context, plan.cluster.gpus()));
    TL_ASSIGN_OR_RETURN(Program program, LowerPlanOf(context->arguments[0], plan));
    program.seed = static_cast<uint64_t>(options.Integer("seed"));
    TL_ASSIGN_OR_RETURN(WorkerRequest request, MakeRequest(*context, plan, program));
    request.record = outputs.any() && !request.dry_run;
    TL_ASSIGN_OR_RETURN(const std::unique_ptr<LossLog> losses, OpenLossLog(options, plan));
    TL_ASSIGN_OR_RETURN(const std::string worker, ReadDeviceOptions(options, &request));
    const std::string device = options.Text("device");
    const std::unique_ptr<RunObserver> watcher = MakeStepWatcher(request.steps, context);
    LossLogger logger(losses.get(), watcher.get());
    RunRecorder recorder;
    const WorkerHooks hooks{.sink = request.record ? &recorder : nullptr,
                            .observer = losses != nullptr ? &logger : watcher.get()};
    TL_ASSIGN_OR_RETURN(const RunReport run, RunWorker(worker, request, program, hooks));
    if (request.dry_run) {
      TL_ASSIGN_OR_RETURN(context->result,
                          DryRunResult(plan, device, program, run, request.steps, context->json));
      return absl::OkStatus();
    }
    if (losses != nullptr) {
      TL_RETURN_IF_ERROR(logger.Finish(run));
      context->NoteWritten(losses->path());
    }
    if (!request.save_weights_path.empty() && run.finding.empty()) {
      context->NoteWritten(request.save_weights_path);
    }
    std::optional<StepReport> report;
    if (NothingWasLeft(run, request.steps)) {
      if (request.record) context->Note("nothing was left to run, so no Run is written");
    } else {
      TL_ASSIGN_OR_RETURN(report, ExecutedReport(plan, program, run));
    }
    if (request.record && report.has_value()) {
      recorder.SetMetadata(MetadataOf(plan, program, *report, device));
      TL_RETURN_IF_ERROR(WriteRunFiles(recorder, outputs, {}, *context));
    }
    context->Print(context->json ? ExecutedJson(plan, device, report, run)
                                 : ExecutedText(plan, device, report, run));
    if (!run.finding.empty()) return ComparisonError(run.finding);
    return absl::OkStatus();
  }
};

}  // namespace

WorkerRequest RequestFor(const Plan& plan, const Program& program) {
  WorkerRequest request;
  request.program = Serialize(program);
  request.plan_hash = Sha256Hex(PlanToJson(plan));
  request.devices_per_node = plan.cluster.node.gpus;
  request.device_memory_bytes =
      plan.cluster.device.memory_bytes - plan.cluster.device.runtime_reserve_bytes;
  request.pinned_memory_bytes = plan.cluster.node.host_memory_bytes;
  return request;
}

std::unique_ptr<RunObserver> MakeStepWatcher(int64_t steps, CommandContext* context) {
  return std::make_unique<Watcher>(steps, context);
}

std::unique_ptr<Command> MakeExecuteCommand() { return std::make_unique<ExecuteCommand>(); }

}  // namespace tideline
