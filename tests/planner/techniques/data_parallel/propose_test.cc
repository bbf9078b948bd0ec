#include "planner/techniques/data_parallel/propose.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/planner/lowering/fixture.h"
#include "tests/planner/techniques/ways.h"

namespace tideline {
namespace {

using Ways = std::vector<std::string>;

// 6 GPUs, of which tp = 2 leaves 3; a batch of 12. dp 1: 12 samples a replica, of which 1, 2, 4 at
// a time (8 and 16 do not divide 12). dp 3: 4 samples, so 1, 2, 4. dp 2 does not divide 3 GPUs.
TEST(DataParallelProposeTest, DivisorsOfWhatIsLeftAndOfTheBatch) {
  const Workload workload = TestWorkload(TinyGpt(), 6, 12);
  EXPECT_EQ(
      WaysOf(ProposeDataParallel, workload, "", "tp=2"),
      (Ways{"tp=2,dp=1,micro_batch=1", "tp=2,dp=1,micro_batch=2", "tp=2,dp=1,micro_batch=4",
            "tp=2,dp=3,micro_batch=1", "tp=2,dp=3,micro_batch=2", "tp=2,dp=3,micro_batch=4"}));
}

// 7 GPUs: a batch of 7 can be one sample a replica, or all on one replica (7 is no power of two, so
// one at a time). A batch of 8 does not divide by 7.
TEST(DataParallelProposeTest, PrimesLeaveLittle) {
  EXPECT_EQ(WaysOf(ProposeDataParallel, TestWorkload(TinyGpt(), 7, 7)),
            (Ways{"dp=1,micro_batch=1", "dp=7,micro_batch=1"}));
  EXPECT_EQ(WaysOf(ProposeDataParallel, TestWorkload(TinyGpt(), 7, 8)),
            (Ways{"dp=1,micro_batch=1", "dp=1,micro_batch=2", "dp=1,micro_batch=4",
                  "dp=1,micro_batch=8"}));
  EXPECT_EQ(WaysOf(ProposeDataParallel, TestWorkload(TinyGpt(), 1, 1)),
            (Ways{"dp=1,micro_batch=1"}));
}

TEST(DataParallelProposeTest, MicroBatchesEndAtSixteenUnlessPinned) {
  const Workload workload = TestWorkload(TinyGpt(), 1, 64);
  const Ways ways = WaysOf(ProposeDataParallel, workload);
  EXPECT_EQ(ways.size(), 5u);
  EXPECT_EQ(ways.back(), "dp=1,micro_batch=16");
  EXPECT_EQ(WaysOf(ProposeDataParallel, workload, "micro_batch=64"), (Ways{"dp=1,micro_batch=64"}));
}

TEST(DataParallelProposeTest, PinsAreKept) {
  const Workload workload = TestWorkload(TinyGpt(), 6, 12);
  EXPECT_EQ(WaysOf(ProposeDataParallel, workload, "dp=3"),
            (Ways{"dp=3,micro_batch=1", "dp=3,micro_batch=2", "dp=3,micro_batch=4"}));
  // A micro-batch that no power of two is: 3 divides 12 and 12 / 2, not 12 / 3; 12 / 6 is less.
  EXPECT_EQ(WaysOf(ProposeDataParallel, workload, "micro_batch=3"),
            (Ways{"dp=1,micro_batch=3", "dp=2,micro_batch=3"}));
  EXPECT_EQ(WaysOf(ProposeDataParallel, workload, "dp=4"), Ways());           // of 6 GPUs
  EXPECT_EQ(WaysOf(ProposeDataParallel, workload, "micro_batch=5"), Ways());  // of 12 samples
}

// Against all pairs: exactly those that fit are proposed, each once, and nothing else is touched.
TEST(DataParallelProposeTest, NothingThatFitsIsLeftOut) {
  for (const int32_t gpus : {1, 2, 3, 7, 8, 12, 30}) {
    for (const int64_t batch : {1, 6, 7, 8, 61, 64, 120}) {
      const Workload workload = TestWorkload(TinyLlama(), gpus, batch);
      std::set<std::pair<int32_t, int64_t>> expected;
      for (int32_t dp = 1; dp <= gpus; ++dp) {
        for (const int64_t micro_batch : {1, 2, 4, 8, 16}) {
          if (gpus % dp == 0 && batch % (dp * micro_batch) == 0) expected.insert({dp, micro_batch});
        }
      }
      std::set<std::pair<int32_t, int64_t>> proposed;
      const Pins partial = *ParsePins("zero=2,chunks=3");
      for (const Pins& way : ProposeDataParallel({workload, {}}, partial)) {
        EXPECT_TRUE(proposed.insert({*way.dp, *way.micro_batch}).second);
        Pins rest = way;
        rest.dp = std::nullopt;
        rest.micro_batch = std::nullopt;
        EXPECT_EQ(rest, partial);
      }
      EXPECT_EQ(proposed, expected) << gpus << " GPUs, batch " << batch;
    }
  }
}

TEST(DataParallelProposeTest, PinsThatFitNothingAreExplained) {
  const Workload workload = TestWorkload(TinyGpt(), 6, 12);
  EXPECT_EQ(RefusalOf(workload, "dp=4"),
            "field 'mesh' has tp * pp * dp = 1 * 1 * 4, which must be the number of GPUs of the "
            "cluster, 6");
  EXPECT_EQ(RefusalOf(workload, "dp=6,micro_batch=4"),
            "field 'global_batch' is 12, which does not divide by dp * micro_batch = 6 * 4 = 24");
}

}  // namespace
}  // namespace tideline
