// PlanEvaluator: whoever can say how long a step of a plan takes. The search asks it about its
// finalists; the command line hands in the simulator (the planner must not depend on it).
#ifndef TIDELINE_PLANNER_SEARCH_EVALUATOR_H_
#define TIDELINE_PLANNER_SEARCH_EVALUATOR_H_

#include "base/status.h"
#include "planner/plan/evaluation.h"
#include "planner/plan/plan.h"

namespace tideline {

class PlanEvaluator {
 public:
  virtual ~PlanEvaluator() = default;

  // Lowers and plays `plan`. Precondition: it is valid. Called from one thread.
  virtual StatusOr<Evaluation> Evaluate(const Plan& plan) = 0;
};

}  // namespace tideline

#endif  // TIDELINE_PLANNER_SEARCH_EVALUATOR_H_
