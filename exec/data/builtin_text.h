// The built-in training text: what `--data` means when it is not given (DEFINITIONS 13).
//
// About 25 kB of original English prose in ASCII (essays on tides, harbours, charts and clocks),
// compiled in so that a first run needs no file. A token is a byte. The text is an asset,
// exec/data/builtin_text.txt; changing a byte of it changes every loss that was ever printed.
#ifndef TIDELINE_EXEC_DATA_BUILTIN_TEXT_H_
#define TIDELINE_EXEC_DATA_BUILTIN_TEXT_H_

#include <string_view>

namespace tideline {

// Never empty; lives as long as the program. Safe from any thread.
std::string_view BuiltinText();

}  // namespace tideline

#endif  // TIDELINE_EXEC_DATA_BUILTIN_TEXT_H_
