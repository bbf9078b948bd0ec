#include "cli/calibrate.h"
#include "cli/command.h"
#include "cli/compare.h"
#include "cli/doctor.h"
#include "cli/execute.h"
#include "cli/plan.h"
#include "cli/profile.h"
#include "cli/quickstart.h"
#include "cli/simulate.h"

namespace tideline {

std::vector<std::unique_ptr<Command>> MakeCommands() {
  std::vector<std::unique_ptr<Command>> commands;
  commands.push_back(MakeQuickstartCommand());
  commands.push_back(MakeProfileCommand());
  commands.push_back(MakePlanCommand());
  commands.push_back(MakeSimulateCommand());
  commands.push_back(MakeExecuteCommand());
  commands.push_back(MakeCompareCommand());
  commands.push_back(MakeCalibrateCommand());
  commands.push_back(MakeDoctorCommand());
  return commands;
}

}  // namespace tideline
