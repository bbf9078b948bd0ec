// Executed plans against the independent reference (issue: quality bars): bitwise where the order
// of every sum is the plain program's, else within 1e-5 of the largest gradient of each tensor at
// step 1 and within 1e-5 in the losses of three steps.
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "exec/data/builtin_text.h"
#include "gtest/gtest.h"
#include "tests/equivalence/execute_plan.h"
#include "tests/equivalence/plan_cases.h"
#include "tests/equivalence/training_state.h"
#include "tests/reference/compare.h"
#include "tests/reference/reference_trainer.h"

namespace tideline::equivalence {
namespace {

using reference::CompareTensors;
using reference::ParameterInfo;
using reference::TensorDifference;

// What the reference says about three steps; gradients are those of the first.
template <class Real>
struct Expected {
  std::vector<ParameterInfo> parameters;
  std::map<std::string, std::vector<Real>> gradients;
  std::map<std::string, std::vector<Real>> after_one;  // parameters
  std::map<std::string, std::vector<Real>> after_three;
  std::vector<double> losses;
};

template <class Real>
Expected<Real> RunReference(const Plan& plan) {
  reference::ReferenceTrainer<Real> trainer(*DecoderOf(plan.model),
                                            {.sequence = plan.seq,
                                             .global_batch = plan.global_batch,
                                             .replicas = plan.dp,
                                             .micro_batch = plan.micro_batch,
                                             .adam = plan.optimizer});
  Expected<Real> expected;
  expected.parameters = trainer.Parameters();
  for (int step = 0; step < 3; ++step) {
    expected.losses.push_back(
        trainer.Step(reference::ReferenceBatch(BuiltinText(), plan.seq, plan.global_batch, step)));
    for (const ParameterInfo& parameter : expected.parameters) {
      if (step == 0) {
        expected.gradients[parameter.name] = trainer.Gradient(parameter.name);
        expected.after_one[parameter.name] = trainer.Parameter(parameter.name);
      }
      if (step == 2) expected.after_three[parameter.name] = trainer.Parameter(parameter.name);
    }
  }
  return expected;
}

// Plans with equal replicas and micro-batches share a reference run.
template <class Real>
const Expected<Real>& ReferenceFor(const Plan& plan) {
  static std::map<std::tuple<std::string, int32_t, int64_t>, Expected<Real>> runs;
  const std::tuple key{TraitsOf(plan.model).name, plan.dp, plan.micro_batch};
  auto found = runs.find(key);
  if (found == runs.end()) found = runs.emplace(key, RunReference<Real>(plan)).first;
  return found->second;
}

class NumbersTest : public testing::TestWithParam<PlanCase> {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "/equivalence_" + GetParam().name;
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // Plays `steps` steps in all, going on from the checkpoint if there is one.
  Executed Play(int64_t steps) {
    const bool resume = std::filesystem::exists(folder_);
    auto executed = ExecutePlan(
        GetParam().plan,
        {.steps = steps, .checkpoint_folder = folder_, .resume = resume, .read_state = true});
    EXPECT_TRUE(executed.ok()) << executed.status();
    if (!executed.ok()) return {};
    EXPECT_EQ(executed->report.resumed_from_step, resume ? 1 : -1);
    return *std::move(executed);
  }

