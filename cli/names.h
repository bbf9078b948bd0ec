// What models, clusters and pins a command line may name, as sections of help pages; made from the
// lists that the parsers read, so that none is forgotten.
#ifndef TIDELINE_CLI_NAMES_H_
#define TIDELINE_CLI_NAMES_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "cli/command.h"

namespace tideline {

HelpSection ModelSection();    // MODEL
HelpSection ClusterSection();  // --cluster
HelpSection PinSection();      // --pin

}  // namespace tideline

#endif  // TIDELINE_CLI_NAMES_H_
