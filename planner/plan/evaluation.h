// Evaluation: what somebody predicted or measured for a Plan (evaluation.proto says what each field
// means). Kept apart from the Plan, so that no stale figure travels with a plan edited by hand.
#ifndef TIDELINE_PLANNER_PLAN_EVALUATION_H_
#define TIDELINE_PLANNER_PLAN_EVALUATION_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace tideline {

struct Evaluation {
  double step_time_s = 0;
  int64_t peak_memory_bytes = 0;
  int64_t host_peak_memory_bytes = 0;
  double exposed_comm_fraction = 0;
  double bubble_fraction = 0;
  double host_bound_fraction = 0;
  double stall_fraction = 0;
  bool operator==(const Evaluation&) const = default;
};

// Bytes of evaluation.proto, for pipes between processes.
std::string SerializeEvaluation(const Evaluation& evaluation);
// Error (internal): not what SerializeEvaluation writes.
StatusOr<Evaluation> ParseEvaluation(std::string_view bytes);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PLAN_EVALUATION_H_
