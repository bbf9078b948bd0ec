// Convolutional networks: executed plans against the independent reference, observed memory against
// the static replay, the same bits in any order, and learning on held-out images.
#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "base/check.h"
#include "exec/data/image_source.h"
#include "exec/ops/partial_touch.h"
#include "gtest/gtest.h"
#include "models/cluster/cluster_text.h"
#include "models/ops/op_table.h"
#include "models/zoo/zoo.h"
#include "planner/plan/workload.h"
#include "planner/program/memory.h"
#include "tests/equivalence/execute_plan.h"
#include "tests/equivalence/training_state.h"
#include "tests/reference/compare.h"
#include "tests/reference/convnet_trainer.h"

namespace tideline::equivalence {
namespace {

using reference::CompareTensors;
using reference::ParameterInfo;
using reference::TensorDifference;

constexpr int64_t kGlobalBatch = 8;
constexpr const char* kResNet =
    "resnet:blocks=1-2,width=4,image=12,classes=5,block=bottleneck,stem=small";
constexpr const char* kBasicResNet = "resnet:blocks=1-1,width=4,image=17,classes=5";
constexpr const char* kDenseNet = "densenet:blocks=2-1,width=6,growth=3,image=16,classes=7";

struct Case {
  std::string name;
  std::string model;
  std::string pins;
};

std::ostream& operator<<(std::ostream& out, const Case& it) { return out << it.name; }

// The reference's bits are expected of all: no sum is taken in another order than its own.
std::vector<Case> Cases() {
  return {
      {"resnet_plain", kResNet, "dp=1,pp=1,micro_batch=2"},
      {"resnet_whole_batch", kResNet, "dp=1,pp=1,micro_batch=8"},
      {"resnet_dp2", kResNet, "dp=2,pp=1,micro_batch=2"},
      {"resnet_dp4_zero1", kResNet, "dp=4,pp=1,micro_batch=2,zero=1"},
      {"resnet_dp2_zero2", kResNet, "dp=2,pp=1,micro_batch=2,zero=2"},
      {"resnet_dp2_zero3", kResNet, "dp=2,pp=1,micro_batch=2,zero=3"},
      {"resnet_recompute", kResNet, "dp=1,pp=1,micro_batch=2,recompute=full"},
      {"resnet_pp3", kResNet, "dp=1,pp=3,micro_batch=2"},
      {"resnet_pp2_gpipe", kResNet, "dp=1,pp=2,micro_batch=2,schedule=gpipe"},
      {"resnet_dp2_pp2_recompute_zero1", kResNet, "dp=2,pp=2,micro_batch=2,recompute=full,zero=1"},
      {"basic_plain", kBasicResNet, "dp=1,pp=1,micro_batch=4"},
      {"basic_dp2_pp2", kBasicResNet, "dp=2,pp=2,micro_batch=2"},
      {"densenet_plain", kDenseNet, "dp=1,pp=1,micro_batch=2"},
      {"densenet_dp2_zero2", kDenseNet, "dp=2,pp=1,micro_batch=4,zero=2"},
      {"densenet_pp2_recompute", kDenseNet, "dp=1,pp=2,micro_batch=2,recompute=full"}};
}

Plan PlanOfCase(const Case& it, int64_t global_batch = kGlobalBatch) {
  const auto model = ResolveModel(it.model);
  TL_CHECK(model.ok(), "the models exist");
  auto pins = ParsePins("tp=1," + it.pins);
  TL_CHECK(pins.ok(), "the pins are well formed");
  const int gpus = *pins->dp * *pins->pp;
  const auto cluster = ParseCluster("emulated:" + std::to_string(gpus) + "x512MiB");
  TL_CHECK(cluster.ok(), "emulated clusters exist");
  WorkloadRequest request;
  request.global_batch = global_batch;
  const auto workload = MakeWorkload(*model, *cluster, request);
  TL_CHECK(workload.ok(), "a global batch of images");
  StatusOr<Plan> plan = PlanOf(*workload, *pins);
  TL_CHECK(plan.ok(), "the cases are valid plans");
  return *std::move(plan);
}

reference::ImageBatch BatchOf(const Plan& plan, int64_t step) {
  const ModelTraits model = TraitsOf(plan.model);
  const ImageSource source(0, model.image, model.classes, plan.global_batch);
  const int64_t pixels = model.image[0] * model.image[1] * model.image[2];
  reference::ImageBatch batch;
  batch.images.resize(plan.global_batch * pixels);
  for (int64_t j = 0; j < plan.global_batch; ++j) {
    batch.labels.push_back(
        source.Sample(step * plan.global_batch + j,
                      {batch.images.data() + j * pixels, static_cast<size_t>(pixels)}));
  }
  return batch;
}

// What the reference says about two steps; gradients are those of the first.
template <class Real>
struct Expected {
  std::vector<ParameterInfo> parameters;
  std::map<std::string, std::vector<Real>> gradients, after_one, after_two, state;
  std::vector<double> losses;
};

template <class Real>
Expected<Real> RunReference(const Plan& plan, const TrainingState& names) {
  reference::ConvNetTrainer<Real> trainer(std::get<ConvNetConfig>(plan.model),
                                          {.global_batch = plan.global_batch,
                                           .replicas = plan.dp,
                                           .micro_batch = plan.micro_batch,
                                           .adam = plan.optimizer});
  Expected<Real> expected;
  expected.parameters = trainer.Parameters();
  for (int step = 0; step < 2; ++step) {
    expected.losses.push_back(trainer.Step(BatchOf(plan, step)));
    for (const ParameterInfo& parameter : expected.parameters) {
      if (step == 0) expected.gradients[parameter.name] = trainer.Gradient(parameter.name);
      (step == 0 ? expected.after_one : expected.after_two)[parameter.name] =
          trainer.Parameter(parameter.name);
    }
  }
  for (const auto& [name, values] : names.state) expected.state[name] = trainer.State(name);
  return expected;
}

// Plans with equal replicas and micro-batches share a reference run.
template <class Real>
const Expected<Real>& ReferenceFor(const Plan& plan, const TrainingState& names) {
  static std::map<std::tuple<std::string, int32_t, int64_t>, Expected<Real>> runs;
  const std::tuple key{TraitsOf(plan.model).name, plan.dp, plan.micro_batch};
  auto found = runs.find(key);
  if (found == runs.end()) found = runs.emplace(key, RunReference<Real>(plan, names)).first;
  return found->second;
}

class ConvNetTest : public testing::TestWithParam<Case> {};

void ExpectEqualBits(const std::map<std::string, std::vector<float>>& expected,
                     const std::map<std::string, WholeTensor>& actual, const char* what) {
  for (const auto& [name, values] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    const TensorDifference difference = CompareTensors(values, actual.at(name).values);
    EXPECT_TRUE(difference.bitwise) << what << " " << reference::Describe(name, difference);
  }
}

TEST_P(ConvNetTest, AgreesWithTheReference) {
  const Plan plan = PlanOfCase(GetParam());
  const std::string folder = testing::TempDir() + "/convnet_" + GetParam().name;
  std::filesystem::remove_all(folder);
  std::vector<TrainingState> states;
  std::vector<double> losses;
  for (const int64_t steps : {1, 2}) {
    auto executed = ExecutePlan(
        plan,
        {.steps = steps, .checkpoint_folder = folder, .resume = steps > 1, .read_state = true});
    ASSERT_TRUE(executed.ok()) << executed.status();
    states.push_back(std::move(executed->state));
    losses = executed->report.losses;
  }
  std::filesystem::remove_all(folder);
  EXPECT_FALSE(states[0].state.empty());
  const Expected<double>& exact = ReferenceFor<double>(plan, states[0]);
  ASSERT_EQ(exact.parameters.size(), states[0].gradients.size());
  for (const ParameterInfo& parameter : exact.parameters) {
    const WholeTensor& gradient = states[0].gradients.at(parameter.name);
    EXPECT_EQ(gradient.shape, parameter.shape) << parameter.name;
    const TensorDifference difference =
        CompareTensors(exact.gradients.at(parameter.name), gradient.values);
    EXPECT_TRUE(difference.within)
        << "gradient " << reference::Describe(parameter.name, difference);
  }
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_NEAR(losses[0], exact.losses[0], 1e-5);
  const Expected<float>& bits = ReferenceFor<float>(plan, states[0]);
  EXPECT_NEAR(losses[1], bits.losses[1], 1e-5);
  ExpectEqualBits(bits.gradients, states[0].gradients, "gradient");
  ExpectEqualBits(bits.after_one, states[0].parameters, "after one step");
  ExpectEqualBits(bits.after_two, states[1].parameters, "after two steps");
  for (const auto& [name, values] : bits.state) EXPECT_EQ(states[1].state.at(name), values) << name;
}

// Three steps: in the first, gradients come to life after the peak; in the last, running statistics
// are not touched after their last update.
TEST_P(ConvNetTest, ObservedPeakIsTheStaticReplay) {
  const auto executed = ExecutePlan(
      PlanOfCase(GetParam()), {.steps = 3, .schedule = SchedulePolicy::kSerial, .eager = true});
  ASSERT_TRUE(executed.ok()) << executed.status();
  const Program& program = executed->program;
  for (size_t rank = 0; rank < program.ranks.size(); ++rank) {
    const Role& role = program.roles[program.ranks[rank].role];
    for (int index = 0; index < kSpaces; ++index) {
      const MemoryFigures figures = MeasureMemory(program, role, static_cast<Space>(index));
      const auto& observed = executed->report.ranks[rank].observed[index];
      ASSERT_TRUE(observed.has_value());
      EXPECT_EQ(observed->peak, figures.serial_peak) << "rank " << rank << " space " << index;
      for (int category = 0; category < kCategories; ++category) {
        EXPECT_EQ(observed->peak_by_category[category], figures.peak_by_category[category])
            << "rank " << rank << " " << std::string(Name(static_cast<Category>(category)));
      }
    }
  }
}

// Any order that the waits allow gives the same losses, without a race, and kernels stay within
// what they declare.
TEST_P(ConvNetTest, AnyOrderGivesTheSameLosses) {
  const Plan plan = PlanOfCase(GetParam());
  const auto serial =
      ExecutePlan(plan, {.check = CheckLevel::kKernels, .schedule = SchedulePolicy::kSerial});
  ASSERT_TRUE(serial.ok()) << serial.status();
  for (const TouchedOp& op : serial->report.touched) {
    EXPECT_LE(op.touched_bytes, op.declared_bytes) << std::string(Name(op.op));
    const double share =
        static_cast<double>(op.touched_bytes) / static_cast<double>(op.declared_bytes);
    if (share < 0.99) {
      EXPECT_FALSE(PartialTouchReason(op.op).empty()) << std::string(Name(op.op)) << " " << share;
    }
  }
  const auto seeded = ExecutePlan(plan, {.schedule = SchedulePolicy::kSeeded, .schedule_seed = 5});
  ASSERT_TRUE(seeded.ok()) << seeded.status();
  EXPECT_EQ(seeded->report.losses, serial->report.losses);
}

INSTANTIATE_TEST_SUITE_P(Plans, ConvNetTest, testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// A batch in one piece and the same batch on two replicas: statistics are of the same images, so
// losses agree but for rounding. Without shared statistics they would not.
TEST(ConvNetStatistics, ReplicasShareThem) {
  for (const char* model : {kResNet, kDenseNet}) {
    const auto one = ExecutePlan(PlanOfCase({"", model, "dp=1,pp=1,micro_batch=8"}), {.steps = 3});
    const auto two = ExecutePlan(PlanOfCase({"", model, "dp=4,pp=1,micro_batch=2"}), {.steps = 3});
    ASSERT_TRUE(one.ok() && two.ok());
    for (int step = 0; step < 3; ++step) {
      EXPECT_NEAR(one->report.losses[step], two->report.losses[step], 2e-4) << model << step;
    }
  }
}

// The loss falls below what a model that has learned nothing has, on images that never repeat.
TEST(ConvNetTraining, LearnsTheGeneratedLabels) {
  Plan plan = PlanOfCase(
      {"", "resnet:blocks=1-1,width=8,image=12,classes=4,stem=small", "dp=2,pp=1,micro_batch=8"},
      16);
  plan.optimizer.learning_rate = 0.01f;
  const auto executed = ExecutePlan(plan, {.steps = 60});
  ASSERT_TRUE(executed.ok()) << executed.status();
  double last = 0;
  for (int step = 40; step < 60; ++step) last += executed->report.losses[step] / 20;
  const ImageSource source(0, {3, 12, 12}, 4, 16);
  EXPECT_LT(last, 0.75 * source.label_entropy());
  EXPECT_GT(last, 0.5 * source.noise_entropy());
}

TEST(ConvNetTraining, ResNet50RunsAtASmallImage) {
  const Plan plan = PlanOfCase({"", "resnet50:image=32,classes=10", "dp=1,pp=1,micro_batch=2"}, 2);
  const auto executed = ExecutePlan(plan, {.steps = 2});
  ASSERT_TRUE(executed.ok()) << executed.status();
  ASSERT_EQ(executed->report.losses.size(), 2u);
  for (const double loss : executed->report.losses) EXPECT_TRUE(std::isfinite(loss));
}

}  // namespace
}  // namespace tideline::equivalence
