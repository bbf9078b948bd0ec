#include "planner/techniques/pipeline/lower.h"

#include "planner/techniques/pipeline/schedule.h"

namespace tideline {

// One stage with one chunk runs the serial list of the first draft, unless it is to run all
// forwards first.
bool UsesPipeline(const Plan& plan) {
  return plan.pp > 1 || plan.chunks > 1 || plan.schedule == Schedule::kGPipe;
}

Status LowerPipeline(Draft& draft) {
  const Plan& plan = draft.plan;
  draft.mesh[static_cast<size_t>(Axis::kPipeline)] = plan.pp;
  draft.chunks = plan.stages;
  UnitTimes times;
  const double backward_factor = plan.recompute == Recompute::kFull ? 3 : 2;
  for (const StageChunk& chunk : plan.stages) {
    times.forward.push_back(static_cast<double>(chunk.blocks));
    times.backward.push_back(backward_factor * static_cast<double>(chunk.blocks));
  }
  TL_ASSIGN_OR_RETURN(
      const auto played,
      PlayUnits(UnitOrder(plan.schedule, plan.pp, plan.chunks, draft.micro_batches), times));
  draft.order = PlaceTransfers(played, static_cast<int32_t>(plan.stages.size()));
  return absl::OkStatus();
}

}  // namespace tideline
