#include "planner/techniques/pipeline/propose.h"

#include <gtest/gtest.h>

#include "tests/planner/lowering/fixture.h"
#include "tests/planner/techniques/ways.h"

namespace tideline {
namespace {

using Ways = std::vector<std::string>;

// pp is what tp and dp leave of the GPUs; TinyGpt has 4 layers. Over 2 stages they make 2 chunks
// each at the most, and interleaving wants the micro-batches (8 / micro_batch) to divide by pp.
TEST(PipelineProposeTest, TheRestOfTheGpusBecomesStages) {
  const Workload workload = TestWorkload(TinyGpt(), 4, 8);
  EXPECT_EQ(WaysOf(ProposePipeline, workload, "", "tp=4,dp=1,micro_batch=1"),
            (Ways{"tp=4,pp=1,dp=1,micro_batch=1,schedule=1f1b,chunks=1"}));
  EXPECT_EQ(WaysOf(ProposePipeline, workload, "", "tp=2,dp=1,micro_batch=2"),
            (Ways{"tp=2,pp=2,dp=1,micro_batch=2,schedule=1f1b,chunks=1",
                  "tp=2,pp=2,dp=1,micro_batch=2,schedule=interleaved,chunks=2"}));
  EXPECT_EQ(WaysOf(ProposePipeline, workload, "", "tp=2,dp=1,micro_batch=8"),
            (Ways{"tp=2,pp=2,dp=1,micro_batch=8,schedule=1f1b,chunks=1"}));
  // 3 stages do not divide 4 layers.
  EXPECT_EQ(WaysOf(ProposePipeline, TestWorkload(TinyGpt(), 3, 8), "", "tp=1,dp=1,micro_batch=1"),
            Ways());
}

TEST(PipelineProposeTest, GPipeAndOneStageInterleavedOnlyWhenPinned) {
  const Workload workload = TestWorkload(TinyGpt(), 2, 8);
  EXPECT_EQ(WaysOf(ProposePipeline, workload, "schedule=gpipe", "dp=1,micro_batch=1"),
            (Ways{"pp=2,dp=1,micro_batch=1,schedule=gpipe,chunks=1"}));
  EXPECT_EQ(WaysOf(ProposePipeline, workload, "schedule=interleaved", "dp=2,micro_batch=1"),
            (Ways{"pp=1,dp=2,micro_batch=1,schedule=interleaved,chunks=1",
                  "pp=1,dp=2,micro_batch=1,schedule=interleaved,chunks=2",
                  "pp=1,dp=2,micro_batch=1,schedule=interleaved,chunks=4"}));
  EXPECT_EQ(WaysOf(ProposePipeline, workload, "pp=1", "dp=1,micro_batch=1"), Ways());
  EXPECT_EQ(WaysOf(ProposePipeline, workload, "schedule=1f1b,chunks=2", "dp=1,micro_batch=1"),
            Ways());
}

TEST(PipelineProposeTest, PinsThatFitNothingAreExplained) {
  const Workload workload = TestWorkload(TinyGpt(), 2, 6);
  EXPECT_EQ(RefusalOf(workload, "pp=2,schedule=interleaved,chunks=2,micro_batch=2"),
            "field 'order.schedule' is interleaved with 3 micro-batches per replica, which do not "
            "divide by pp = 2; change global_batch or micro_batch, or use 1f1b");
  EXPECT_EQ(RefusalOf(workload, "pp=2,chunks=2"),
            "field 'order.chunks' is 2 with schedule 1f1b; several chunks per stage need schedule "
            "interleaved");
}

}  // namespace
}  // namespace tideline
