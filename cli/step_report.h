// StepReport: the figures of one training step, simulated or executed, under the keys that
// simulate, execute, compare and quickstart share (DEFINITIONS 17-20). Not applicable is none here,
// null in JSON and "-" in text.
#ifndef TIDELINE_CLI_STEP_REPORT_H_
#define TIDELINE_CLI_STEP_REPORT_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/status.h"
#include "planner/plan/plan.h"
#include "planner/program/attribution.h"
#include "planner/program/program.h"

namespace tideline {

struct RankFigures {
  int64_t peak_memory_bytes = 0;  // device extent including runtime
  int64_t live_bound_bytes = 0;
  int64_t serial_peak_bytes = 0;
  std::optional<int64_t> live_peak_bytes;
  std::optional<int64_t> observed_peak_bytes;
};

struct StepReport {
  std::optional<double> step_time_s;
  std::optional<double> samples_per_s;
  std::optional<double> tokens_per_s;  // of models whose samples are sequences of tokens
  std::optional<double> tflops_per_gpu;
  std::optional<double> tflops_hw_per_gpu;
  std::optional<double> mfu;
  double peak_flops = 0;  // per second, of one device in the plan's type; what mfu is a share of
  bool nominal_speeds = false;  // emulated: the peak is a listed figure that cores may well exceed
  std::optional<TimeSplit<double>> split;  // means over ranks, adding up to the mean step

  bool fits = true;
  int64_t capacity_bytes = 0;  // of one device
  int64_t runtime_bytes = 0;   // of it, taken by contexts and channels
  int64_t peak_memory_bytes = 0;
  int64_t host_peak_memory_bytes = 0;  // largest sum over the ranks of one node
  std::array<int64_t, kCategories> peak_by_category{};
  std::array<int64_t, kCategories> category_max{};
  std::vector<RankFigures> ranks;
  // Why the fullest rank's extent is more than 1.05 x its live bound, for people; empty: it is not.
  std::string extent_reason;
};

// The memory figures of a lowered plan; times are left open.
StepReport ReportMemory(const Plan& plan, const Program& program);

// Model and executed FLOPs of one step over all GPUs.
struct StepFlops {
  double model = 0;
  double executed = 0;
};
StatusOr<StepFlops> FlopsOfStep(const Plan& plan, const Program& program);

// Sets step_time_s and the rates that follow from it.
void SetStepTime(double step_time_s, const Plan& plan, const StepFlops& flops, StepReport* report);

// Appends the fields of `report` to the object being written.
void WriteStepReport(const StepReport& report, JsonWriter* json);

// What to know about the times of a simulated or an executed step, as a line; empty when the
// device is calibrated.
std::string SimulatedSpeedNote(const ClusterSpec& cluster);
std::string ExecutedSpeedNote(const ClusterSpec& cluster);

// Appends the same fields as null, `ranks` empty, where no step was played.
void WriteNoStepReport(JsonWriter* json);

// A table for people, lines ending in newline.
std::string StepReportText(const StepReport& report);

}  // namespace tideline

#endif  // TIDELINE_CLI_STEP_REPORT_H_
