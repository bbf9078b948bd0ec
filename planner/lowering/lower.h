// Lower: from a Plan to the Program that simulator and executor play.
//
// The draft of the plan goes through the passes of planner/techniques/registry.h in that order,
// each wrapped the same way: does it apply, run, (when asked) prove the draft as it stands now.
// Then instructions are emitted, lifetimes inserted and addresses assigned.
#ifndef TIDELINE_PLANNER_LOWERING_LOWER_H_
#define TIDELINE_PLANNER_LOWERING_LOWER_H_

#include <string_view>
#include <vector>

#include "base/status.h"
#include "planner/draft/draft.h"
#include "planner/plan/plan.h"
#include "planner/program/program.h"

namespace tideline {

struct PassTiming {
  std::string_view pass;
  double seconds = 0;
};

struct LowerOptions {
  // Emit and verify the draft after every pass: for tests, since it costs a whole lowering each.
  bool verify_each_pass = false;
  // Also make the body that evaluates one batch (Program::evaluation).
  bool evaluation = false;
  // Verify the finished Program; the search leaves it to whoever plays the winner.
  bool verify = true;
  // When not null: the passes that ran, and then "emit", "lifetimes", "addresses", "verify".
  std::vector<PassTiming>* timings = nullptr;
};

// Errors: an invalid plan or one of another graph (exit 5); a pass that leaves an unsafe Program is
// an internal error that names the pass.
StatusOr<Program> Lower(const Plan& plan, const LowerOptions& options = {});

// The draft after all passes; for figures that need no instructions.
StatusOr<Draft> DraftOf(const Plan& plan, const LowerOptions& options = {});

// Bytes of model state on the rank that holds the most (DEFINITIONS 9).
StatusOr<int64_t> StateBytes(const Plan& plan);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_LOWERING_LOWER_H_
