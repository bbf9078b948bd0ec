#include "planner/techniques/checkpoint/propose.h"

#include <gtest/gtest.h>

#include "tests/planner/lowering/fixture.h"
#include "tests/planner/techniques/ways.h"

namespace tideline {
namespace {

using Ways = std::vector<std::string>;

TEST(CheckpointProposeTest, ThreeWaysOrThePinnedOne) {
  const Workload workload = TestWorkload(TinyGpt(), 8, 8);
  EXPECT_EQ(WaysOf(ProposeCheckpoint, workload, "", "tp=2,zero=1"),
            (Ways{"tp=2,zero=1,recompute=none", "tp=2,zero=1,recompute=selective",
                  "tp=2,zero=1,recompute=full"}));
  for (const char* pin : {"recompute=none", "recompute=selective", "recompute=full"}) {
    EXPECT_EQ(WaysOf(ProposeCheckpoint, workload, pin), Ways{pin});
  }
}

TEST(CheckpointProposeTest, UnknownWaysListTheKnown) {
  const StatusOr<Pins> pins = ParsePins("recompute=selectiv");
  EXPECT_EQ(ExitCode(pins.status()), 2);
  for (const char* known : {"recompute", "none", "selective", "full"}) {
    EXPECT_NE(pins.status().message().find(known), std::string::npos) << pins.status();
  }
}

}  // namespace
}  // namespace tideline
