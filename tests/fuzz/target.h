// Fuzz targets: every parser of bytes that come from outside, with valid inputs to start from.
//
// One list for both drivers: parsers_test.cc mutates the seeds for a few seconds in every test run,
// fuzzer.cc hands them to libFuzzer for as long as one likes (./tideline fuzz). A parser is added
// by a line in the list of its folder (targets_*.cc).
#ifndef TIDELINE_TESTS_FUZZ_TARGET_H_
#define TIDELINE_TESTS_FUZZ_TARGET_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace tideline {

struct FuzzTarget {
  std::string name = {};
  // Parses, and checks what it accepted: a broken promise is an internal error.
  Status (*parse)(std::string_view bytes) = nullptr;
  std::vector<std::string> (*seeds)() = nullptr;  // all of them are accepted
  std::vector<std::string> tokens = {};           // words of the format
  std::vector<int> exit_codes = {5};              // what an error may end a program with
};

std::vector<FuzzTarget> BaseTargets();
std::vector<FuzzTarget> ModelTargets();
std::vector<FuzzTarget> TraceTargets();
std::vector<FuzzTarget> PlannerTargets();
std::vector<FuzzTarget> ExecTargets();

// All of the above.
std::vector<FuzzTarget> FuzzTargets();

// What is wrong with the answer to one input; empty when nothing is: an error must have one of the
// exit codes and a message that is not empty, printable and short enough to be read.
inline constexpr size_t kLongestMessage = 6000;
std::string FindingOf(const Status& status, const std::vector<int>& exit_codes);

}  // namespace tideline

#endif  // TIDELINE_TESTS_FUZZ_TARGET_H_
