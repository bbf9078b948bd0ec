// TrainingState: whole parameters with gradients and moments, put together from what the ranks of a
// plan hold after a run, so that any plan can be compared with a program on one device, and with
// any other plan.
#ifndef TIDELINE_TESTS_EQUIVALENCE_TRAINING_STATE_H_
#define TIDELINE_TESTS_EQUIVALENCE_TRAINING_STATE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "planner/plan/plan.h"
#include "planner/program/program.h"

namespace tideline::equivalence {

// A parameter as the model has it, vocabulary padding taken off.
struct WholeTensor {
  std::vector<int64_t> shape;
  std::vector<float> values;
};

struct TrainingState {
  std::map<std::string, WholeTensor> parameters;  // after the last step's update, in fp32
  // The 16-bit copy that the next step computes with; empty for an fp32 plan.
  std::map<std::string, WholeTensor> narrow_parameters;
  std::map<std::string, WholeTensor> gradients;  // of that step, as the update read them
  std::map<std::string, WholeTensor> momentum;
  std::map<std::string, WholeTensor> variance;
  // Running statistics, equal on every rank that has them.
  std::map<std::string, std::vector<float>> state;
};

// The bytes of each rank's persistent buffers, by their id in the role.
using RankBuffers = std::vector<std::map<uint32_t, std::string>>;

// The places of all of them are those of the update instructions. Errors: elements that no rank
// holds or that ranks hold with different bits (an internal error that names parameter, element and
// rank), padding rows that are not zero. Precondition: `program` is the plan's lowering.
StatusOr<TrainingState> ReadTrainingState(const Plan& plan, const Program& program,
                                          const RankBuffers& ranks);

}  // namespace tideline::equivalence

#endif  // TIDELINE_TESTS_EQUIVALENCE_TRAINING_STATE_H_
