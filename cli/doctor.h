// `tideline doctor`: what was found on this machine.
#ifndef TIDELINE_CLI_DOCTOR_H_
#define TIDELINE_CLI_DOCTOR_H_

#include <memory>

#include "cli/command.h"

namespace tideline {

std::unique_ptr<Command> MakeDoctorCommand();

}  // namespace tideline

#endif  // TIDELINE_CLI_DOCTOR_H_
