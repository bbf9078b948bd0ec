#include "cli/calibrate.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "base/units.h"
#include "cli/measure.h"
#include "cli/table.h"
#include "exec/launch/worker_client.h"
#include "models/cluster/cluster_json.h"
#include "planner/lowering/lower.h"
#include "sim/simulate.h"

namespace tideline {
namespace {

constexpr int64_t kSteps = 6;        // of every run; the first warms up
constexpr int64_t kVerifySteps = 6;  // medians of five

// Kernels of many shapes on one device.
std::vector<MeasuredPlan> KernelPlans() {
  return {
      {"gpt:layers=2,hidden=32,heads=2,vocab=256", "tp=1,pp=1,dp=1,micro_batch=1", 1, 32, 2},
      {"gpt:layers=2,hidden=64,heads=4,vocab=256", "tp=1,pp=1,dp=1,micro_batch=2", 1, 64, 4},
      {"gpt:layers=2,hidden=128,heads=8,vocab=512", "tp=1,pp=1,dp=1,micro_batch=2", 1, 128, 4},
      {"gpt:layers=1,hidden=256,heads=4,vocab=300", "tp=1,pp=1,dp=1,micro_batch=4", 1, 64, 4},
      {"gpt:layers=1,hidden=384,heads=6,vocab=256", "tp=1,pp=1,dp=1,micro_batch=1", 1, 256, 2},
      {"gpt:layers=1,hidden=512,heads=8,vocab=1000", "tp=1,pp=1,dp=1,micro_batch=1", 1, 128, 2},
      {"llama:layers=2,hidden=192,heads=6,kv_heads=2,vocab=256", "tp=1,pp=1,dp=1,micro_batch=1", 1,
       96, 4},
  };
}

// Collectives and messages of many sizes between two devices.
std::vector<MeasuredPlan> LinkPlans() {
  return {
      {"gpt:layers=2,hidden=64,heads=4,vocab=256", "tp=1,pp=1,dp=2,micro_batch=1", 2, 64, 4},
      {"gpt:layers=2,hidden=256,heads=4,vocab=256", "tp=1,pp=1,dp=2,micro_batch=1", 2, 32, 2},
      {"gpt:layers=2,hidden=192,heads=4,vocab=256", "tp=2,pp=1,dp=1,micro_batch=2", 2, 128, 4},
      {"gpt:layers=2,hidden=128,heads=4,vocab=256", "tp=1,pp=2,dp=1,micro_batch=2", 2, 128, 8},
      {"gpt:layers=2,hidden=512,heads=4,vocab=256", "tp=1,pp=2,dp=1,micro_batch=4", 2, 64, 8},
  };
}

// The same work per device on one device and on as many as there are cores.
MeasuredPlan CrowdPlan(int32_t devices) {
  return {"gpt:layers=2,hidden=256,heads=4,vocab=256",
          absl::StrCat("tp=1,pp=1,dp=", devices, ",micro_batch=2"), devices, 64, 2 * devices};
}

// None of them is used for the fit.
std::vector<MeasuredPlan> VerifyPlans() {
  return {
      {"gpt:layers=3,hidden=96,heads=4,vocab=256", "tp=1,pp=1,dp=1,micro_batch=2", 1, 96, 4},
      {"llama:layers=2,hidden=160,heads=4,vocab=256", "tp=1,pp=1,dp=1,micro_batch=1", 1, 128, 2},
      {"gpt:layers=2,hidden=320,heads=5,vocab=256", "tp=1,pp=1,dp=1,micro_batch=1,recompute=full",
       1, 96, 2},
      {"gpt:layers=4,hidden=96,heads=4,vocab=256", "tp=2,pp=1,dp=1,micro_batch=2", 2, 96, 4},
      {"gpt:layers=4,hidden=128,heads=4,vocab=256", "tp=1,pp=2,dp=1,micro_batch=1", 2, 64, 8},
      {"gpt:layers=2,hidden=224,heads=7,vocab=256", "tp=1,pp=1,dp=2,micro_batch=2,zero=1", 2, 64,
       4},
      {"gpt:layers=3,hidden=160,heads=4,vocab=256", "tp=1,pp=1,dp=3,micro_batch=1", 3, 96, 6},
      {"gpt:layers=4,hidden=96,heads=4,vocab=256", "tp=2,pp=2,dp=1,micro_batch=1", 4, 96, 8},
      {"gpt:layers=2,hidden=192,heads=4,vocab=256", "tp=1,pp=1,dp=4,micro_batch=1,zero=3", 4, 64,
       4},
      {"llama:layers=4,hidden=128,heads=4,vocab=256", "tp=1,pp=4,dp=1,micro_batch=1,recompute=full",
       4, 96, 8},
      {"gpt:layers=2,hidden=128,heads=8,vocab=256",
       "tp=4,pp=1,dp=2,micro_batch=1,sequence_parallel=1", 8, 64, 4},
      {"gpt:layers=4,hidden=96,heads=4,vocab=256", "tp=2,pp=2,dp=2,micro_batch=1,zero=2", 8, 64, 8},
  };
}

int32_t Cores() { return static_cast<int32_t>(std::max<long>(1, sysconf(_SC_NPROCESSORS_ONLN))); }

struct Calibration {
  ClusterSpec cluster;
  std::vector<OpFit> ops;
};

class Calibrator {
 public:
  Calibrator(std::string worker, ClusterSpec base, CommandContext* context)
      : worker_(std::move(worker)),
        base_(std::move(base)),
        progress_("measuring", static_cast<int64_t>(KernelPlans().size() + LinkPlans().size()) + 2,
                  context->progress()) {}

