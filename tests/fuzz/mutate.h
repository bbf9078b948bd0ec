// Mutation driver for parsers: changes valid inputs at random and checks that the parser neither
// crashes nor answers with a bare or unprintable message.
//
// Case i of a run depends only on (seed, i), so a finding repeats. The input of the case that is
// being tried lies in the test's output folder as fuzz_last_input_TEST: after a crash it is the
// culprit.
//
//   TEST(ClusterFuzzTest, Text) {
//     const FuzzResult result = FuzzParser({"4x dgx-a100-80g{gpus=1}"}, [](std::string_view text) {
//       return ParseCluster(text).status();
//     }, {.budget_s = 5, .tokens = {"dgx-", "{", "}", "GiB"}});
//     EXPECT_GT(result.accepted, 0);
//     EXPECT_GT(result.rejected, 0);
//   }
#ifndef TIDELINE_TESTS_FUZZ_MUTATE_H_
#define TIDELINE_TESTS_FUZZ_MUTATE_H_

#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tideline {

struct FuzzOptions {
  double budget_s = 10;
  int64_t most_cases = std::numeric_limits<int64_t>::max();
  uint64_t seed = 1;
  std::vector<std::string> tokens = {};     // words of the format, spliced in
  std::vector<int> exit_codes = {2, 3, 5};  // what an error may end a program with
};

struct FuzzResult {
  int64_t cases = 0;
  int64_t accepted = 0;
  int64_t rejected = 0;
};

// One mutant of one of the seeds: one to eight edits, each of which flips, inserts, deletes,
// repeats or swaps bytes, splices in a token or part of another seed, changes a number to an
// extreme one, or cuts the text off.
std::string Mutate(const std::vector<std::string>& seeds, const std::vector<std::string>& tokens,
                   std::mt19937_64* random);

// Parses every seed (each must be accepted), then mutants until the budget or the number of cases
// is used up. `parse` may check more about what it accepted, as a non-OK status of kind internal.
// Failures are reported through GoogleTest; the run stops at the first.
FuzzResult FuzzParser(const std::vector<std::string>& seeds,
                      const std::function<Status(std::string_view)>& parse,
                      const FuzzOptions& options = {});

}  // namespace tideline

#endif  // TIDELINE_TESTS_FUZZ_MUTATE_H_
