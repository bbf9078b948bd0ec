// Every fuzz target by the mutation driver: each gets its seeds and three seconds of mutants.
#include <gtest/gtest.h>

#include <set>

#include "tests/fuzz/mutate.h"
#include "tests/fuzz/target.h"

namespace tideline {
namespace {

class ParsersTest : public testing::TestWithParam<FuzzTarget> {};

TEST_P(ParsersTest, SurvivesMutants) {
  const FuzzTarget& target = GetParam();
  const FuzzResult result =
      FuzzParser(target.seeds(), target.parse,
                 {.budget_s = 3, .tokens = target.tokens, .exit_codes = target.exit_codes});
  // A parser that takes or refuses everything is not being tried.
  EXPECT_GT(result.accepted, 0);
  EXPECT_GT(result.rejected, 100);
}

INSTANTIATE_TEST_SUITE_P(All, ParsersTest, testing::ValuesIn(FuzzTargets()),
                         [](const auto& info) { return info.param.name; });

TEST(FuzzTargetsTest, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const FuzzTarget& target : FuzzTargets()) EXPECT_TRUE(names.insert(target.name).second);
}

}  // namespace
}  // namespace tideline
