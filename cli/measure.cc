#include "cli/measure.h"

#include <algorithm>
#include <map>

#include "cli/execute.h"
#include "exec/launch/worker_client.h"
#include "models/import/load_model.h"
#include "planner/lowering/lower.h"
#include "planner/plan/pins.h"
#include "planner/plan/workload.h"
#include "sim/communication/collective_steps.h"
#include "traces/run/run_recorder.h"

namespace tideline {
namespace {

// A kernel that starts so soon after the one before waited for nothing but being dispatched, which
// belongs to its time.
constexpr int64_t kDispatchNs = 50'000;

class RunReader {
 public:
  RunReader(const Program& program, const RunRecorder& recorder, Measurement* measurement)
      : program_(program), recorder_(recorder), measured_(*measurement) {}

  void Read() {
    std::map<int32_t, std::vector<const RunEvent*>> kernels;  // by rank
    int64_t steps = 0;
    for (const RunEvent& event : recorder_.events()) {
      if (event.step < 1) continue;
      steps = std::max<int64_t>(steps, event.step);
      switch (static_cast<InstructionKind>(event.kind)) {
        case InstructionKind::kCompute:
          kernels[event.rank].push_back(&event);
          break;
        case InstructionKind::kCollective:
          AddCollective(event);
          break;
        case InstructionKind::kSend:
          measured_.copies.push_back({static_cast<double>(event.bytes), Seconds(event)});
          break;
        case InstructionKind::kCopy:
          measured_.copy_s.push_back(Seconds(event));
          break;
        case InstructionKind::kHostCompute:
          measured_.host_task_s.push_back(Seconds(event));
          break;
        default:
          break;
      }
    }
    for (auto& [rank, events] : kernels) AddKernels(rank, events);
    if (steps > 0) {
      measured_.kernel_s /= static_cast<double>(steps) * static_cast<double>(kernels.size());
    }
  }

 private:
  static double Seconds(const RunEvent& event) {
    return std::max(1e-9, static_cast<double>(event.end_ns - event.start_ns) * 1e-9);
  }

  const Instruction& InstructionOf(const RunEvent& event) const {
    const Role& role = program_.roles[program_.ranks[event.rank].role];
    return SteadyBody(program_, role)->instructions[event.instruction];
  }

  void AddKernels(int32_t rank, std::vector<const RunEvent*>& events) {
    std::sort(events.begin(), events.end(),
              [](const RunEvent* a, const RunEvent* b) { return a->start_ns < b->start_ns; });
    int64_t before_ns = INT64_MIN / 2;
    for (const RunEvent* event : events) {
      const Kernel& kernel = program_.kernels[InstructionOf(*event).what];
      const bool at_once = event->start_ns - before_ns < kDispatchNs;
      const int64_t from_ns = at_once ? std::min(before_ns, event->start_ns) : event->start_ns;
      const double seconds = std::max(1e-9, static_cast<double>(event->end_ns - from_ns) * 1e-9);
      before_ns = event->end_ns;
      measured_.kernel_s += seconds;
      if (rank == 0) {
        measured_.kernels.push_back({kernel.op, kernel.work, kernel.compute_dtype, seconds});
      }
    }
  }

  // One member's event tells of all.
  void AddCollective(const RunEvent& event) {
    const Collective& collective = program_.collectives[InstructionOf(event).what];
    const std::vector<int32_t> members =
        Members(program_, program_.groups[collective.group], event.rank);
    if (members.size() < 2 || members.front() != event.rank) return;
    measured_.reductions.push_back(
        {MovedBytes(collective, static_cast<int64_t>(members.size())), Seconds(event)});
  }

  const Program& program_;
  const RunRecorder& recorder_;
  Measurement& measured_;
};

}  // namespace

StatusOr<Plan> PlanOf(const MeasuredPlan& measured, const ClusterSpec& cluster) {
  TL_ASSIGN_OR_RETURN(const LoadedModel model, LoadModel(measured.model, measured.seq));
  ClusterSpec sized = cluster;
  sized.node.gpus = measured.devices;
  WorkloadRequest request;
  request.seq = measured.seq;
  request.global_batch = measured.global_batch;
  TL_ASSIGN_OR_RETURN(const Workload workload, MakeWorkload(model.config, sized, request));
  TL_ASSIGN_OR_RETURN(const Pins pins, ParsePins(measured.pins));
  return PlanOf(workload, pins);
}

StatusOr<Measurement> Measure(const Plan& plan, int64_t steps, const std::string& worker) {
  TL_ASSIGN_OR_RETURN(const Program program, Lower(plan));
  WorkerRequest request = RequestFor(plan, program);
  request.steps = steps;
  request.check = CheckLevel::kNone;
  request.record = true;
  RunRecorder recorder;
  TL_ASSIGN_OR_RETURN(const RunReport report,
                      RunWorker(worker, request, program, {.sink = &recorder}));
  Measurement measurement;
  RunReader(program, recorder, &measurement).Read();
  for (size_t step = 1; step < static_cast<size_t>(steps); ++step) {
    int64_t longest_ns = 0;
    for (const RankReport& rank : report.ranks) {
      if (step < rank.step_time_ns.size()) {
        longest_ns = std::max(longest_ns, rank.step_time_ns[step]);
      }
    }
    measurement.step_s.push_back(static_cast<double>(longest_ns) * 1e-9);
  }
  return measurement;
}

}  // namespace tideline
