// Lowers a plan and plays it on emulated devices in this process.
#ifndef TIDELINE_TESTS_EQUIVALENCE_EXECUTE_PLAN_H_
#define TIDELINE_TESTS_EQUIVALENCE_EXECUTE_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "exec/emulator/emulator.h"
#include "exec/interpreter/interpreter.h"
#include "planner/plan/plan.h"
#include "planner/program/program.h"
#include "tests/equivalence/training_state.h"
#include "traces/run/run_recorder.h"

namespace tideline::equivalence {

struct ExecuteSetting {
  int64_t steps = 1;
  CheckLevel check = CheckLevel::kOrder;
  SchedulePolicy schedule = SchedulePolicy::kConcurrent;
  uint64_t schedule_seed = 0;
  bool eager = false;
  bool fast = false;                   // --numerics fast
  std::string checkpoint_folder = {};  // empty: none; else after every step
  bool resume = false;
  std::string weights_path = {};       // empty: random initial values
  std::string save_weights_path = {};  // empty: not saved
  bool read_state = false;
};

struct Executed {
  Program program;
  RunReport report;
  RunRecorder run;
  std::vector<std::string> notes;
  TrainingState state;  // after the last step; with read_state
};

// On the built-in text, or generated images. Errors: those of lowering and of the run.
StatusOr<Executed> ExecutePlan(const Plan& plan, const ExecuteSetting& setting);

}  // namespace tideline::equivalence

#endif  // TIDELINE_TESTS_EQUIVALENCE_EXECUTE_PLAN_H_
