// TrainingState: whole parameters and their gradients put together from what the ranks of a plan
// left in a checkpoint, so that any plan can be compared with a program on one device.
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
  int64_t step = 0;  // optimizer steps done
  std::vector<double> losses;
  std::map<std::string, WholeTensor> parameters;  // after the step's update, in fp32
  std::map<std::string, WholeTensor> gradients;   // of the step, as the update read them
  // The 16-bit copy that the next step computes with; empty for an fp32 plan.
  std::map<std::string, WholeTensor> narrow_parameters;
  // Running statistics, equal on every rank that has them.
  std::map<std::string, std::vector<float>> state;
};

// Reads the newest checkpoint of `folder`. The places of parameters are those of the update
// instructions. Errors: elements that no rank holds or that ranks hold with different bits (an
// internal error that names parameter, element and rank), padding rows that are not zero.
// Precondition: `program` is the plan's lowering.
StatusOr<TrainingState> ReadTrainingState(const Plan& plan, const Program& program,
                                          const std::string& folder);

}  // namespace tideline::equivalence

#endif  // TIDELINE_TESTS_EQUIVALENCE_TRAINING_STATE_H_
