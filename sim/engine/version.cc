#include "sim/engine/version.h"

#include <simgrid/forward.h>  // declares what version.h uses
#include <simgrid/version.h>

namespace tideline {

std::string SimgridVersion() {
  int major = 0;
  int minor = 0;
  int patch = 0;
  sg_version_get(&major, &minor, &patch);
  std::string version = std::to_string(major) + "." + std::to_string(minor);
  if (patch != 0) version += "." + std::to_string(patch);
  return version;
}

}  // namespace tideline
