// tideline calibrate: measures this machine and writes a cluster file that predicts it.
#ifndef TIDELINE_CLI_CALIBRATE_H_
#define TIDELINE_CLI_CALIBRATE_H_

#include <memory>

#include "cli/command.h"

namespace tideline {

std::unique_ptr<Command> MakeCalibrateCommand();

}  // namespace tideline

#endif  // TIDELINE_CLI_CALIBRATE_H_
