#include "planner/techniques/zero/propose.h"

#include <gtest/gtest.h>

#include "tests/planner/lowering/fixture.h"
#include "tests/planner/techniques/ways.h"

namespace tideline {
namespace {

using Ways = std::vector<std::string>;

TEST(ZeroProposeTest, AllStagesOverReplicasAndNoneWithout) {
  const Workload workload = TestWorkload(TinyGpt(), 8, 8);
  EXPECT_EQ(WaysOf(ProposeZero, workload, "", "dp=2"),
            (Ways{"dp=2,zero=0,reduce=once", "dp=2,zero=1,reduce=once", "dp=2,zero=2,reduce=once",
                  "dp=2,zero=2,reduce=each_micro_batch", "dp=2,zero=3,reduce=once",
                  "dp=2,zero=3,reduce=each_micro_batch"}));
  EXPECT_EQ(WaysOf(ProposeZero, workload, "", "dp=1"), (Ways{"dp=1,zero=0,reduce=once"}));
  EXPECT_EQ(WaysOf(ProposeZero, workload), (Ways{"zero=0,reduce=once"}));
}

// 8 samples, 2 replicas of 4: one micro-batch each, so that both reductions are the same.
TEST(ZeroProposeTest, OneMicroBatchIsReducedOnce) {
  const Workload workload = TestWorkload(TinyGpt(), 8, 8);
  EXPECT_EQ(WaysOf(ProposeZero, workload, "zero=3", "dp=2,micro_batch=4"),
            (Ways{"dp=2,micro_batch=4,zero=3,reduce=once"}));
  EXPECT_EQ(WaysOf(ProposeZero, workload, "reduce=each_micro_batch", "dp=2,micro_batch=2"),
            (Ways{"dp=2,micro_batch=2,zero=2,reduce=each_micro_batch",
                  "dp=2,micro_batch=2,zero=3,reduce=each_micro_batch"}));
}

TEST(ZeroProposeTest, ChunksThatTakeTurnsAreReducedOnce) {
  const Workload workload = TestWorkload(TinyGpt(), 8, 8);
  EXPECT_EQ(WaysOf(ProposeZero, workload, "zero=2", "dp=2,micro_batch=1,chunks=2"),
            (Ways{"dp=2,micro_batch=1,zero=2,reduce=once,chunks=2"}));
}

// A pinned stage is kept even where it has nothing to cut.
TEST(ZeroProposeTest, PinsAreKept) {
  const Workload workload = TestWorkload(TinyGpt(), 8, 8);
  for (const char* stage : {"zero=0", "zero=1", "zero=2", "zero=3"}) {
    for (const char* replicas : {"dp=1", "dp=7"}) {
      const std::vector<std::string> ways =
          WaysOf(ProposeZero, workload, std::string(stage) + ",reduce=once", replicas);
      EXPECT_EQ(ways, Ways{std::string(replicas) + "," + stage + ",reduce=once"});
    }
  }
}

TEST(ZeroProposeTest, OtherDecisionsAreLeftAlone) {
  const Workload workload = TestWorkload(TinyGpt(), 8, 8);
  const Pins partial = *ParsePins("tp=2,pp=2,dp=2,micro_batch=2,schedule=1f1b,dtype=bf16");
  for (Pins way : ProposeZero({workload, {}}, partial)) {
    way.zero = std::nullopt;
    way.reduce = std::nullopt;
    EXPECT_EQ(way, partial);
  }
}

TEST(ZeroProposeTest, ThereAreFourStages) {
  for (const char* pin : {"zero=4", "zero=-1", "zero=two", "zero=1.5"}) {
    const StatusOr<Pins> pins = ParsePins(pin);
    EXPECT_EQ(ExitCode(pins.status()), 2);
    EXPECT_NE(pins.status().message().find("is not a whole number from 0 to 3"), std::string::npos)
        << pins.status();
  }
}

}  // namespace
}  // namespace tideline
