// Convolutional networks as Programs: batch norms over replicas, running statistics, images, and
// the evaluation that takes the running statistics.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "models/zoo/zoo.h"
#include "planner/lowering/lower.h"
#include "planner/program/file.h"
#include "planner/program/verifier.h"
#include "tests/planner/lowering/fixture.h"

namespace tideline {
namespace {

constexpr const char* kModel = "resnet:blocks=1-1,width=4,image=8,classes=5,stem=small";
// stem 1; each basic block 2, the second's shortcut 1.
constexpr int64_t kNorms = 6;

Plan NetPlan(const Pins& pins, int64_t global_batch = 8) {
  WorkloadRequest request;
  request.global_batch = global_batch;
  const auto workload = MakeWorkload(
      *ResolveModel(kModel), TestCluster(pins.dp.value_or(1) * pins.pp.value_or(1)), request);
  EXPECT_TRUE(workload.ok()) << workload.status();
  const auto plan = PlanOf(*workload, pins);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *plan;
}

Program Lowered(const Plan& plan) {
  const auto program = Lower(plan, {.verify_each_pass = true, .evaluation = true});
  EXPECT_TRUE(program.ok()) << program.status();
  return *program;
}

std::map<Op, int64_t> CountOps(const Program& program, const Section& section) {
  std::map<Op, int64_t> counts;
  for (const Instruction& instruction : section.instructions) {
    if (instruction.kind == InstructionKind::kCompute) {
      ++counts[program.kernels[instruction.what].op];
    }
  }
  return counts;
}

TEST(ConvNetLowering, ReplicasGatherMomentsAndReduceSums) {
  Pins pins;
  pins.dp = 4;
  pins.micro_batch = 1;
  const Program program = Lowered(NetPlan(pins));
  const Section& body = program.roles[0].bodies[0];
  int64_t gathers = 0, reduces = 0;
  for (const Instruction& instruction : body.instructions) {
    if (instruction.kind != InstructionKind::kCollective) continue;
    const std::string_view name = NameText(program, instruction.name);
    const Collective& collective = program.collectives[instruction.what];
    if (name.ends_with(".moments.all")) {
      EXPECT_EQ(collective.kind, CollectiveKind::kAllGather);
      EXPECT_EQ(collective.block % 3, 0);  // [3, channels] of each replica
      ++gathers;
    } else if (name.ends_with(":sums.all")) {
      EXPECT_EQ(collective.kind, CollectiveKind::kAllReduce);
      ++reduces;
    }
  }
  EXPECT_EQ(gathers, 2 * kNorms);  // two micro-batches
  EXPECT_EQ(reduces, 2 * kNorms);
}

// Statistics are made again for backward, but move only once per micro-batch.
TEST(ConvNetLowering, RecomputationTracksOnce) {
  Pins pins;
  pins.micro_batch = 2;
  const Program plain = Lowered(NetPlan(pins));
  pins.recompute = Recompute::kFull;
  const Program program = Lowered(NetPlan(pins));
  const auto once = CountOps(plain, plain.roles[0].bodies[0]);
  const auto twice = CountOps(program, program.roles[0].bodies[0]);
  EXPECT_EQ(once.at(Op::kBatchMoments), 4 * kNorms);
  EXPECT_EQ(twice.at(Op::kBatchMoments), 4 * (2 * kNorms - 1));  // not the stem's
  EXPECT_EQ(once.at(Op::kBatchNormTrack), 4 * kNorms);
  EXPECT_EQ(twice.at(Op::kBatchNormTrack), 4 * kNorms);
}

TEST(ConvNetLowering, StagesHoldTheirOwnStatistics) {
  Pins pins;
  pins.pp = 2;
  pins.micro_batch = 2;
  const Program program = Lowered(NetPlan(pins));
  std::set<std::string> names;
  for (const Role& role : program.roles) {
    for (const Buffer& buffer : role.buffers) {
      const std::string name(NameText(program, buffer.name));
      if (name.find(".running_") == std::string::npos) continue;
      EXPECT_TRUE(buffer.persistent);
      EXPECT_EQ(buffer.category, Category::kParameter);
      EXPECT_TRUE(names.insert(name).second) << name;
    }
  }
  EXPECT_EQ(names.size(), 2u * kNorms);
  // The first stage takes the images, the last the labels.
  for (size_t stage = 0; stage < 2; ++stage) {
    std::set<int64_t> copied;
    for (const Instruction& instruction : program.roles[stage].bodies[0].instructions) {
      if (instruction.kind == InstructionKind::kHostCompute &&
          LoadsSamples(program.host_tasks[instruction.what])) {
        EXPECT_EQ(program.host_tasks[instruction.what].kind, HostTaskKind::kLoadImages);
        EXPECT_EQ(program.host_tasks[instruction.what].image, (std::array<int64_t, 3>{3, 8, 8}));
      }
      if (instruction.kind != InstructionKind::kCopy ||
          NameText(program, instruction.name) != "copy images") {
        continue;
      }
      copied.insert(program.roles[stage].bodies[0].Operands(instruction)[1].bytes);
    }
    EXPECT_EQ(copied, (std::set<int64_t>{stage == 0 ? 2 * 3 * 8 * 8 * 4 : 2 * 4}));
  }
}

// Nothing of the batch's statistics is left, nor a collective but the loss's.
TEST(ConvNetLowering, EvaluationTakesTheRunningStatistics) {
  for (const int32_t dp : {1, 2}) {
    Pins pins;
    pins.dp = dp;
    pins.pp = 2;
    pins.micro_batch = 2;
    const Program program = Lowered(NetPlan(pins));
    std::map<Op, int64_t> counts;
    for (const Role& role : program.roles) {
      for (const auto& [op, count] : CountOps(program, role.bodies[1])) counts[op] += count;
      for (const Instruction& instruction : role.bodies[1].instructions) {
        EXPECT_NE(instruction.phase, Phase::kBackward);
        if (instruction.kind == InstructionKind::kCollective) {
          EXPECT_EQ(NameText(program, instruction.name), "sum loss over dp");
        }
      }
    }
    EXPECT_EQ(counts[Op::kBatchNormFixed], kNorms * 8 / (2 * dp));
    for (const Op op : {Op::kBatchMoments, Op::kBatchNorm, Op::kBatchNormTrack}) {
      EXPECT_EQ(counts[op], 0);
    }
  }
}

TEST(ConvNetLowering, FilesKeepWindowsAndImages) {
  const Program program = Lowered(NetPlan({}));
  const auto read = Parse(Serialize(program));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(read->kernels == program.kernels);
  EXPECT_TRUE(read->host_tasks == program.host_tasks);
  EXPECT_EQ(Serialize(*read), Serialize(program));
  // A load whose operands are not those of its images is refused.
  Program wrong = program;
  for (HostTask& task : wrong.host_tasks) {
    if (task.kind == HostTaskKind::kLoadImages) task.image[0] = 4;
  }
  EXPECT_FALSE(Verify(wrong).ok());
}

}  // namespace
}  // namespace tideline
