// Fused attention and dropout: plans that add alike train to the same bits, others agree within the
// tolerance of the quality bars. What the reference has no notion of (which elements are dropped)
// is so held to be the same under every way of cutting the work, and in both forms of attention.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/equivalence/execute_plan.h"
#include "tests/equivalence/plan_cases.h"
#include "tests/equivalence/training_state.h"
#include "tests/reference/compare.h"

namespace tideline::equivalence {
namespace {

using reference::CompareTensors;
using reference::TensorDifference;

struct Trained {
  TrainingState state;
  std::vector<double> losses;
};

// After `steps` steps.
Trained Train(const PlanCase& plan_case, int64_t steps) {
  auto executed = ExecutePlan(plan_case.plan, {.steps = steps, .read_state = true});
  EXPECT_TRUE(executed.ok()) << plan_case.name << ": " << executed.status();
  if (!executed.ok()) return {};
  return {std::move(executed->state), executed->report.losses};
}

void ExpectSame(const Trained& expected, const Trained& actual, bool bitwise,
                const std::string& name) {
  ASSERT_EQ(expected.losses.size(), actual.losses.size()) << name;
  for (size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(actual.losses[step], expected.losses[step], bitwise ? 0 : 1e-5) << name;
  }
  ASSERT_EQ(expected.state.gradients.size(), actual.state.gradients.size()) << name;
  for (const auto& [parameter, tensor] : expected.state.gradients) {
    const TensorDifference difference =
        CompareTensors(tensor.values, actual.state.gradients.at(parameter).values);
    const std::string what = name + " gradient " + reference::Describe(parameter, difference);
    EXPECT_TRUE(bitwise ? difference.bitwise : difference.within) << what;
  }
  if (!bitwise) return;
  for (const auto& [parameter, tensor] : expected.state.parameters) {
    const TensorDifference difference =
        CompareTensors(tensor.values, actual.state.parameters.at(parameter).values);
    EXPECT_TRUE(difference.bitwise) << name << " " << reference::Describe(parameter, difference);
  }
}

class SameBitsTest : public testing::TestWithParam<std::string> {};

// Plans of a family with equal replicas and without tensor parallelism add alike. Micro-batches
// continue each other's sums, so their size does not count.
TEST_P(SameBitsTest, WithinAFamily) {
  std::map<int32_t, Trained> first;  // by replicas
  int compared = 0;
  for (const PlanCase& plan_case : PlanCases(GetParam())) {
    if (GetParam().ends_with("dropout") && plan_case.name.find("fused") != std::string::npos) {
      continue;  // a family of its own
    }
    const Trained one_step = Train(plan_case, 1);
    const bool alike = plan_case.plan.tp == 1;
    if (alike && first.try_emplace(plan_case.plan.dp, one_step).second) continue;
    ASSERT_TRUE(first.contains(plan_case.plan.dp)) << plan_case.name;
    ExpectSame(first.at(plan_case.plan.dp), one_step, alike, plan_case.name);
    ++compared;
  }
  EXPECT_GE(compared, 4);
  // Replicas are summed apart: other bits, the same gradients.
  for (const auto& [replicas, trained] : first) {
    ExpectSame(first.at(1), trained, replicas == 1, "replicas " + std::to_string(replicas));
  }
}

INSTANTIATE_TEST_SUITE_P(Families, SameBitsTest,
                         testing::Values("gpt_fused", "llama_fused", "gpt_dropout", "llama_dropout",
                                         "gpt_dropout_fused", "llama_dropout_fused"),
                         [](const auto& info) { return info.param; });

// The masks of three steps differ from step to step, and are those of the other form of attention.
TEST(FormsOfAttention, TrainAlike) {
  for (const std::string model : {"gpt", "llama"}) {
    const Trained plain = Train(PlanCases(model + "_plain").front(), 3);
    const Trained fused = Train(PlanCases(model + "_fused_plain").front(), 3);
    const Trained dropout = Train(PlanCases(model + "_dropout_plain").front(), 3);
    const Trained both = Train(PlanCases(model + "_dropout_fused_plain").front(), 3);
    for (size_t step = 0; step < 3; ++step) {
      EXPECT_NEAR(plain.losses[step], fused.losses[step], 1e-5) << model;
      EXPECT_NEAR(dropout.losses[step], both.losses[step], 1e-5) << model;
      EXPECT_GT(std::abs(plain.losses[step] - dropout.losses[step]), 1e-4) << model;
    }
  }
}

}  // namespace
}  // namespace tideline::equivalence
