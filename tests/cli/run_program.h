// Runs a built program as a user would and collects what it did.
#ifndef TIDELINE_TESTS_CLI_RUN_PROGRAM_H_
#define TIDELINE_TESTS_CLI_RUN_PROGRAM_H_

#include <string>
#include <vector>

namespace tideline {

struct ProgramResult {
  int exit_code = -1;  // 128 + n when signal n ended it, as a shell shows it
  std::string out;
  std::string err;
  double seconds = 0;
};

struct ProgramOptions {
  int signal = 0;  // sent after `signal_after_s`, when not 0
  double signal_after_s = 0.3;
  std::vector<std::string> environment = {};  // "NAME=VALUE", added
};

// `words[0]` is the path of the program, relative to the test's runfiles.
ProgramResult RunProgram(const std::vector<std::string>& words, const ProgramOptions& options = {});

}  // namespace tideline

#endif  // TIDELINE_TESTS_CLI_RUN_PROGRAM_H_
