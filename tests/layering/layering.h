// Layering: which folder may include what. Bazel's visibility guards targets of ours but cannot see
// system headers, so the includes of every source are held against one table.
#ifndef TIDELINE_TESTS_LAYERING_LAYERING_H_
#define TIDELINE_TESTS_LAYERING_LAYERING_H_

#include <string>
#include <string_view>
#include <vector>

namespace tideline {

// Violations in one file, each as "path:line: includes X: why". `path` is relative to the root of
// the tree. Only #include lines are looked at, wherever they stand (comments and inactive branches
// too).
std::vector<std::string> CheckIncludes(const std::string& path, std::string_view content);

// Violations in every .h, .cc, .cu and .cuh file below `root`, in the order of the paths; folders
// that hold no sources of ours (bazel-*, .git, .cache, shared) are skipped. `*files` is how many
// were read.
std::vector<std::string> CheckTree(const std::string& root, int* files);

}  // namespace tideline

#endif  // TIDELINE_TESTS_LAYERING_LAYERING_H_
