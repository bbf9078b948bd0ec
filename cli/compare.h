// tideline compare: two plans or Runs side by side.
#ifndef TIDELINE_CLI_COMPARE_H_
#define TIDELINE_CLI_COMPARE_H_

#include <memory>

#include "cli/command.h"

namespace tideline {

std::unique_ptr<Command> MakeCompareCommand();

}  // namespace tideline

#endif  // TIDELINE_CLI_COMPARE_H_
