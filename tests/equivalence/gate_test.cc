// Clipping and loss scaling, executed: the norm and every bit after it are the same however the
// model is cut, scaling by powers of two leaves no trace, and a step that overflows is as if it had
// never been, on all ranks.
#include <bit>
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/equivalence/execute_plan.h"
#include "tests/equivalence/plan_cases.h"
#include "tests/equivalence/training_state.h"

namespace tideline::equivalence {
namespace {

struct Trained {
  RunReport report;
  TrainingState state;
};

class GateTest : public testing::Test {
 protected:
  void SetUp() override { Clear(); }
  void TearDown() override { Clear(); }

  void Clear() { std::filesystem::remove_all(Folder()); }
  std::string Folder() const {
    return testing::TempDir() + "/gate_" +
           testing::UnitTest::GetInstance()->current_test_info()->name();
  }

  // Plays a plan from its beginning, or with `resume` on from its checkpoints.
  Trained Train(const Plan& plan, int64_t steps, bool resume = false) {
    if (!resume) Clear();
    auto executed = ExecutePlan(
        plan,
        {.steps = steps, .checkpoint_folder = Folder(), .resume = resume, .read_state = true});
    EXPECT_TRUE(executed.ok()) << executed.status();
    if (!executed.ok()) return {};
    EXPECT_EQ(executed->report.finding, "");
    return {executed->report, std::move(executed->state)};
  }
};

Plan PlanNamed(const std::string& name) {
  for (const PlanCase& plan_case : PlanCases()) {
    if (plan_case.name == name) return plan_case.plan;
  }
  ADD_FAILURE() << "there is no case " << name;
  return {};
}

Plan With(const std::string& name, const GradientControl& control) {
  Plan plan = PlanNamed(name);
  plan.gradients = control;
  return plan;
}

void ExpectSameBits(const std::map<std::string, WholeTensor>& a,
                    const std::map<std::string, WholeTensor>& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor] : a) {
    const std::vector<float>& other = b.at(name).values;
    ASSERT_EQ(tensor.values.size(), other.size());
    size_t different = 0;
    for (size_t i = 0; i < other.size(); ++i) {
      different += std::bit_cast<uint32_t>(tensor.values[i]) != std::bit_cast<uint32_t>(other[i]);
    }
    EXPECT_EQ(different, 0u) << what << ": " << name;
  }
}

std::vector<double> NormsOf(const RunReport& report) {
  std::vector<double> norms;
  for (const StepGradients& step : report.gradients) norms.push_back(step.norm.value_or(-1));
  return norms;
}

// The square root of the sum of squares over whole tensors, in fp64.
double NormOf(const std::map<std::string, WholeTensor>& gradients) {
  double sum = 0;
  for (const auto& [name, tensor] : gradients) {
    for (const float value : tensor.values) sum += double{value} * value;
  }
  return std::sqrt(sum);
}

TEST_F(GateTest, TheNormIsThatOfTheWholeGradients) {
  for (const char* name : {"gpt_plain", "gpt_dp2_zero3", "gpt_pp4_1f1b", "llama_tp2",
                           "gpt_dp2_pp2_tp2_selective_zero1"}) {
    const Trained trained = Train(With(name, {.clip_norm = 1e9}), 1);
    ASSERT_EQ(trained.report.gradients.size(), 1u) << name;
    const double norm = *trained.report.gradients[0].norm;
    EXPECT_NEAR(norm, NormOf(trained.state.gradients), 1e-12 * norm) << name;
    EXPECT_GT(norm, 0.1);
  }
}

