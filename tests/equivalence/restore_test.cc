// A training state that one plan saved is the same under any other: parameters and moments, bit for
// bit, put together by a way of its own (training_state.h) on both sides; and what is trained from
// it is what the other plan would have trained.
#include <bit>
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/equivalence/execute_plan.h"
#include "tests/equivalence/plan_cases.h"
#include "tests/equivalence/training_state.h"

namespace tideline::equivalence {
namespace {

namespace fs = std::filesystem;

std::string Fresh(const std::string& name) {
  const std::string folder = testing::TempDir() + "/restore_" + name;
  fs::remove_all(folder);
  return folder;
}

void ExpectEqualBits(const std::map<std::string, WholeTensor>& expected,
                     const std::map<std::string, WholeTensor>& actual, const char* what) {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << what << " " << name;
    const WholeTensor& other = actual.at(name);
    ASSERT_EQ(tensor.shape, other.shape) << what << " " << name;
    int64_t different = 0;
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      different +=
          std::bit_cast<uint32_t>(tensor.values[i]) != std::bit_cast<uint32_t>(other.values[i]);
    }
    EXPECT_EQ(different, 0) << what << " " << name;
  }
}

void ExpectSameState(const TrainingState& expected, const TrainingState& actual) {
  ExpectEqualBits(expected.parameters, actual.parameters, "parameter");
  ExpectEqualBits(expected.narrow_parameters, actual.narrow_parameters, "narrow copy");
  ExpectEqualBits(expected.momentum, actual.momentum, "momentum");
  ExpectEqualBits(expected.variance, actual.variance, "variance");
}

bool HasNote(const std::vector<std::string>& notes, const std::string& part) {
  for (const std::string& note : notes) {
    if (note.find(part) != std::string::npos) return true;
  }
  return false;
}

// Each plan saves, and others restore, by how many places further they stand.
void ExpectAllRestore(const std::vector<PlanCase>& cases, const std::vector<size_t>& steps) {
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE("saved by " + cases[i].name);
    const std::string folder = Fresh("pairs");
    const auto saved =
        ExecutePlan(cases[i].plan, {.steps = 1, .checkpoint_folder = folder, .read_state = true});
    ASSERT_TRUE(saved.ok()) << saved.status();
    for (const size_t step : steps) {
      const PlanCase& other = cases[(i + step) % cases.size()];
      SCOPED_TRACE("restored by " + other.name);
      // Nothing is left to train: what is read is what was restored.
      const auto restored = ExecutePlan(
          other.plan,
          {.steps = 1, .checkpoint_folder = folder, .resume = true, .read_state = true});
      ASSERT_TRUE(restored.ok()) << restored.status();
      EXPECT_EQ(restored->report.losses, saved->report.losses);
      ExpectSameState(saved->state, restored->state);
      EXPECT_EQ(HasNote(restored->notes, "another plan"), step % cases.size() != 0);
      if (testing::Test::HasFailure()) return;
    }
  }
}

// The cases of one model: a rate of dropout belongs to the model, a form of attention to the plan.
std::vector<PlanCase> CasesOf(const std::string& model) {
  std::vector<PlanCase> cases = PlanCases(model);
  std::erase_if(cases, [&](const PlanCase& plan_case) {
    return (plan_case.name.find("dropout") != std::string::npos) !=
           (model.find("dropout") != std::string::npos);
  });
  return cases;
}

TEST(RestoreTest, AnyPlanRestoresWhatAnyOtherSaved) {
  for (const std::string model : {"gpt_", "llama_", "gpt_dropout_"}) {
    const std::vector<PlanCase> cases = CasesOf(model);
    ASSERT_GE(cases.size(), 6u);
    ExpectAllRestore(cases, {0, 1, 7, cases.size() - 3});
  }
}

// The 16-bit copies are those of the master weights, wherever they lie.
TEST(RestoreTest, PlansIn16BitToo) {
  for (const std::string model : {"gpt_", "llama_"}) {
    std::vector<PlanCase> cases = CasesOf(model);
    for (PlanCase& plan_case : cases) {
      plan_case.plan = InFormat(plan_case.plan, DType::kBF16, DType::kF32);
    }
    ExpectAllRestore(cases, {5});
  }
}

