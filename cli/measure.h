// Measuring a machine with plans of its own: kernels, collectives, messages and host work of small
// training runs, as a worker reports them.
#ifndef TIDELINE_CLI_MEASURE_H_
#define TIDELINE_CLI_MEASURE_H_

#include <string>
#include <vector>

#include "base/status.h"
#include "cli/command.h"
#include "models/cluster/fit_device.h"
#include "planner/plan/plan.h"

namespace tideline {

// A plan to measure with.
struct MeasuredPlan {
  std::string model;    // of the zoo, with sizes
  std::string pins;     // every decision
  int32_t devices = 1;  // of `base`
  int64_t seq = 64;
  int64_t global_batch = 4;
};

// The plan on `devices` devices of `cluster`.
StatusOr<Plan> PlanOf(const MeasuredPlan& measured, const ClusterSpec& cluster);

struct Measurement {
  std::vector<KernelSample> kernels;   // of the steps after the first
  std::vector<LinkSample> reductions;  // bytes moved by all-reduces and their like, and seconds
  std::vector<LinkSample> copies;      // messages between devices
  std::vector<double> host_task_s;
  std::vector<double> copy_s;  // between host and device: small ones
  std::vector<double> step_s;  // the longest over ranks, of the steps after the first
  double kernel_s = 0;         // of one rank and one step, mean
};

// Runs the plan for `steps` steps without checks and reads its Run.
StatusOr<Measurement> Measure(const Plan& plan, int64_t steps, const std::string& worker);

}  // namespace tideline

#endif  // TIDELINE_CLI_MEASURE_H_