// Plans whose gradients have equal bits clip to equal bits. The norm of these models is above 0.1,
// so every step is clipped.
TEST_F(GateTest, ClippedTrainingIsTheSameUnderEveryPlan) {
  const GradientControl clip{.clip_norm = 0.1};
  const std::vector<std::vector<std::string>> groups = {
      {"gpt_plain", "gpt_pp2_gpipe", "gpt_pp4_1f1b", "gpt_pp2_interleaved", "gpt_full"},
      {"gpt_dp2", "gpt_dp2_buckets", "gpt_dp2_zero1", "gpt_dp2_zero2", "gpt_dp2_zero3",
       "gpt_dp2_pp2_full_zero1"},
      {"gpt_tp2", "gpt_tp2_sequence"}};
  for (const std::vector<std::string>& group : groups) {
    const Trained first = Train(With(group[0], clip), 3);
    const Trained unclipped = Train(PlanNamed(group[0]), 3);
    EXPECT_NE(first.report.losses, unclipped.report.losses);
    for (const double norm : NormsOf(first.report)) EXPECT_GT(norm, 0.1);
    for (size_t i = 1; i < group.size(); ++i) {
      // Cutting the sequence changes the order of other sums.
      if (group[i] == "gpt_tp2_sequence") continue;
      const Trained other = Train(With(group[i], clip), 3);
      EXPECT_EQ(NormsOf(other.report), NormsOf(first.report)) << group[i];
      EXPECT_EQ(other.report.losses, first.report.losses) << group[i];
      ExpectSameBits(other.state.parameters, first.state.parameters, group[i]);
    }
  }
}

TEST_F(GateTest, ALooseClipChangesNoBit) {
  const Trained plain = Train(PlanNamed("gpt_dp2_zero2"), 3);
  const Trained loose = Train(With("gpt_dp2_zero2", {.clip_norm = 1e6}), 3);
  EXPECT_EQ(loose.report.losses, plain.report.losses);
  ExpectSameBits(loose.state.parameters, plain.state.parameters, "loose clip");
  EXPECT_TRUE(plain.report.gradients.empty());
}

TEST_F(GateTest, ScalingByPowersOfTwoLeavesNoTrace) {
  for (const char* name :
       {"gpt_plain", "gpt_dp2_pp2_tp2_selective_zero1", "llama_dp2_zero3", "opt_dp4_zero1"}) {
    const Trained plain = Train(PlanNamed(name), 4);
    // Doubled after every second step.
    const Trained scaled = Train(With(name, {.initial_loss_scale = 65536, .growth_steps = 2}), 4);
    EXPECT_EQ(scaled.report.losses, plain.report.losses) << name;
    ExpectSameBits(scaled.state.parameters, plain.state.parameters, name);
    std::vector<double> scales;
    for (const StepGradients& step : scaled.report.gradients) scales.push_back(step.loss_scale);
    EXPECT_EQ(scales, (std::vector<double>{65536, 65536, 131072, 131072}));
  }
}

// The first scales overflow fp32. Such a step leaves every parameter as it was and halves the
// scale, on all ranks; the first that does not is Adam's first (t = 1), whose update is the
// learning rate in the direction of the gradient.
TEST_F(GateTest, OverflowSkipsTheStepOnAllRanks) {
  const GradientControl control{.initial_loss_scale = kLargestLossScale};
  const std::vector<std::string> names = {"gpt_dp2_zero1", "gpt_dp2_zero3", "gpt_dp2"};
  std::vector<Trained> all;
  for (const std::string& name : names) {
    Plan plan = With(name, control);
    plan.optimizer.decay = 0;
    const Trained begin = Train(plan, 1);
    ASSERT_TRUE(begin.report.gradients[0].skipped);
    all.push_back(Train(plan, 24));
    const std::vector<StepGradients>& steps = all.back().report.gradients;
    size_t first = 0;
    while (first < steps.size() && steps[first].skipped) {
      EXPECT_EQ(steps[first].loss_scale, std::ldexp(kLargestLossScale, -static_cast<int>(first)));
      EXPECT_TRUE(std::isinf(*steps[first].norm));
      ++first;
    }
    ASSERT_GT(first, 1u);
    ASSERT_LT(first + 1, steps.size());
    for (size_t step = first; step < steps.size(); ++step) EXPECT_FALSE(steps[step].skipped);

    // Skipped steps leave what the prologue made; then one update.
    const Trained still = Train(plan, static_cast<int64_t>(first));
    ExpectSameBits(still.state.parameters, begin.state.parameters, name);
    const Trained moved = Train(plan, static_cast<int64_t>(first) + 1);
    const std::vector<float>& from = still.state.parameters.at("embedding.weight").values;
    const std::vector<float>& to = moved.state.parameters.at("embedding.weight").values;
    float largest = 0;
    for (size_t i = 0; i < from.size(); ++i) {
      largest = std::max(largest, std::abs(to[i] - from[i]));
    }
    EXPECT_NEAR(largest, 1e-3f, 1e-6f) << name;
  }
  for (size_t i = 1; i < all.size(); ++i) {
    EXPECT_EQ(all[i].report.losses, all[0].report.losses) << names[i];
    ExpectSameBits(all[i].state.parameters, all[0].state.parameters, names[i]);
  }
}

