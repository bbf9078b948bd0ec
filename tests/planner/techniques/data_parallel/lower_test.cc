#include "planner/techniques/data_parallel/lower.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "planner/lowering/lower.h"
#include "planner/lowering/parameter_layout.h"
#include "tests/planner/lowering/fixture.h"

namespace tideline {
namespace {

// TinyGpt with `dp` replicas of two micro-batches of two samples.
Plan PlanOver(int32_t dp) { return TestPlan(TinyGpt(), {.dp = dp}); }

std::vector<int64_t> BucketElements(const Plan& plan) {
  std::vector<int64_t> elements;
  for (const Bucket& bucket : LayOutParameters(*DraftOf(plan), 0).buckets) {
    elements.push_back(bucket.elements);
  }
  return elements;
}

// Elements that one rank hands to each kind of collective over dp in a step, without the loss's.
std::map<CollectiveKind, int64_t> Reduced(const Program& program) {
  std::map<CollectiveKind, int64_t> elements;
  const Role& role = program.roles[0];
  for (const Instruction& instruction : role.bodies[0].instructions) {
    if (instruction.kind != InstructionKind::kCollective) continue;
    if (LaneName(program, role.lanes[instruction.lane]) != "group dp") continue;
    const Collective& collective = program.collectives[instruction.what];
    if (collective.block > 1) elements[collective.kind] += collective.outer * collective.block;
  }
  return elements;
}

TEST(DataParallelLowerTest, ReplicasShareTheMicroBatches) {
  for (const int32_t dp : {1, 3, 7, 8}) {
    Plan plan = PlanOver(dp);
    plan.global_batch = int64_t{2} * dp * 5;
    Draft draft = *MakeDraft(plan);
    EXPECT_EQ(draft.micro_batches, 5 * dp);  // before the pass: all on one rank
    const size_t nodes = draft.graph.nodes.size();
    ASSERT_TRUE(LowerDataParallel(draft).ok());
    EXPECT_EQ(draft.size(Axis::kData), dp);
    EXPECT_EQ(draft.micro_batches, 5);
    ASSERT_EQ(draft.order.size(), 1u);
    EXPECT_EQ(draft.order[0], SerialOrder(5));
    EXPECT_EQ(draft.graph.nodes.size(), nodes);
    EXPECT_EQ(UsesDataParallel(plan), dp > 1);
  }
}

// Every sample of the step is taken once, by one replica in one micro-batch.
TEST(DataParallelLowerTest, SamplesArePartitioned) {
  for (const int32_t dp : {1, 3, 7, 8}) {
    const Program program = *Lower(PlanOver(dp));
    std::multiset<int64_t> samples;
    for (const Rank& rank : program.ranks) {
      for (const Instruction& instruction : program.roles[rank.role].bodies[0].instructions) {
        if (instruction.kind != InstructionKind::kHostCompute) continue;
        const HostTask& task = program.host_tasks[instruction.what];
        if (task.kind != HostTaskKind::kLoadTokens) continue;
        int64_t first = task.first_sample.base;
        for (int axis = 0; axis < kAxes; ++axis) {
          first += task.first_sample.per_coordinate[axis] * rank.coordinates[axis];
        }
        for (int64_t i = 0; i < task.samples; ++i) samples.insert(first + i);
      }
    }
    std::multiset<int64_t> all;
    for (int64_t sample = 0; sample < program.global_batch; ++sample) all.insert(sample);
    EXPECT_EQ(samples, all) << dp;
  }
}

// Elements of TinyGpt's parameters in the order in which backward finishes them:
//   final norm          32 (bias), 32
//   each of 4 layers    down 32, 4096; up 128, 4096; MLP norm 32, 32; output 32, 1024;
//                       qkv 96, 3072; attention norm 32, 32                          = 12704
//   positions           512
//   the tied embedding  1952 = 61 * 32, always in a bucket of its own
// fp32 gradients and buckets of 10000 bytes: a bucket is full from 2500 elements on, so
//   64 + 32 + 4096 = 4192 (the first 64 are the norm before: final's, then each layer's attention
//   norm), 128 + 4096 = 4224, 64 + 32 + 1024 + 96 + 3072 = 4288, four times; the last norm and the
//   positions stay together, 576.
TEST(DataParallelLowerTest, BucketsByHand) {
  std::vector<int64_t> expected;
  for (int layer = 0; layer < 4; ++layer) expected.insert(expected.end(), {4192, 4224, 4288});
  expected.insert(expected.end(), {576, 1952});
  for (const int32_t dp : {1, 3, 7, 8}) {
    Plan plan = PlanOver(dp);
    plan.bucket_bytes = 10000;
    EXPECT_EQ(BucketElements(plan), expected) << dp;
  }
}

// The bound counts bytes of gradients: at 2 bytes each twice the elements fit (5000), so layers 4
// and 3 close at 64 + 32 + 4096 + 128 + 4096 = 8416, then 64 + 32 + 1024 + 96 + 3072 + 64 + 32 +
// 4096 = 8480, and then 128 + 4096 + 64 + 32 + 1024 = 5344.
TEST(DataParallelLowerTest, BucketsCountBytes) {
  Plan plan = PlanOver(2);
  plan.bucket_bytes = 10000;
  plan.dtype = plan.grad_dtype = DType::kBF16;
  plan.graph_hash = *ModelHash(plan.model, plan.seq, plan.dtype);
  const std::vector<int64_t> elements = BucketElements(plan);
  ASSERT_GE(elements.size(), 3u);
  EXPECT_EQ(elements[0], 8416);
  EXPECT_EQ(elements[1], 8480);
  EXPECT_EQ(elements[2], 5344);
}

// The least bucket holds one parameter: 12 in each of 4 layers, 2 of the final norm, positions and
// embedding. The default of 25 MiB holds all but the embedding: 64 + 4 * 12704 + 512.
TEST(DataParallelLowerTest, SmallestAndLargestBuckets) {
  Plan plan = PlanOver(2);
  plan.bucket_bytes = 1;
  EXPECT_EQ(BucketElements(plan).size(), 4u * 12 + 2 + 2);
  plan.bucket_bytes = kDefaultBucketBytes;
  EXPECT_EQ(BucketElements(plan), (std::vector<int64_t>{51392, 1952}));
}

// One all-reduce of every gradient and nothing else, however they are cut into buckets. Alone there
// is nobody to reduce with.
TEST(DataParallelLowerTest, EveryGradientIsReducedOnce) {
  for (const int32_t dp : {1, 3, 7, 8}) {
    for (const int64_t bucket : {int64_t{1}, int64_t{10000}, kDefaultBucketBytes}) {
      Plan plan = PlanOver(dp);
      plan.bucket_bytes = bucket;
      std::map<CollectiveKind, int64_t> expected;
      if (dp > 1) expected[CollectiveKind::kAllReduce] = 51392 + 1952;
      EXPECT_EQ(Reduced(*Lower(plan)), expected) << dp << " " << bucket;
    }
  }
}

// A bucket is reduced beside the backward that is left, and not before its gradients are whole:
// the all-reduce comes after its last write, and backward goes on after all of them but one.
TEST(DataParallelLowerTest, BucketsAreReducedDuringBackward) {
  Plan plan = PlanOver(2);
  plan.bucket_bytes = 10000;
  const Program program = *Lower(plan);
  const Section& body = program.roles[0].bodies[0];
  size_t last_backward = 0;
  std::map<uint32_t, size_t> last_write;  // by gradient buffer
  std::map<uint32_t, size_t> reduce;
  for (size_t i = 0; i < body.instructions.size(); ++i) {
    const Instruction& instruction = body.instructions[i];
    if (instruction.phase == Phase::kBackward) last_backward = i;
    for (const Operand& operand : body.Operands(instruction)) {
      const Buffer& buffer = program.roles[0].buffers[operand.buffer];
      if (buffer.category != Category::kGradient || operand.access == Access::kRead) continue;
      const bool collective = instruction.kind == InstructionKind::kCollective;
      (collective ? reduce : last_write)[operand.buffer] = i;
    }
  }
  ASSERT_EQ(reduce.size(), 14u);
  int during_backward = 0;
  for (const auto& [buffer, index] : reduce) {
    EXPECT_GT(index, last_write.at(buffer));
    during_backward += index < last_backward;
  }
  EXPECT_EQ(during_backward, 13);  // not the tied embedding's, whose gradient is the last
}

}  // namespace
}  // namespace tideline
