// The plans that are executed and compared: between them they use every technique, on 1 to 8 ranks.
#ifndef TIDELINE_TESTS_EQUIVALENCE_PLAN_CASES_H_
#define TIDELINE_TESTS_EQUIVALENCE_PLAN_CASES_H_

#include <ostream>
#include <string>
#include <vector>

#include "planner/plan/plan.h"

namespace tideline::equivalence {

struct PlanCase {
  std::string name;  // "gpt_dp2_zero1"
  Plan plan;
  // The independent reference has none, so these are compared with each other only.
  bool dropout() const { return std::get<DecoderConfig>(plan.model).dropout > 0; }
  // Every sum has the order of the plain program with the same replicas and micro-batches, so that
  // the reference's bits are expected; else the tolerance of the quality bars.
  bool exact = false;
};

// Shown by a failing test.
std::ostream& operator<<(std::ostream& out, const PlanCase& plan_case);

// All plans, with and without dropout, are fp32 with 16 samples of 16 tokens per step and four
// layers.
std::vector<PlanCase> PlanCases();

// The same plan with parameters and activations in `dtype` and gradients in `grad_dtype`.
Plan InFormat(Plan plan, DType dtype, DType grad_dtype);

// Cases of one model whose name begins with `prefix`.
std::vector<PlanCase> PlanCases(const std::string& prefix);

}  // namespace tideline::equivalence

#endif  // TIDELINE_TESTS_EQUIVALENCE_PLAN_CASES_H_
