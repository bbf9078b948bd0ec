// Programs lowered from plans of every technique, executed: the checks of the emulator pass, the
// witness agrees with the static replay, and plans that add in the same order give the same bits.
#include <algorithm>
#include <cmath>

#include "exec/data/builtin_text.h"
#include "exec/data/token_source.h"
#include "exec/emulator/emulator.h"
#include "exec/interpreter/interpreter.h"
#include "gtest/gtest.h"
#include "planner/lowering/lower.h"
#include "planner/plan/workload.h"
#include "planner/program/memory.h"
#include "tests/planner/lowering/fixture.h"

namespace tideline {
namespace {

constexpr int64_t kGlobalBatch = 8;

struct NamedPlan {
  std::string name;
  Plan plan;
};

DecoderConfig WithBytes(DecoderConfig model) {
  model.vocab = 259;  // holds every byte; odd, so that tp pads it
  return model;
}

Plan PlanOf(const DecoderConfig& model, TestMesh mesh) {
  Plan plan = TestPlan(WithBytes(model), mesh);
  plan.global_batch = kGlobalBatch;
  return plan;
}

// Plans whose sums have the order of one rank: placement, schedule and recomputation differ.
std::vector<NamedPlan> SameOrderPlans(const DecoderConfig& model) {
  std::vector<NamedPlan> plans;
  const auto add = [&](const std::string& name, Plan plan) {
    plans.push_back({model.name + " " + name, std::move(plan)});
  };
  Plan plan = PlanOf(model, {});
  add("one rank", plan);
  plan.recompute = Recompute::kFull;
  add("full recomputation", plan);
  plan.recompute = Recompute::kSelective;
  add("selective recomputation", plan);
  plan = PlanOf(model, {.pp = 2});
  add("pp 2 1f1b", plan);
  plan.schedule = Schedule::kGPipe;
  plan.recompute = Recompute::kFull;
  add("pp 2 gpipe, full recomputation", plan);
  add("pp 2 interleaved", Interleaved(PlanOf(model, {.pp = 2}), 2));
  add("pp 4", PlanOf(model, {.pp = 4}));
  return plans;
}

// dp 2: every ZeRO stage adds over ranks in the same order.
std::vector<NamedPlan> DataParallelPlans(const DecoderConfig& model) {
  std::vector<NamedPlan> plans;
  for (int32_t zero = 0; zero <= 3; ++zero) {
    Plan plan = PlanOf(model, {.dp = 2});
    plan.zero = zero;
    plans.push_back({model.name + " dp 2 zero " + std::to_string(zero), plan});
  }
  Plan plan = PlanOf(model, {.dp = 2, .pp = 2});
  plan.zero = 1;
  plans.push_back({model.name + " dp 2 pp 2 zero 1", plan});
  return plans;
}

std::vector<NamedPlan> TensorParallelPlans(const DecoderConfig& model) {
  std::vector<NamedPlan> plans;
  for (const bool sequence : {false, true}) {
    Plan plan = PlanOf(model, {.tp = 2});
    plan.sequence_parallel = sequence;
    plans.push_back({model.name + " tp 2" + (sequence ? " sequence" : ""), plan});
    plan = PlanOf(model, {.dp = 2, .pp = 2, .tp = 2});
    plan.sequence_parallel = sequence;
    plan.zero = 2;
    plans.push_back({model.name + " dp 2 pp 2 tp 2" + (sequence ? " sequence" : ""), plan});
  }
  return plans;
}

Program LowerOrDie(const NamedPlan& named) {
  StatusOr<Program> program = Lower(named.plan);
  EXPECT_TRUE(program.ok()) << named.name << ": " << program.status();
  return program.ok() ? *std::move(program) : Program();
}

StatusOr<RunReport> Play(const Program& program, bool eager, EmulatorOptions emulator) {
  TL_RETURN_IF_ERROR(CheckExecutable(program));
  emulator.devices = static_cast<int>(program.ranks.size());
  emulator.limit_memory = !eager;
  TL_ASSIGN_OR_RETURN(const MachinePtr machine, MakeEmulator(emulator));
  TL_ASSIGN_OR_RETURN(
      const TokenSource tokens,
      TokenSource::Make(BuiltinText(), "built-in", program.sequence, program.global_batch));
  ExecuteOptions options;
  options.steps = 3;
  options.eager = eager;
  return Execute(program, *machine, tokens, options, {});
}

void ExpectWitnessAgrees(const Program& program, const RunReport& report) {
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const Role& role = program.roles[program.ranks[rank].role];
    for (const Space space : {Space::kDevice, Space::kPinnedHost}) {
      const MemoryFigures figures = MeasureMemory(program, role, space);
      const auto& observed = report.ranks[rank].observed[static_cast<size_t>(space)];
      ASSERT_TRUE(observed.has_value());
      EXPECT_EQ(observed->peak, figures.serial_peak) << "rank " << rank << " " << Name(space);
      EXPECT_EQ(observed->peak_by_category, figures.peak_by_category) << "rank " << rank;
    }
  }
}

// Runs a plan in every way that must not matter and returns its losses.
std::vector<double> LossesOf(const NamedPlan& named) {
  SCOPED_TRACE(named.name);
  const Program program = LowerOrDie(named);
  if (program.ranks.empty()) return {};
  const auto serial = Play(program, true, {.schedule = SchedulePolicy::kSerial});
  EXPECT_TRUE(serial.ok()) << serial.status();
  if (!serial.ok()) return {};
  ExpectWitnessAgrees(program, *serial);
  const auto checked = Play(program, false, {.check = CheckLevel::kKernels});
  EXPECT_TRUE(checked.ok()) << checked.status();
  const auto seeded =
      Play(program, false, {.schedule = SchedulePolicy::kSeeded, .schedule_seed = 11});
  EXPECT_TRUE(seeded.ok()) << seeded.status();
  if (!checked.ok() || !seeded.ok()) return {};
  EXPECT_EQ(checked->losses, serial->losses);
  EXPECT_EQ(seeded->losses, serial->losses);
  for (const double loss : serial->losses) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_NEAR(serial->losses[0], std::log(259.0), 0.5);
  EXPECT_LT(serial->losses[2], serial->losses[0]);
  return serial->losses;
}

class LoweredPlansTest : public ::testing::TestWithParam<DecoderConfig> {};

TEST_P(LoweredPlansTest, PlacementScheduleAndRecomputationKeepTheBits) {
  std::vector<double> first;
  for (const NamedPlan& named : SameOrderPlans(GetParam())) {
    const std::vector<double> losses = LossesOf(named);
    if (first.empty()) first = losses;
    EXPECT_EQ(losses, first) << named.name;
  }
}

TEST_P(LoweredPlansTest, ZeroStagesKeepTheBits) {
  std::vector<double> first;
  for (const NamedPlan& named : DataParallelPlans(GetParam())) {
    const std::vector<double> losses = LossesOf(named);
    if (first.empty()) first = losses;
    EXPECT_EQ(losses, first) << named.name;
  }
}

TEST_P(LoweredPlansTest, TensorParallelismStaysClose) {
  const std::vector<double> one = LossesOf({"one rank", PlanOf(GetParam(), {})});
  ASSERT_EQ(one.size(), 3u);
  for (const NamedPlan& named : TensorParallelPlans(GetParam())) {
    const std::vector<double> losses = LossesOf(named);
    ASSERT_EQ(losses.size(), 3u) << named.name;
    for (size_t step = 0; step < 3; ++step) {
      EXPECT_NEAR(losses[step], one[step], 1e-5 * one[step]) << named.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, LoweredPlansTest,
                         ::testing::Values(TinyGpt(), TinyLlama(), TinyOpt()),
                         [](const ::testing::TestParamInfo<DecoderConfig>& info) {
                           std::string name = info.param.name;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace tideline