  std::string folder_;
};

void ExpectSameNamesAndShapes(const std::vector<ParameterInfo>& expected,
                              const std::map<std::string, WholeTensor>& actual) {
  EXPECT_EQ(expected.size(), actual.size());
  for (const ParameterInfo& parameter : expected) {
    const auto found = actual.find(parameter.name);
    ASSERT_TRUE(found != actual.end()) << "no rank has " << parameter.name;
    EXPECT_EQ(found->second.shape, parameter.shape) << parameter.name;
  }
}

void ExpectEqualBits(const std::map<std::string, std::vector<float>>& expected,
                     const std::map<std::string, WholeTensor>& actual, const char* what) {
  for (const auto& [name, values] : expected) {
    const TensorDifference difference = CompareTensors(values, actual.at(name).values);
    EXPECT_TRUE(difference.bitwise) << what << " " << reference::Describe(name, difference);
  }
}

TEST_P(NumbersTest, AgreesWithTheReference) {
  const PlanCase& plan_case = GetParam();
  const TrainingState one = Play(1).state;
  const Expected<double>& exact = ReferenceFor<double>(plan_case.plan);
  ExpectSameNamesAndShapes(exact.parameters, one.gradients);
  if (HasFatalFailure()) return;
  for (const auto& [name, values] : exact.gradients) {
    const TensorDifference difference = CompareTensors(values, one.gradients.at(name).values);
    EXPECT_TRUE(difference.within) << "gradient " << reference::Describe(name, difference);
  }
  const Executed three = Play(3);
  ASSERT_EQ(three.report.losses.size(), 3u);
  for (int step = 0; step < 3; ++step) {
    EXPECT_NEAR(three.report.losses[step], exact.losses[step], 1e-5) << "step " << step;
  }
  if (!plan_case.exact) return;
  const Expected<float>& bits = ReferenceFor<float>(plan_case.plan);
  ExpectEqualBits(bits.gradients, one.gradients, "gradient");
  ExpectEqualBits(bits.after_one, one.parameters, "after one step");
  ExpectEqualBits(bits.after_three, three.state.parameters, "after three steps");
}

// A warm-up and each decay to its end and beyond, with a resume in between: losses and parameters
// have the bits of the reference, which works its rates out by itself, and the rates do show.
TEST(ScheduleTest, TrainsAsTheReferenceDoes) {
  const std::string folder = testing::TempDir() + "/equivalence_schedule";
  std::vector<std::vector<double>> all_losses;
  for (const RateSchedule schedule :
       {RateSchedule::kConstant, RateSchedule::kLinear, RateSchedule::kCosine}) {
    std::filesystem::remove_all(folder);
    Plan plan = PlanCases("gpt_dp2_zero1").front().plan;
    plan.optimizer.schedule = schedule;
    plan.optimizer.warmup_steps = 2;
    if (schedule != RateSchedule::kConstant) {
      plan.optimizer.decay_steps = 6;
      plan.optimizer.least_learning_rate = 1e-4f;
    }
    constexpr int64_t kSteps = 8;
    ASSERT_TRUE(ExecutePlan(plan, {.steps = 4, .checkpoint_folder = folder}).ok());
    const auto executed = ExecutePlan(
        plan, {.steps = kSteps, .checkpoint_folder = folder, .resume = true, .read_state = true});
    ASSERT_TRUE(executed.ok()) << executed.status();
    reference::ReferenceTrainer<float> trainer(*DecoderOf(plan.model),
                                               {.sequence = plan.seq,
                                                .global_batch = plan.global_batch,
                                                .replicas = plan.dp,
                                                .micro_batch = plan.micro_batch,
                                                .adam = plan.optimizer});
    for (int step = 0; step < kSteps; ++step) {
      const double loss =
          trainer.Step(reference::ReferenceBatch(BuiltinText(), plan.seq, plan.global_batch, step));
      EXPECT_NEAR(executed->report.losses[step], loss, 1e-5) << "step " << step;
    }
    std::map<std::string, std::vector<float>> expected;
    for (const ParameterInfo& parameter : trainer.Parameters()) {
      expected[parameter.name] = trainer.Parameter(parameter.name);
    }
    ExpectEqualBits(expected, executed->state.parameters, "after eight steps");
    all_losses.push_back(executed->report.losses);
  }
  std::filesystem::remove_all(folder);
  // Step 3 is the first whose rate is not that of all three, so losses part at step 4.
  for (int other = 1; other < 3; ++other) {
    EXPECT_EQ(all_losses[0][3], all_losses[other][3]);
    EXPECT_NE(all_losses[0][4], all_losses[other][4]);
  }
  EXPECT_NE(all_losses[1][5], all_losses[2][5]);
}

// With products by OpenBLAS a plan trains as with exact ones, but for the rounding of sums.
TEST(FastNumericsTest, LossesAreNearTheExactOnes) {
  for (const char* name : {"gpt_plain", "gpt_dp2_pp2_tp2_selective_zero1", "llama_tp2"}) {
    const Plan plan = PlanCases(name).front().plan;
    const auto exact = ExecutePlan(plan, {.steps = 3});
    const auto fast = ExecutePlan(plan, {.steps = 3, .fast = true});
    ASSERT_TRUE(exact.ok() && fast.ok()) << exact.status() << fast.status();
    for (int step = 0; step < 3; ++step) {
      EXPECT_NEAR(fast->report.losses[step], exact->report.losses[step], 1e-5) << name;
    }
  }
}

std::vector<PlanCase> CasesOfTheReference() {
  std::vector<PlanCase> cases = PlanCases();
  std::erase_if(cases, [](const PlanCase& plan_case) { return plan_case.dropout(); });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Plans, NumbersTest, testing::ValuesIn(CasesOfTheReference()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tideline::equivalence
