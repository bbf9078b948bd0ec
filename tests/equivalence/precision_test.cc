// Plans in bf16: the same sums give the same bits however they are cut over ranks and
// time, losses stay near those of fp32, the master weights are fp32, and memory is what was
// predicted.
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "exec/comm/element.h"
#include "exec/data/builtin_text.h"
#include "gtest/gtest.h"
#include "planner/program/memory.h"
#include "tests/equivalence/execute_plan.h"
#include "tests/equivalence/plan_cases.h"
#include "tests/equivalence/training_state.h"
#include "tests/reference/reference_trainer.h"

namespace tideline::equivalence {
namespace {

constexpr int kSteps = 20;
constexpr int kStepsOfNarrowGradients = 5;

// Losses of the fp32 reference. Replicas and micro-batches only regroup its sums.
const std::vector<double>& Fp32Losses(const Plan& plan) {
  static std::map<std::string, std::vector<double>> losses_of;
  std::vector<double>& losses = losses_of[TraitsOf(plan.model).name];
  if (!losses.empty()) return losses;
  reference::ReferenceTrainer<float> trainer(
      *DecoderOf(plan.model),
      {.sequence = plan.seq, .global_batch = plan.global_batch, .adam = plan.optimizer});
  for (int step = 0; step < kSteps; ++step) {
    losses.push_back(
        trainer.Step(reference::ReferenceBatch(BuiltinText(), plan.seq, plan.global_batch, step)));
  }
  return losses;
}

struct FormatCase {
  std::string name;
  PlanCase plan_case;
};

std::ostream& operator<<(std::ostream& out, const FormatCase& format_case) {
  return out << format_case.name;
}

// Every plan in bf16 with gradients in fp32 and in bf16. ZeRO 1 draws the initial values of a
// bucket in fp32 beside it: small buckets keep that below the activations of a model this small, so
// that the peak is where every persistent buffer has been touched.
std::vector<FormatCase> FormatCases() {
  std::vector<FormatCase> cases;
  for (const PlanCase& plan_case : PlanCases()) {
    if (plan_case.dropout()) continue;  // the losses are compared with the reference's
    for (const DType gradient : {DType::kF32, DType::kBF16}) {
      PlanCase narrow = plan_case;
      narrow.plan = InFormat(plan_case.plan, DType::kBF16, gradient);
      if (narrow.plan.zero == 1) narrow.plan.bucket_bytes = 8192;
      cases.push_back({plan_case.name + "_" + std::string(Name(gradient)), std::move(narrow)});
    }
  }
  return cases;
}

struct Trained {
  TrainingState state;
  std::vector<double> losses;
};

Trained Train(const Plan& plan, int64_t steps) {
  auto executed = ExecutePlan(plan, {.steps = steps, .read_state = true});
  EXPECT_TRUE(executed.ok()) << executed.status();
  if (!executed.ok()) return {};
  return {std::move(executed->state), executed->report.losses};
}

void ExpectEqual(const std::map<std::string, WholeTensor>& expected,
                 const std::map<std::string, WholeTensor>& actual, const char* what) {
  ASSERT_EQ(expected.size(), actual.size()) << what;
  for (const auto& [name, tensor] : expected) {
    EXPECT_TRUE(actual.at(name).values == tensor.values) << what << " " << name;
  }
}

class PrecisionTest : public testing::TestWithParam<FormatCase> {};

// The plans whose sums are those of the plain program with the same replicas and micro-batches:
// their bits are the first such plan's. Rounding to 16 bit happens where a kernel or a collective
// stores, and schedules, ZeRO stages, buckets and recomputation move those stores but add none: a
// gradient is rounded once per micro-batch and once per reduction in each of them. Tensor
// parallelism stores partial sums, so it forms others.
TEST_P(PrecisionTest, TrainsAsFp32AndAsItsPlainPlan) {
  const PlanCase& plan_case = GetParam().plan_case;
  const Plan& plan = plan_case.plan;
  const int steps = plan.grad_dtype == DType::kF32 ? kSteps : kStepsOfNarrowGradients;
  const Trained trained = Train(plan, steps);
  ASSERT_EQ(trained.losses.size(), static_cast<size_t>(steps));
  const std::vector<double>& fp32 = Fp32Losses(plan);
  for (int step = 0; step < steps; ++step) {
    EXPECT_NEAR(trained.losses[step], fp32[step], 2e-2 * fp32[step]) << "step " << step;
  }
  for (const auto& [name, master] : trained.state.parameters) {
    const WholeTensor& narrow = trained.state.narrow_parameters.at(name);
    ASSERT_EQ(narrow.values.size(), master.values.size()) << name;
    for (size_t i = 0; i < master.values.size(); ++i) {
      ASSERT_EQ(narrow.values[i], BF16ToFloat(FloatToBF16(master.values[i]))) << name << " " << i;
    }
  }
  if (!plan_case.exact) return;
  using Key = std::tuple<std::string, int32_t, int64_t, DType>;
  static std::map<Key, Trained> first;
  const auto [found, fresh] = first.emplace(
      Key{TraitsOf(plan.model).name, plan.dp, plan.micro_batch, plan.grad_dtype}, trained);
  if (fresh) return;
  EXPECT_EQ(trained.losses, found->second.losses);
  ExpectEqual(found->second.state.parameters, trained.state.parameters, "master");
  ExpectEqual(found->second.state.gradients, trained.state.gradients, "gradient");
}

TEST_P(PrecisionTest, ObservedPeakIsTheStaticReplay) {
  const auto executed = ExecutePlan(
      GetParam().plan_case.plan, {.steps = 2, .schedule = SchedulePolicy::kSerial, .eager = true});
  ASSERT_TRUE(executed.ok()) << executed.status();
  const Program& program = executed->program;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const Role& role = program.roles[program.ranks[rank].role];
    for (int index = 0; index < kSpaces; ++index) {
      const Space space = static_cast<Space>(index);
      const MemoryFigures figures = MeasureMemory(program, role, space);
      const auto& observed = executed->report.ranks[rank].observed[index];
      ASSERT_TRUE(observed.has_value());
      EXPECT_EQ(observed->peak, figures.serial_peak) << "rank " << rank;
      for (int category = 0; category < kCategories; ++category) {
        EXPECT_EQ(observed->peak_by_category[category], figures.peak_by_category[category])
            << "rank " << rank << " " << std::string(Name(static_cast<Category>(category)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Plans, PrecisionTest, testing::ValuesIn(FormatCases()),
                         [](const auto& info) { return info.param.name; });

// With gradients in fp32 a sum over micro-batches goes on unrounded, so their size does not show;
// with gradients in bf16 it does, because each micro-batch rounds.
TEST(PrecisionTest, MicroBatchesShowOnlyInSixteenBitGradients) {
  for (const DType gradient : {DType::kF32, DType::kBF16}) {
    const Plan small = InFormat(PlanCases("gpt_plain")[0].plan, DType::kBF16, gradient);
    const Plan whole = InFormat(PlanCases("gpt_whole_batch")[0].plan, DType::kBF16, gradient);
    const Trained one = Train(small, 2), other = Train(whole, 2);
    bool same = true;
    for (const auto& [name, tensor] : one.state.parameters) {
      same &= tensor.values == other.state.parameters.at(name).values;
    }
    EXPECT_EQ(same, gradient == DType::kF32) << std::string(Name(gradient));
  }
}

// Steps of 1e-7 are far below what bf16 can hold beside a weight of 0.02 (half a unit is 6e-5):
// they add up in the master weights, while the 16-bit copy still stands where it began.
TEST(PrecisionTest, TinyUpdatesAddUpInTheMasterWeights) {
  Plan plan = InFormat(PlanCases("gpt_dp2_zero2")[0].plan, DType::kBF16, DType::kF32);
  plan.optimizer.learning_rate = 1e-7f;
  plan.optimizer.decay = 0;
  const Trained early = Train(plan, 1), late = Train(plan, 10);
  plan.optimizer.learning_rate = 0;
  const Trained start = Train(plan, 1);
  double moved_early = 0, moved_late = 0;
  int64_t changed = 0, elements = 0;
  for (const auto& [name, tensor] : start.state.parameters) {
    if (name.find("norm") != std::string::npos) continue;  // weights of 1 do not see 1e-7 at all
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      moved_early += std::fabs(early.state.parameters.at(name).values[i] - tensor.values[i]);
      moved_late += std::fabs(late.state.parameters.at(name).values[i] - tensor.values[i]);
      changed += late.state.narrow_parameters.at(name).values[i] !=
                 start.state.narrow_parameters.at(name).values[i];
      ++elements;
    }
  }
  EXPECT_GT(moved_late, 4 * moved_early);
  EXPECT_GT(moved_early, 0.5e-7 * static_cast<double>(elements) / 2);
  EXPECT_LT(changed, elements / 10);
}

// Initial values are drawn in fp32 whatever the plan's type is.
TEST(PrecisionTest, MastersBeginAtTheInitialValuesOfFp32) {
  for (const char* name : {"gpt_plain", "gpt_dp2_zero3", "gpt_tp2", "llama_tp2"}) {
    Plan plan = PlanCases(name)[0].plan;
    plan.optimizer.learning_rate = 0;
    const Trained fp32 = Train(plan, 1);
    const Trained bf16 = Train(InFormat(plan, DType::kBF16, DType::kF32), 1);
    ExpectEqual(fp32.state.parameters, bf16.state.parameters, name);
  }
}

// fp16 needs a scaled loss, and without one is refused by name.
TEST(PrecisionTest, RefusesFp16WithoutALossScale) {
  const Plan plan = InFormat(PlanCases("gpt_plain")[0].plan, DType::kF16, DType::kF32);
  const auto executed = ExecutePlan(plan, {.steps = 1});
  EXPECT_EQ(ExitCode(executed.status()), 6) << executed.status();
  EXPECT_NE(std::string(executed.status().message()).find("--loss-scale 65536"), std::string::npos);
}

// A run that stops and goes on has the bits of one that does not.
TEST(PrecisionTest, ResumesToTheSameBits) {
  for (const char* name : {"gpt_dp2_zero2", "gpt_dp2_pp2_full_zero1", "gpt_dp2_zero2_each"}) {
    for (const DType gradient : {DType::kF32, DType::kBF16}) {
      const Plan plan = InFormat(PlanCases(name)[0].plan, DType::kBF16, gradient);
      const Trained whole = Train(plan, 5);
      const std::string folder = testing::TempDir() + "/precision_resumed";
      std::filesystem::remove_all(folder);
      ASSERT_TRUE(ExecutePlan(plan, {.steps = 2, .checkpoint_folder = folder}).ok());
      const auto resumed = ExecutePlan(
          plan, {.steps = 5, .checkpoint_folder = folder, .resume = true, .read_state = true});
      ASSERT_TRUE(resumed.ok()) << resumed.status();
      EXPECT_EQ(resumed->report.resumed_from_step, 2);
      EXPECT_EQ(resumed->report.losses, whole.losses);
      ExpectEqual(whole.state.parameters, resumed->state.parameters, name);
      ExpectEqual(whole.state.narrow_parameters, resumed->state.narrow_parameters, name);
    }
  }
}

}  // namespace
}  // namespace tideline::equivalence