// Plans with the same replicas and micro-batches whose sums keep their order have the same bits, so
// going from one to the next at every step must not show.
TEST(RestoreTest, ChangingThePlanAtEveryStepDoesNotShow) {
  for (const std::string model : {"gpt_", "llama_"}) {
    for (const int32_t replicas : {1, 2}) {
      std::vector<PlanCase> cases;
      for (const PlanCase& plan_case : CasesOf(model)) {
        const Plan& plan = plan_case.plan;
        if (plan_case.exact && plan.dp == replicas && plan.micro_batch == 2) {
          cases.push_back(plan_case);
        }
      }
      ASSERT_GE(cases.size(), 2u);
      const int64_t steps = std::ssize(cases);
      const auto unbroken = ExecutePlan(cases.front().plan, {.steps = steps, .read_state = true});
      ASSERT_TRUE(unbroken.ok()) << unbroken.status();
      const std::string folder = Fresh("chain");
      for (int64_t step = 0; step < steps; ++step) {
        const PlanCase& plan_case = cases[static_cast<size_t>(steps - 1 - step)];
        SCOPED_TRACE(plan_case.name);
        const auto executed = ExecutePlan(plan_case.plan, {.steps = step + 1,
                                                           .checkpoint_folder = folder,
                                                           .resume = step > 0,
                                                           .read_state = true});
        ASSERT_TRUE(executed.ok()) << executed.status();
        EXPECT_EQ(executed->report.losses.back(),
                  unbroken->report.losses[static_cast<size_t>(step)]);
        if (step + 1 == steps) ExpectSameState(unbroken->state, executed->state);
      }
    }
  }
}

// From the state of a plan with other bits (tp adds in another order), two plans of one family go
// on alike: the state is theirs now.
TEST(RestoreTest, PlansOfOneFamilyGoOnAlikeFromAnothersState) {
  const std::string folder = Fresh("family");
  const auto begun =
      ExecutePlan(PlanCases("gpt_tp4").front().plan, {.steps = 2, .checkpoint_folder = folder});
  ASSERT_TRUE(begun.ok()) << begun.status();
  std::vector<Executed> ends;
  for (const std::string name : {"gpt_dp2_zero1", "gpt_dp2_zero3", "gpt_dp2_pp2_full_zero1"}) {
    SCOPED_TRACE(name);
    const std::string copy = Fresh("family_copy");
    fs::copy(folder, copy, fs::copy_options::recursive);
    auto executed =
        ExecutePlan(PlanCases(name).front().plan,
                    {.steps = 4, .checkpoint_folder = copy, .resume = true, .read_state = true});
    ASSERT_TRUE(executed.ok()) << executed.status();
    EXPECT_EQ(executed->report.resumed_from_step, 2);
    ends.push_back(*std::move(executed));
    EXPECT_EQ(ends.back().report.losses, ends.front().report.losses);
    ExpectSameState(ends.front().state, ends.back().state);
  }
}

TEST(RestoreTest, AnotherModelOrBatchIsRefused) {
  const std::string folder = Fresh("refused");
  const Plan plan = PlanCases("gpt_dp2_zero1").front().plan;
  ASSERT_TRUE(ExecutePlan(plan, {.steps = 1, .checkpoint_folder = folder}).ok());
  const auto other_model = ExecutePlan(PlanCases("llama_dp2_zero2").front().plan,
                                       {.steps = 2, .checkpoint_folder = folder, .resume = true});
  EXPECT_EQ(ExitCode(other_model.status()), 5);
  EXPECT_NE(other_model.status().message().find("model graph"), std::string::npos);
  Plan other_batch = plan;
  other_batch.global_batch = 8;
  const auto batch =
      ExecutePlan(other_batch, {.steps = 2, .checkpoint_folder = folder, .resume = true});
  EXPECT_EQ(ExitCode(batch.status()), 5);
  EXPECT_NE(batch.status().message().find("16 samples"), std::string::npos) << batch.status();
}

TEST(RestoreTest, OtherSettingsOfTheOptimizerAreSaid) {
  const std::string folder = Fresh("settings");
  Plan plan = PlanCases("gpt_plain").front().plan;
  ASSERT_TRUE(ExecutePlan(plan, {.steps = 1, .checkpoint_folder = folder}).ok());
  plan.optimizer.learning_rate /= 2;
  const auto resumed = ExecutePlan(plan, {.steps = 2, .checkpoint_folder = folder, .resume = true});
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_TRUE(HasNote(resumed->notes, "settings of the optimizer: learning_rate"));
}

}  // namespace
}  // namespace tideline::equivalence
