// tideline quickstart: the main job on a small model, start to end.
#ifndef TIDELINE_CLI_QUICKSTART_H_
#define TIDELINE_CLI_QUICKSTART_H_

#include <memory>

#include "cli/command.h"

namespace tideline {

std::unique_ptr<Command> MakeQuickstartCommand();

}  // namespace tideline

#endif  // TIDELINE_CLI_QUICKSTART_H_
