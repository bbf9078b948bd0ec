// Outputs: every path that a verb is going to write, checked before its work begins, so that an
// hour's run does not end with a typing error in -o.
#ifndef TIDELINE_CLI_OUTPUTS_H_
#define TIDELINE_CLI_OUTPUTS_H_

#include "base/status.h"
#include "cli/command.h"

namespace tideline {

// Looks at -o and at the options whose records say that they are written. Errors name option and
// path: exit 1 when a file or folder cannot be written there; exit 2 when two outputs are the same
// file or an output is one of the inputs. "-" is left to the verbs.
// Leaves nothing behind; a disk that fills up later is found only then.
Status CheckOutputs(const CommandInfo& info, const CommandContext& context);

}  // namespace tideline

#endif  // TIDELINE_CLI_OUTPUTS_H_