// GPT in fp16: a scale of 2^40 overflows at once, halves until it does not, and then trains. All of
// it is the same however the state is cut.
TEST_F(GateTest, Fp16OverflowsInTheMiddleAndTrainsOn) {
  std::vector<Trained> all;
  for (const char* name : {"gpt_dp2", "gpt_dp2_zero1", "gpt_dp2_zero3"}) {
    Plan plan = InFormat(PlanNamed(name), DType::kF16, DType::kF32);
    plan.gradients = {.clip_norm = 1, .initial_loss_scale = 0x1p40};
    plan.optimizer.learning_rate = 1e-2f;
    all.push_back(Train(plan, 40));
    const std::vector<StepGradients>& steps = all.back().report.gradients;
    ASSERT_EQ(steps.size(), 40u);
    EXPECT_TRUE(steps.front().skipped);
    EXPECT_FALSE(steps.back().skipped);
    EXPECT_LT(all.back().report.losses.back(), all.back().report.losses.front() - 0.1) << name;
    EXPECT_EQ(steps, all.front().report.gradients) << name;
    EXPECT_EQ(all.back().report.losses, all.front().report.losses) << name;
    ExpectSameBits(all.back().state.parameters, all.front().state.parameters, name);
  }
}

// Scale and counters are part of the training state.
TEST_F(GateTest, AResumeGoesOnWithScaleAndCounters) {
  const Plan plan =
      With("gpt_dp2_zero1",
           {.clip_norm = 0.1, .initial_loss_scale = kLargestLossScale, .growth_steps = 3});
  const Trained whole = Train(plan, 20);
  Train(plan, 4);
  const Trained resumed = Train(plan, 20, /*resume=*/true);
  EXPECT_EQ(resumed.report.resumed_from_step, 4);
  EXPECT_EQ(resumed.report.losses, whole.report.losses);
  ExpectSameBits(resumed.state.parameters, whole.state.parameters, "resumed");
  for (size_t step = 4; step < 20; ++step) {
    EXPECT_EQ(resumed.report.gradients[step], whole.report.gradients[step]) << step;
  }
  EXPECT_FALSE(resumed.report.gradients[3].norm.has_value());
}

// Nothing can be skipped without loss scaling, and at the least scale there is nothing to try.
TEST_F(GateTest, GradientsThatAreNoNumbersEndTheRun) {
  Plan plan = With("gpt_dp2", {.clip_norm = 1});
  plan.optimizer.learning_rate = 1e30f;
  const auto executed = ExecutePlan(plan, {.steps = 10});
  ASSERT_TRUE(executed.ok()) << executed.status();
  EXPECT_NE(executed->report.finding.find("step "), std::string::npos) << executed->report.finding;
  EXPECT_NE(executed->report.finding.find("diverged"), std::string::npos);
}

}  // namespace
}  // namespace tideline::equivalence
