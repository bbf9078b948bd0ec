// `tideline profile`: what a model costs, from its shapes alone.
#ifndef TIDELINE_CLI_PROFILE_H_
#define TIDELINE_CLI_PROFILE_H_

#include <memory>

#include "cli/command.h"

namespace tideline {

std::unique_ptr<Command> MakeProfileCommand();

}  // namespace tideline

#endif  // TIDELINE_CLI_PROFILE_H_
