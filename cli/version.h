// The version that `tideline --version` prints.
#ifndef TIDELINE_CLI_VERSION_H_
#define TIDELINE_CLI_VERSION_H_

namespace tideline {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace tideline

#endif  // TIDELINE_CLI_VERSION_H_
