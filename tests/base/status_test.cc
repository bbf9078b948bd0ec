#include "base/status.h"

#include <gtest/gtest.h>

namespace tideline {
namespace {

TEST(StatusTest, EachKindHasItsExitCode) {
  EXPECT_EQ(ExitCode(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCode(RunError("x")), 1);
  EXPECT_EQ(ExitCode(UsageError("x")), 2);
  EXPECT_EQ(ExitCode(InfeasibleError("x")), 3);
  EXPECT_EQ(ExitCode(ComparisonError("x")), 4);
  EXPECT_EQ(ExitCode(InputError("x")), 5);
  EXPECT_EQ(ExitCode(UnavailableError("x")), 6);
  EXPECT_EQ(ExitCode(InternalError("x")), 70);
}

TEST(StatusTest, AnnotateKeepsCodeAndPutsContextFirst) {
  const Status status = Annotate(InputError("bad value"), "plan.json");
  EXPECT_EQ(ExitCode(status), 5);
  EXPECT_EQ(std::string(status.message()), "plan.json: bad value");
}

}  // namespace
}  // namespace tideline