  StatusOr<Calibration> Run() {
    for (const MeasuredPlan& plan : KernelPlans()) {
      TL_ASSIGN_OR_RETURN(const Measurement one, MeasureNext(plan));
      Append(one.kernels, &kernels_);
      Append(one.host_task_s, &host_task_s_);
      Append(one.copy_s, &copy_s_);
      step_rest_s_.push_back(std::max(0.0, Median(one.step_s) - one.kernel_s));
    }
    for (const MeasuredPlan& plan : LinkPlans()) {
      TL_ASSIGN_OR_RETURN(const Measurement one, MeasureNext(plan));
      Append(one.reductions, &reductions_);
      Append(one.copies, &reductions_);
    }
    Calibration result{.cluster = base_, .ops = {}};
    TL_ASSIGN_OR_RETURN(DeviceFit fit, FitDevice(base_.device, kernels_));
    result.cluster.device = fit.device;
    result.ops = std::move(fit.ops);
    TL_ASSIGN_OR_RETURN(const LinkFit link, FitLink(reductions_));
    NodeSpec& node = result.cluster.node;
    node.nvlink_bandwidth = node.pcie_bandwidth = link.bytes_per_s;
    node.nvlink_latency_s = link.latency_s;
    node.pcie_latency_s = Median(copy_s_);
    node.host_cores = Cores();
    TL_ASSIGN_OR_RETURN(node.core_efficiency, CoreEfficiency());
    HostProfile& host = result.cluster.host;
    host.host_task_s = Median(host_task_s_);
    host.step_s = Median(step_rest_s_);
    host.name = "tideline-emulated, calibrated";
    return result;
  }

 private:
  template <typename Value>
  static void Append(const std::vector<Value>& from, std::vector<Value>* to) {
    to->insert(to->end(), from.begin(), from.end());
  }

  StatusOr<Measurement> MeasureNext(const MeasuredPlan& measured) {
    TL_ASSIGN_OR_RETURN(const Plan plan, PlanOf(measured, base_));
    StatusOr<Measurement> measurement = Measure(plan, kSteps, worker_);
    progress_.Update(++done_, measured.model);
    return measurement;
  }

