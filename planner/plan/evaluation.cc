#include "planner/plan/evaluation.h"

#include "planner/plan/evaluation.pb.h"

namespace tideline {

std::string SerializeEvaluation(const Evaluation& evaluation) {
  plan_file::Evaluation file;
  file.set_step_time_s(evaluation.step_time_s);
  file.set_peak_memory_bytes(evaluation.peak_memory_bytes);
  file.set_host_peak_memory_bytes(evaluation.host_peak_memory_bytes);
  file.set_exposed_comm_fraction(evaluation.exposed_comm_fraction);
  file.set_bubble_fraction(evaluation.bubble_fraction);
  file.set_host_bound_fraction(evaluation.host_bound_fraction);
  file.set_stall_fraction(evaluation.stall_fraction);
  return file.SerializeAsString();
}

StatusOr<Evaluation> ParseEvaluation(std::string_view bytes) {
  plan_file::Evaluation file;
  if (!file.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return InternalError("an evaluation came back damaged");
  }
  return Evaluation{.step_time_s = file.step_time_s(),
                    .peak_memory_bytes = file.peak_memory_bytes(),
                    .host_peak_memory_bytes = file.host_peak_memory_bytes(),
                    .exposed_comm_fraction = file.exposed_comm_fraction(),
                    .bubble_fraction = file.bubble_fraction(),
                    .host_bound_fraction = file.host_bound_fraction(),
                    .stall_fraction = file.stall_fraction()};
}

}  // namespace tideline
