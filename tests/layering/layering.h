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

struct SourceFile {
  std::string path;  // relative to the root of the tree
  std::string content;
};

// Every .h, .cc, .cu and .cuh file below `root`, in the order of the paths; folders that hold no
// sources of ours (bazel-*, .git, .cache, shared) are skipped.
std::vector<SourceFile> ReadTree(const std::string& root);

// The folders of our parts ("planner/plan") that include each other in a circle, each circle once
// as "a -> b -> a". tests and bench are left out: they mirror and use the others.
std::vector<std::string> FolderCircles(const std::vector<SourceFile>& files);

// Types of one name in one namespace that are defined in several files, each as "X: a.h, b.h". No
// two of them may meet in one program: the linker would merge their functions. What backends of
// exec/device define is left out.
std::vector<std::string> RepeatedTypes(const std::vector<SourceFile>& files);

}  // namespace tideline

#endif  // TIDELINE_TESTS_LAYERING_LAYERING_H_