  // What a kernel takes alone, over what it takes when every core has one.
  StatusOr<double> CoreEfficiency() {
    TL_ASSIGN_OR_RETURN(const Measurement alone, MeasureNext(CrowdPlan(1)));
    if (Cores() == 1) return 1.0;
    TL_ASSIGN_OR_RETURN(const Measurement crowd, MeasureNext(CrowdPlan(Cores())));
    return std::clamp(alone.kernel_s / crowd.kernel_s, 0.05, 1.0);
  }

  const std::string worker_;
  const ClusterSpec base_;
  Progress progress_;
  int64_t done_ = 0;
  std::vector<KernelSample> kernels_;
  std::vector<LinkSample> reductions_;
  std::vector<double> host_task_s_, copy_s_, step_rest_s_;
};

// ---- Verification ----

struct Verified {
  std::string plan;
  double predicted_s = 0, measured_s = 0;
  double error() const { return (predicted_s - measured_s) / measured_s; }
};

StatusOr<std::vector<Verified>> Verify(const ClusterSpec& cluster, const std::string& worker,
                                       CommandContext* context) {
  const std::vector<MeasuredPlan> plans = VerifyPlans();
  Progress progress("comparing", static_cast<int64_t>(plans.size()), context->progress());
  std::vector<Verified> rows;
  for (const MeasuredPlan& measured : plans) {
    TL_ASSIGN_OR_RETURN(const Plan plan, PlanOf(measured, cluster));
    TL_ASSIGN_OR_RETURN(const Program program, Lower(plan));
    TL_ASSIGN_OR_RETURN(const SimulationResult predicted,
                        Simulate(program, plan.cluster, {}, nullptr));
    TL_ASSIGN_OR_RETURN(const Measurement real, Measure(plan, kVerifySteps, worker));
    rows.push_back({absl::StrCat(measured.devices, "x ", measured.model, " ", measured.pins),
                    predicted.step_time_s, Median(real.step_s)});
    progress.Update(static_cast<int64_t>(rows.size()), measured.model);
  }
  return rows;
}

struct Errors {
  double median = 0, worst = 0;
};

Errors ErrorsOf(const std::vector<Verified>& rows) {
  std::vector<double> errors;
  for (const Verified& row : rows) errors.push_back(std::fabs(row.error()));
  return {Median(errors), *std::max_element(errors.begin(), errors.end())};
}

std::string VerifyText(const std::vector<Verified>& rows) {
  std::vector<std::vector<std::string>> table;
  for (const Verified& row : rows) {
    table.push_back({row.plan, HumanSeconds(row.predicted_s), HumanSeconds(row.measured_s),
                     absl::StrFormat("%+.1f %%", 100 * row.error())});
  }
  const Errors errors = ErrorsOf(rows);
  return absl::StrCat(FormatTable({"plan", "predicted", "measured", "error"}, table),
                      absl::StrFormat("median error %.1f %%, worst %.1f %%\n", 100 * errors.median,
                                      100 * errors.worst));
}

std::string VerifyJson(const std::vector<Verified>& rows) {
  JsonWriter json;
  json.BeginObject().Field("schema_version", 1);
  json.Key("rows").BeginArray();
  for (const Verified& row : rows) {
    json.BeginObject().Field("id", row.plan).Field("predicted_s", row.predicted_s);
    json.Field("measured_s", row.measured_s).Field("error", row.error()).EndObject();
  }
  json.EndArray();
  const Errors errors = ErrorsOf(rows);
  json.Field("median_abs_error", errors.median).Field("worst_abs_error", errors.worst);
  json.EndObject();
  return json.Take();
}

std::string CalibrationText(const Calibration& calibration) {
  std::vector<std::vector<std::string>> table;
  double total_s = 0;
  for (const OpFit& fit : calibration.ops) total_s += fit.seconds;
  for (const OpFit& fit : calibration.ops) {
    const bool matrix = fit.op == Op::kEinsum;
    table.push_back({std::string(Name(fit.op)), absl::StrCat(fit.samples),
                     absl::StrFormat("%.1f %%", 100 * fit.seconds / total_s),
                     absl::StrFormat(matrix ? "%.2f GFLOP/s" : "%.2f GB/s", fit.rate * 1e-9),
                     absl::StrFormat("%.0f %%", 100 * fit.median_error)});
  }
  const NodeSpec& node = calibration.cluster.node;
  return absl::StrCat(
      FormatTable({"op", "kernels", "of the time", "median rate", "median error"}, table),
      absl::StrFormat("links: %.2f GB/s and %s; %d cores, all at once at %.0f %% of one each\n",
                      node.nvlink_bandwidth * 1e-9, HumanSeconds(node.nvlink_latency_s),
                      node.host_cores, 100 * node.core_efficiency));
}

class CalibrateCommand : public Command {
 public:
  CommandInfo Info() const override {
    CommandInfo info;
    info.name = "calibrate";
    info.summary = "measure this machine and write a cluster file that predicts it";
    info.description =
        "Runs small training steps and times every kernel, collective, message and host task; fits "
        "the constants of the simulator's device to them; and writes a cluster file for --cluster, "
        "also with overrides (machine.json{gpus=4}). Emulated devices of such a file are simulated "
        "as sharing this machine's cores. Measure on a machine that does nothing else.";
    info.examples = {"tideline calibrate -o machine.json",
                     "tideline calibrate --verify machine.json"};
    info.options = {
        {.name = "device",
         .kind = OptionKind::kChoice,
         .value_name = "KIND",
         .sentence = "What is measured:",
         .default_text = "emulated",
         .choices = {"emulated", "cuda"}},
        {.name = "verify",
         .value_name = "FILE",
         .sentence = "Measures nothing new: predicts and runs twelve plans that no calibration "
                     "used, on 1 to 8 devices, and prints the errors.",
         .path_use = PathUse::kReads},
    };
    info.output_sentence = "Writes the cluster file to FILE; without it only the table is printed.";
    info.writes_output_itself = true;
    return info;
  }

