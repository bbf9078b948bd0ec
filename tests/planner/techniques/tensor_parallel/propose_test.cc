#include "planner/techniques/tensor_parallel/propose.h"

#include <gtest/gtest.h>

#include "tests/planner/lowering/fixture.h"
#include "tests/planner/techniques/ways.h"

namespace tideline {
namespace {

using Ways = std::vector<std::string>;

// TinyGpt has 4 heads and 128 columns in its MLP, TinyLlama 2 key heads, and of 6 GPUs 3 divides
// neither. The sequence of 8 is cut where there is something to cut it over.
TEST(TensorParallelProposeTest, DivisorsOfGpusAndHeads) {
  EXPECT_EQ(
      WaysOf(ProposeTensorParallel, TestWorkload(TinyGpt(), 8, 8)),
      (Ways{"tp=1,sequence_parallel=0", "tp=2,sequence_parallel=0", "tp=2,sequence_parallel=1",
            "tp=4,sequence_parallel=0", "tp=4,sequence_parallel=1"}));
  EXPECT_EQ(
      WaysOf(ProposeTensorParallel, TestWorkload(TinyLlama(), 6, 8)),
      (Ways{"tp=1,sequence_parallel=0", "tp=2,sequence_parallel=0", "tp=2,sequence_parallel=1"}));
  EXPECT_EQ(WaysOf(ProposeTensorParallel, TestWorkload(TinyGpt(), 7, 7)),
            (Ways{"tp=1,sequence_parallel=0"}));
}

TEST(TensorParallelProposeTest, PinsAreKept) {
  const Workload workload = TestWorkload(TinyGpt(), 8, 8);
  EXPECT_EQ(WaysOf(ProposeTensorParallel, workload, "tp=2,sequence_parallel=1", "zero=1"),
            (Ways{"tp=2,zero=1,sequence_parallel=1"}));
  EXPECT_EQ(WaysOf(ProposeTensorParallel, workload, "tp=1,sequence_parallel=1"),
            (Ways{"tp=1,sequence_parallel=1"}));
  EXPECT_EQ(WaysOf(ProposeTensorParallel, workload, "tp=3"), Ways());
  EXPECT_EQ(WaysOf(ProposeTensorParallel, workload, "tp=8"), Ways());  // of 4 heads
}

TEST(TensorParallelProposeTest, PinsThatFitNothingAreExplained) {
  EXPECT_EQ(RefusalOf(TestWorkload(TinyGpt(), 8, 8), "tp=8"),
            "field 'mesh.tp' is 8, which does not divide the 4 heads; choose tp among their "
            "divisors");
  EXPECT_EQ(RefusalOf(TestWorkload(TinyLlama(), 4, 8), "tp=4"),
            "field 'mesh.tp' is 4, which does not divide the 2 heads of keys and values; choose tp "
            "among their divisors");
}

}  // namespace
}  // namespace tideline
