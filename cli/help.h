// Help pages, made from what the verbs declare.
#ifndef TIDELINE_CLI_HELP_H_
#define TIDELINE_CLI_HELP_H_

#include <string>
#include <vector>

#include "cli/command.h"

namespace tideline {

// The options that every verb takes: --json, --quiet, --verbose, --color; -o and --help are added
// by the parser.
std::vector<OptionRecord> GlobalOptions();

// `tideline --help`.
std::string ProgramHelp(const std::vector<CommandInfo>& commands);

// `tideline VERB --help`.
std::string CommandHelp(const CommandInfo& command);

}  // namespace tideline

#endif  // TIDELINE_CLI_HELP_H_