  Status Run(CommandContext* context) const override {
    const std::string device = context->options.Text("device");
    if (device == "cuda") {
      return UnavailableError(
          "--device cuda: calibration of CUDA devices is not in this build; use --device emulated");
    }
    TL_ASSIGN_OR_RETURN(const std::string worker, FindWorker("tideline-worker-emulated"));
    if (context->options.Has("verify")) return RunVerify(worker, context);
    TL_ASSIGN_OR_RETURN(ClusterSpec base, LoadCluster("emulated:1x2GiB"));
    base.name = "this machine, calibrated";
    TL_ASSIGN_OR_RETURN(const Calibration calibration, Calibrator(worker, base, context).Run());
    const std::string file = WriteClusterJson(calibration.cluster);
    context->Print(context->json ? file : CalibrationText(calibration));
    if (context->output.empty() || context->output == "-") return absl::OkStatus();
    TL_RETURN_IF_ERROR(WriteFileAtomically(context->output, file));
    context->NoteWritten(context->output);
    return absl::OkStatus();
  }

 private:
  static Status RunVerify(const std::string& worker, CommandContext* context) {
    TL_ASSIGN_OR_RETURN(const ClusterSpec cluster, LoadCluster(context->options.Text("verify")));
    if (!cluster.emulated || !cluster.device.calibrated) {
      return UsageError(absl::StrCat("--verify ", context->options.Text("verify"),
                                     ": it is no calibrated cluster of emulated devices; give a "
                                     "file that tideline calibrate -o has written"));
    }
    TL_ASSIGN_OR_RETURN(const std::vector<Verified> rows, Verify(cluster, worker, context));
    context->Print(context->json ? VerifyJson(rows) : VerifyText(rows));
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<Command> MakeCalibrateCommand() { return std::make_unique<CalibrateCommand>(); }

}  // namespace tideline
