#include "cli/simulator_evaluator.h"

#include <string>
#include <string_view>
#include <utility>

#include "cli/simulate.h"
#include "cli/step_report.h"
#include "planner/lowering/lower.h"
#include "sim/evaluator.h"

namespace tideline {
namespace {

// Runs in the child.
StatusOr<std::string> EvaluatePlanText(std::string_view text) {
  TL_ASSIGN_OR_RETURN(const Plan plan, ParsePlan(text, "plan"));
  // Whoever plays the winner verifies it again.
  TL_ASSIGN_OR_RETURN(const Program program, Lower(plan, {.verify = false}));
  TL_ASSIGN_OR_RETURN(const StepReport report,
                      SimulatedReport(plan, program, {}, nullptr, nullptr));
  const TimeSplit<double>& split = *report.split;
  const double whole = split.Total() > 0 ? split.Total() : 1;
  return SerializeEvaluation({.step_time_s = *report.step_time_s,
                              .peak_memory_bytes = report.peak_memory_bytes,
                              .host_peak_memory_bytes = report.host_peak_memory_bytes,
                              .exposed_comm_fraction = split.exposed_comm / whole,
                              .bubble_fraction = split.bubble / whole,
                              .host_bound_fraction = split.host / whole,
                              .stall_fraction = split.stall / whole});
}

class SimulatorEvaluator : public PlanEvaluator {
 public:
  SimulatorEvaluator(std::unique_ptr<ProcessEvaluator> process, const ProgressOptions& progress)
      : process_(std::move(process)), progress_("simulating plans", 0, progress) {}

  StatusOr<Evaluation> Evaluate(const Plan& plan) override {
    TL_ASSIGN_OR_RETURN(const std::string answer, process_->Evaluate(PlanToJson(plan)));
    progress_.Update(++done_);
    return ParseEvaluation(answer);
  }

 private:
  std::unique_ptr<ProcessEvaluator> process_;
  Progress progress_;
  int64_t done_ = 0;
};

}  // namespace

StatusOr<std::unique_ptr<PlanEvaluator>> MakeSimulatorEvaluator(const ProgressOptions& progress) {
  TL_ASSIGN_OR_RETURN(auto process, ProcessEvaluator::Start(EvaluatePlanText));
  return std::make_unique<SimulatorEvaluator>(std::move(process), progress);
}

}  // namespace tideline
