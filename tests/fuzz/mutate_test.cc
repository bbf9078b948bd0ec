#include "tests/fuzz/mutate.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <set>

namespace tideline {
namespace {

TEST(MutateTest, IsRepeatableAndVaried) {
  const std::vector<std::string> seeds = {"alpha=1,beta=2", "gamma{delta=3}"};
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 1000; ++seed) {
    std::mt19937_64 first(seed);
    std::mt19937_64 second(seed);
    const std::string mutant = Mutate(seeds, {"{"}, &first);
    EXPECT_EQ(mutant, Mutate(seeds, {"{"}, &second));
    seen.insert(mutant);
  }
  EXPECT_GT(seen.size(), 900u);
}

TEST(MutateTest, EmptySeedIsFine) {
  std::mt19937_64 random(1);
  for (int time = 0; time < 1000; ++time) Mutate({""}, {}, &random);
}

TEST(FuzzParserTest, CountsWhatHappened) {
  const auto parse = [](std::string_view text) {
    return text.size() < 8 ? absl::OkStatus() : InputError("too long");
  };
  const FuzzResult result = FuzzParser({"seed"}, parse, {.budget_s = 60, .most_cases = 500});
  EXPECT_EQ(result.cases, 500);
  EXPECT_EQ(result.accepted + result.rejected, 500);
  EXPECT_GT(result.accepted, 50);
  EXPECT_GT(result.rejected, 50);
}

// The driver must be able to find something.
TEST(FuzzParserTest, ReportsBareUnprintableAndInternalErrors) {
  EXPECT_NONFATAL_FAILURE(FuzzParser({"a"},
                                     [](std::string_view text) {
                                       return text == "a" ? absl::OkStatus() : InputError("");
                                     },
                                     {.budget_s = 60, .most_cases = 100}),
                          "without a message");
  EXPECT_NONFATAL_FAILURE(FuzzParser({"a"},
                                     [](std::string_view text) {
                                       return text == "a" ? absl::OkStatus() : InputError("\x01");
                                     },
                                     {.budget_s = 60, .most_cases = 100}),
                          "unprintable");
  EXPECT_NONFATAL_FAILURE(FuzzParser({"a"},
                                     [](std::string_view text) {
                                       return text == "a" ? absl::OkStatus() : InternalError("x");
                                     },
                                     {.budget_s = 60, .most_cases = 100}),
                          "exit code 70");
  EXPECT_NONFATAL_FAILURE(
      FuzzParser({"a"}, [](std::string_view) { return InputError("never right"); }),
      "a seed must be valid");
}

}  // namespace
}  // namespace tideline
