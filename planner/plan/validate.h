// Validate: what plan.proto says must hold, checked.
#ifndef TIDELINE_PLANNER_PLAN_VALIDATE_H_
#define TIDELINE_PLANNER_PLAN_VALIDATE_H_

#include "base/status.h"
#include "planner/plan/plan.h"

namespace tideline {

// OK when every invariant of plan.proto holds; inner code may then assume them. The first violation
// is an input error (exit 5) that names the field, the numbers, why, and what to write instead.
// Memory is not checked here (it needs the Program), nor is the graph hash (planner/lowering).
Status Validate(const Plan& plan);

// The part of Validate that is about the optimizer.
Status ValidateOptimizer(const AdamSettings& adam);

// The part about clipping and loss scaling.
Status ValidateGradientControl(const GradientControl& gradients);

}  // namespace tideline

#endif  // TIDELINE_PLANNER_PLAN_VALIDATE_H_
