// Reads the command line. CLI11 does the splitting, behind one .cc file; every value is checked by
// its option record, and unknown verbs and options name the valid ones and the nearest.
#ifndef TIDELINE_CLI_PARSE_H_
#define TIDELINE_CLI_PARSE_H_

#include <string>
#include <vector>

#include "cli/command.h"

namespace tideline {

// What the user asked for: a page of text, or a verb to run.
struct Invocation {
  std::string page;  // --help, --version: print this and stop
  size_t command = 0;
  CommandContext context;
};

// `words` are the command line without the program's name. Usage errors (exit 2) end with the help
// page to look at. Verbosity, color and the like are taken before, between and after the others.
StatusOr<Invocation> ParseCommandLine(const std::vector<std::string>& words,
                                      const std::vector<CommandInfo>& commands);

}  // namespace tideline

#endif  // TIDELINE_CLI_PARSE_H_
