#include "planner/techniques/zero/lower.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>

#include "planner/lowering/lower.h"
#include "planner/lowering/parameter_layout.h"
#include "planner/plan/validate.h"
#include "tests/planner/lowering/fixture.h"

namespace tideline {
namespace {

// TinyGpt with buckets of 10000 bytes of fp32 gradients: 4192, 4224 and 4288 elements for each of
// four layers, 576, and the tied embedding's 1952 (the working is in data_parallel/lower_test.cc).
Plan PlanOver(int32_t dp, int32_t zero) {
  Plan plan = TestPlan(TinyGpt(), {.dp = dp});
  plan.bucket_bytes = 10000;
  plan.zero = zero;
  return plan;
}

std::vector<int64_t> Shards(const Plan& plan) {
  std::vector<int64_t> shards;
  for (const Bucket& bucket : LayOutParameters(*DraftOf(plan), 0).buckets) {
    shards.push_back(bucket.shard);
  }
  return shards;
}

std::vector<int64_t> FourLayers(const std::vector<int64_t>& layer,
                                const std::vector<int64_t>& rest) {
  std::vector<int64_t> all;
  for (int i = 0; i < 4; ++i) all.insert(all.end(), layer.begin(), layer.end());
  all.insert(all.end(), rest.begin(), rest.end());
  return all;
}

TEST(ZeroLowerTest, ThePassSetsStageAndReduction) {
  Plan plan = PlanOver(3, 2);
  plan.reduce = GradientReduction::kEachMicroBatch;
  Draft draft = *MakeDraft(plan);
  ASSERT_TRUE(LowerZero(draft).ok());
  EXPECT_EQ(draft.zero, 2);
  EXPECT_EQ(draft.reduce, GradientReduction::kEachMicroBatch);
  EXPECT_TRUE(UsesZero(plan));
  EXPECT_FALSE(UsesZero(PlanOver(3, 0)));
  EXPECT_FALSE(UsesZero(PlanOver(1, 3)));  // nobody to share with
}

// Padded to a multiple of 64 * dp elements:
//   dp 3 (192): 4192 -> 4224, 4224, 4288 -> 4416, 576, 1952 -> 2112
//   dp 7 (448): 4480, 4480, 4480, 576 -> 896, 1952 -> 2240
//   dp 8 (512): 4608, 4608, 4608, 576 -> 1024, 1952 -> 2048
// and alone nothing is padded.
TEST(ZeroLowerTest, ShardsByHand) {
  for (const int32_t zero : {1, 2}) {
    EXPECT_EQ(Shards(PlanOver(1, zero)), FourLayers({4192, 4224, 4288}, {576, 1952}));
    EXPECT_EQ(Shards(PlanOver(3, zero)), FourLayers({1408, 1408, 1472}, {192, 704}));
    EXPECT_EQ(Shards(PlanOver(7, zero)), FourLayers({640, 640, 640}, {128, 320}));
    EXPECT_EQ(Shards(PlanOver(8, zero)), FourLayers({576, 576, 576}, {128, 256}));
  }
}

// Stage 3: a bucket per block whatever the bucket size: final norm 64, layers 12704, positions 512,
// the embedding. dp 3: 192, 12864, 576, 2112 of 192; dp 7: 448, 12992, 896, 2240 of 448; dp 8: 512,
// 12800, 512, 2048 of 512.
TEST(ZeroLowerTest, StageThreeCutsBlocks) {
  using Sizes = std::vector<int64_t>;
  EXPECT_EQ(Shards(PlanOver(3, 3)), (Sizes{64, 4288, 4288, 4288, 4288, 192, 704}));
  EXPECT_EQ(Shards(PlanOver(7, 3)), (Sizes{64, 1856, 1856, 1856, 1856, 128, 320}));
  EXPECT_EQ(Shards(PlanOver(8, 3)), (Sizes{64, 1600, 1600, 1600, 1600, 64, 256}));
}

// dp 3, fp32 (4 bytes of parameter and of gradient, 8 of optimizer state an element). The padded
// buckets hold 4 * (4224 + 4224 + 4416) + 576 + 2112 = 54144 elements, a third of it 18048; stage
// 3's 192 + 4 * 12864 + 576 + 2112 = 54336 and 18112. The embedding's second use accumulates in
// 1952 elements of its own.
TEST(ZeroLowerTest, StateByHand) {
  const auto state = [](int32_t zero) {
    const Draft draft = *DraftOf(PlanOver(3, zero));
    return StateOf(draft, LayOutParameters(draft, 0));
  };
  constexpr int64_t kSecondUse = 1952 * 4;
  const StateFigures whole = state(0);
  EXPECT_EQ(whole.parameter_bytes, 53344 * 4);
  EXPECT_EQ(whole.gradient_bytes, 53344 * 4 + kSecondUse);
  EXPECT_EQ(whole.optimizer_bytes, 53344 * 8);
  const StateFigures one = state(1);
  EXPECT_EQ(one.parameter_bytes, 54144 * 4);
  EXPECT_EQ(one.gradient_bytes, 54144 * 4 + kSecondUse);
  EXPECT_EQ(one.optimizer_bytes, 18048 * 8);
  const StateFigures two = state(2);
  EXPECT_EQ(two.parameter_bytes, 54144 * 4);
  EXPECT_EQ(two.gradient_bytes, 18048 * 4 + kSecondUse);
  EXPECT_EQ(two.optimizer_bytes, 18048 * 8);
  const StateFigures three = state(3);
  EXPECT_EQ(three.parameter_bytes, 18112 * 4);
  EXPECT_EQ(three.gradient_bytes, 18112 * 4 + kSecondUse);
  EXPECT_EQ(three.optimizer_bytes, 18112 * 8);
}

// Whatever the sizes: every parameter lies once, without gaps; shards cover the padded bucket and
// waste less than one alignment per rank; buckets come in the order in which backward ends.
TEST(ZeroLowerTest, LayoutsHoldEveryParameterOnce) {
  for (const DecoderConfig& model : {TinyGpt(), TinyLlama(), TinyOpt()}) {
    for (const int32_t dp : {1, 2, 3, 5, 7, 8, 61}) {
      for (const int32_t zero : {0, 1, 2, 3}) {
        for (const int64_t bucket_bytes : {int64_t{1}, int64_t{4097}, kDefaultBucketBytes}) {
          Plan plan = TestPlan(model, {.dp = dp});
          plan.zero = zero;
          plan.bucket_bytes = bucket_bytes;
          const Draft draft = *DraftOf(plan);
          std::set<TensorId> parameters;
          int32_t block = draft.graph.blocks;
          for (const Bucket& bucket : LayOutParameters(draft, 0).buckets) {
            int64_t next = 0;
            for (const ParameterSlot& slot : bucket.slots) {
              EXPECT_TRUE(parameters.insert(slot.parameter).second);
              EXPECT_EQ(slot.offset, next);
              next += slot.elements;
            }
            EXPECT_EQ(bucket.elements, next);
            const int64_t owners = zero > 0 ? dp : 1;
            EXPECT_EQ(bucket.shard * owners, bucket.padded);
            EXPECT_GE(bucket.padded, bucket.elements);
            EXPECT_LT(bucket.padded - bucket.elements, owners * kShardAlignmentElements);
            if (zero > 0 && dp > 1) {
              EXPECT_EQ(bucket.shard % kShardAlignmentElements, 0);
            }
            EXPECT_LE(bucket.blocks.front(), block);
            block = bucket.blocks.front();
            const bool tied = bucket.blocks.size() == 2 && bucket.slots.size() == 1;
            if (zero == 3 && dp > 1 && !tied) {
              EXPECT_EQ(bucket.blocks.size(), 1u);
            }
          }
          size_t count = 0;
          for (const Tensor& tensor : draft.graph.tensors) {
            count += tensor.role == TensorRole::kParameter && tensor.alias_of == kNone;
          }
          EXPECT_EQ(parameters.size(), count);
        }
      }
    }
  }
}

// Elements of the whole tensors that one rank hands to each kind of collective over dp in a step.
std::map<std::string, int64_t> Volume(const Plan& plan) {
  const Program program = *Lower(plan);
  const Role& role = program.roles[0];
  std::map<std::string, int64_t> elements;
  for (const Instruction& instruction : role.bodies[0].instructions) {
    if (instruction.kind != InstructionKind::kCollective) continue;
    const Collective& collective = program.collectives[instruction.what];
    if (collective.block == 1) continue;  // the loss
    const bool whole = collective.kind == CollectiveKind::kAllReduce;
    elements[std::string(Name(collective.kind))] += collective.block * (whole ? 1 : plan.dp);
  }
  return elements;
}

// As in the paper (section 7), stages 1 and 2 scatter and gather every element once. With
// each_micro_batch all but the tied bucket (2112 padded), whose uses are added first, are scattered
// in both micro-batches.
TEST(ZeroLowerTest, VolumesByHand) {
  using Volumes = std::map<std::string, int64_t>;
  EXPECT_EQ(Volume(PlanOver(3, 0)), (Volumes{{"all_reduce", 53344}}));
  for (const int32_t zero : {1, 2}) {
    EXPECT_EQ(Volume(PlanOver(3, zero)),
              (Volumes{{"reduce_scatter", 54144}, {"all_gather", 54144}}));
  }
  Plan each = PlanOver(3, 2);
  each.reduce = GradientReduction::kEachMicroBatch;
  EXPECT_EQ(Volume(each), (Volumes{{"reduce_scatter", 2 * 54144 - 2112}, {"all_gather", 54144}}));
  EXPECT_EQ(Volume(PlanOver(1, 3)), Volumes());
}

// Stage 3 gathers what each block needs for its forward and again for its backward. TinyLlama's
// embedding has 61 * 32 = 1952 elements, a layer 2 * 32 + 2 * 1024 + 2 * 512 + 3 * 32 * 48 = 7744,
// the head 1952 + 32 = 1984: over 3 ranks 2112, 7872 and 2112. Of 2 micro-batches' forwards and
// backwards, the head is still there when its backward begins, both times, and the embedding from
// the first backward to the second forward.
TEST(ZeroLowerTest, StageThreeGathersTwiceAMicroBatch) {
  Plan plan = TestPlan(TinyLlama(), {.dp = 3});
  plan.zero = 3;
  const int64_t all = 2112 + 4 * 7872 + 2112;
  EXPECT_EQ(Volume(plan), (std::map<std::string, int64_t>{{"reduce_scatter", all},
                                                          {"all_gather", 4 * all - 3 * 2112}}));
}

TEST(ZeroLowerTest, ReducingEachMicroBatchNeedsShardedGradients) {
  for (const int32_t zero : {0, 1}) {
    Plan plan = PlanOver(3, zero);
    plan.reduce = GradientReduction::kEachMicroBatch;
    const Status status = Validate(plan);
    EXPECT_EQ(ExitCode(status), 5);
    EXPECT_EQ(status.message(), "field 'buckets.reduce' is each_micro_batch with zero = " +
                                    std::to_string(zero) + "; it needs zero = 2 or 3");
  }
}

}  // namespace
}  // namespace tideline
