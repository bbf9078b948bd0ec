// Weights go into every plan and come out of every plan unchanged.
#include <filesystem>
#include <map>

#include "base/file.h"
#include "gtest/gtest.h"
#include "tests/equivalence/execute_plan.h"
#include "tests/equivalence/plan_cases.h"
#include "tests/models/import/random_weights.h"

namespace tideline::equivalence {
namespace {

std::string InTemp(const std::string& name) { return ::testing::TempDir() + "/" + name; }

// A learning rate of 0 leaves every weight as it is, so one step saves what was loaded, however the
// plan cuts, moves and gathers it.
TEST(WeightsTest, EveryPlanSavesWhatItLoads) {
  std::map<std::string, std::string> loaded;  // bytes of the file, by model
  for (PlanCase& plan_case : PlanCases()) {
    SCOPED_TRACE(plan_case.name);
    const std::string from = InTemp(TraitsOf(plan_case.plan.model).name + ".safetensors");
    if (!loaded.contains(from)) {
      ASSERT_TRUE(WriteRandomWeights(*DecoderOf(plan_case.plan.model), 7, from).ok());
      loaded[from] = *ReadFile(from);
    }
    plan_case.plan.optimizer.learning_rate = 0;
    const std::string to = InTemp("saved.safetensors");
    const auto executed =
        ExecutePlan(plan_case.plan, {.steps = 1, .weights_path = from, .save_weights_path = to});
    ASSERT_TRUE(executed.ok()) << executed.status();
    const auto before = TensorFiles::Open(from);
    const auto after = TensorFiles::Open(to);
    ASSERT_TRUE(before.ok() && after.ok()) << after.status();
    ASSERT_EQ(before->tensors().size(), after->tensors().size());
    for (const auto& [name, tensor] : before->tensors()) {
      const StoredTensor* found = after->Find(name);
      ASSERT_NE(found, nullptr) << name;
      ASSERT_EQ(found->shape, tensor.shape) << name;
      std::string left(static_cast<size_t>(tensor.bytes), '\0'), right = left;
      ASSERT_TRUE(before->Read(tensor, 0, left).ok());
      ASSERT_TRUE(after->Read(*found, 0, right).ok());
      EXPECT_TRUE(left == right) << name;
    }
  }
}

// Loaded under one plan, trained a step, saved; loaded again under another: plans that keep the
// order of sums have the same losses and weights, bit for bit.
TEST(WeightsTest, TrainedWeightsGoOnUnderAnotherPlan) {
  std::map<std::string, std::pair<double, std::string>> first;  // loss and file, by model
  int compared = 0;
  for (const PlanCase& plan_case : PlanCases()) {
    if (!plan_case.exact || plan_case.plan.dp != 1 || plan_case.plan.micro_batch != 2) continue;
    SCOPED_TRACE(plan_case.name);
    const std::string& model = TraitsOf(plan_case.plan.model).name;
    const std::string random = InTemp(model + ".random.safetensors");
    ASSERT_TRUE(WriteRandomWeights(*DecoderOf(plan_case.plan.model), 11, random).ok());
    const std::string once = InTemp(plan_case.name + ".once.safetensors");
    const std::string twice = InTemp(plan_case.name + ".twice.safetensors");
    const auto trained = ExecutePlan(
        plan_case.plan, {.steps = 1, .weights_path = random, .save_weights_path = once});
    ASSERT_TRUE(trained.ok()) << trained.status();
    const std::string from = first.contains(model) ? first[model].second : once;
    const auto again =
        ExecutePlan(plan_case.plan, {.steps = 2, .weights_path = from, .save_weights_path = twice});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_TRUE(*ReadFile(once) != *ReadFile(random));
    if (!first.contains(model)) {
      first[model] = {again->report.losses[1], once};
      first[model + " twice"] = {0, twice};
      continue;
    }
    ++compared;
    EXPECT_TRUE(*ReadFile(once) == *ReadFile(first[model].second));
    EXPECT_EQ(again->report.losses[1], first[model].first);
    EXPECT_TRUE(*ReadFile(twice) == *ReadFile(first[model + " twice"].second));
  }
  EXPECT_GE(compared, 5);
}

TEST(WeightsTest, ACheckpointIsExported) {
  const Plan plan = PlanCases("gpt_dp2_zero3").at(0).plan;
  const std::string folder = InTemp("export");
  std::filesystem::remove_all(folder);
  const std::string direct = InTemp("direct.safetensors"),
                    exported = InTemp("exported.safetensors");
  const auto trained =
      ExecutePlan(plan, {.steps = 2, .checkpoint_folder = folder, .save_weights_path = direct});
  ASSERT_TRUE(trained.ok()) << trained.status();
  const auto resumed = ExecutePlan(
      plan,
      {.steps = 2, .checkpoint_folder = folder, .resume = true, .save_weights_path = exported});
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_TRUE(*ReadFile(direct) == *ReadFile(exported));
}

TEST(WeightsTest, WeightsOfAnotherModelAreRefused) {
  const Plan plan = PlanCases("gpt_plain").at(0).plan;
  DecoderConfig other = *DecoderOf(plan.model);
  other.max_positions += 1;
  const std::string path = InTemp("other.safetensors");
  ASSERT_TRUE(WriteRandomWeights(other, 1, path).ok());
  const auto executed = ExecutePlan(plan, {.steps = 1, .weights_path = path});
  EXPECT_EQ(ExitCode(executed.status()), 5) << executed.status();
}

}  // namespace
}  // namespace tideline::equivalence
