// The release of SimGrid that the simulator runs on.
#ifndef TIDELINE_SIM_ENGINE_VERSION_H_
#define TIDELINE_SIM_ENGINE_VERSION_H_

#include <string>

namespace tideline {

// "3.32": of the loaded library. Starts no simulation.
std::string SimgridVersion();

}  // namespace tideline

#endif  // TIDELINE_SIM_ENGINE_VERSION_H_
