#include "tests/layering/layering.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace tideline {
namespace {

using Folders = std::vector<std::string>;

// What the files below `folder` may include of ours; the longest matching folder rules.
struct FolderRule {
  std::string folder;
  Folders may_include;
};

// Direction: base, then models/ir, models/cluster and traces/run, then the rest of models and
// traces, then planner, then sim and exec, then cli and gui. Within models, a kernel's Work
// (models/ops) is what the cost model (models/cluster) prices.
const std::vector<FolderRule>& FolderRules() {
  static const auto& rules = *new std::vector<FolderRule>{
      {"base", {"base"}},
      {"models/ir", {"base", "models/ir"}},
      {"models/ops", {"base", "models/ir", "models/ops"}},
      {"models/cluster", {"base", "models/ir", "models/ops", "models/cluster"}},
      {"models", {"base", "models"}},
      {"traces/run", {"base", "models/ir", "traces/run"}},
      {"traces", {"base", "models", "traces"}},
      {"planner", {"base", "models", "traces", "planner"}},
      {"sim/engine", {"base", "sim/engine"}},
      {"sim", {"base", "models", "traces", "planner", "sim"}},
      {"exec", {"base", "models", "traces", "planner", "exec"}},
      {"cli", {"base", "models", "traces", "planner", "sim", "exec", "cli"}},
      {"gui", {"base", "models", "traces", "planner", "sim", "exec", "gui"}},
      // The reference must not share what it judges: no planner, no gradient rules, no kernels.
      {"tests/reference", {"base", "models/ir", "models/zoo", "exec/data", "tests/reference"}},
      {"tests", {"base", "models", "traces", "planner", "sim", "exec", "cli", "gui", "tests"}},
      {"bench",
       {"base", "models", "traces", "planner", "sim", "exec", "cli", "gui", "tests", "bench"}},
  };
  return rules;
}

// Who may include a header of others. An entry ending in "/" is every header below it.
struct HeaderRule {
  std::string header;
  Folders folders;          // "" is everywhere
  bool only_in_cc = false;  // costs seconds per file: not in headers
};

const std::vector<HeaderRule>& HeaderRules() {
  static const auto& rules = *new std::vector<HeaderRule>{
      {"absl/", {""}, false},
      {"gtest/", {"tests"}, false},
      {"gmock/", {"tests"}, false},
      {"benchmark/", {"bench"}, false},
      {"simgrid/", {"sim/engine"}, true},
      {"xbt/", {"sim/engine"}, true},
      {"CLI/", {"cli/parse.cc"}, true},
      {"nlohmann/", {"base", "traces", "tests"}, true},
      {"google/protobuf/", {"planner", "traces", "tests"}, true},
      {"boost/", {"tests"}, true},
      {"openssl/", {"base"}, true},
      {"cblas.h", {"exec/ops", "exec/device", "bench", "tests"}, true},
      {"mpi.h", {"exec/comm", "exec/launch"}, false},
      {"cuda.h", {"exec/cuda"}, false},
      {"cuda_runtime.h", {"exec/cuda"}, false},
      {"cuda_runtime_api.h", {"exec/cuda"}, false},
      {"cuda_bf16.h", {"exec/cuda"}, false},
      {"cuda_fp16.h", {"exec/cuda"}, false},
      {"cublas_v2.h", {"exec/cuda"}, false},
      {"cublasLt.h", {"exec/cuda"}, false},
      {"nccl.h", {"exec/cuda"}, false},
      {"sys/", {""}, false},
      {"linux/", {""}, false},
      {"arpa/", {""}, false},
      {"netinet/", {""}, false},
      // Qt's headers have no common folder; see IsQtHeader.
  };
  return rules;
}

bool IsBelow(std::string_view path, std::string_view folder) {
  if (folder.empty() || path == folder) return true;
  return path.size() > folder.size() && path.substr(0, folder.size()) == folder &&
         path[folder.size()] == '/';
}

bool IsBelowAny(std::string_view path, const Folders& folders) {
  return std::any_of(folders.begin(), folders.end(),
                     [&](const std::string& folder) { return IsBelow(path, folder); });
}

std::string Joined(const Folders& folders) {
  std::string text;
  for (const std::string& folder : folders) text += (text.empty() ? "" : ", ") + folder;
  return text;
}

bool IsSource(std::string_view path) { return path.ends_with(".cc") || path.ends_with(".cu"); }

// QWidget, QtCore/QObject, qnamespace.h.
bool IsQtHeader(std::string_view header) {
  const bool capital = header.size() > 1 && header[0] == 'Q' &&
                       ((header[1] >= 'A' && header[1] <= 'Z') || header[1] == 't');
  return capital || header.starts_with("qt");
}

// "planner/techniques/zero" of "planner/techniques/zero/lower.h"; empty elsewhere and for files
// of the folder itself.
std::string RoomOf(std::string_view path) {
  constexpr std::string_view kRooms = "planner/techniques/";
  if (!path.starts_with(kRooms)) return "";
  const size_t slash = path.find('/', kRooms.size());
  return slash == std::string_view::npos ? "" : std::string(path.substr(0, slash));
}

// Why `path` may not include our header; empty when it may.
std::string WhyNotOurs(const std::string& path, const std::string& header) {
  const FolderRule* best = nullptr;
  for (const FolderRule& rule : FolderRules()) {
    if (!IsBelow(path, rule.folder)) continue;
    if (best == nullptr || rule.folder.size() > best->folder.size()) best = &rule;
  }
  if (best == nullptr) return "its folder stands in no rule; add one";
  if (header.ends_with(".pb.h")) {
    if (!IsSource(path)) return "generated protobuf headers are for .cc files only";
  }
  if (!IsBelowAny(header, best->may_include)) {
    return best->folder + " may include only " + Joined(best->may_include);
  }
  const std::string room = RoomOf(path);
  const std::string other_room = RoomOf(header);
  if (!room.empty() && !other_room.empty() && room != other_room) {
    return "rooms never include rooms";
  }
  return "";
}

std::string WhyNotOthers(const std::string& path, const std::string& header) {
  if (IsQtHeader(header)) {
    return IsBelow(path, "gui") || IsBelow(path, "tests/gui") ? "" : "Qt is for gui only";
  }
  for (const HeaderRule& rule : HeaderRules()) {
    const bool matches =
        rule.header.ends_with("/") ? header.starts_with(rule.header) : header == rule.header;
    if (!matches) continue;
    if (!IsBelowAny(path, rule.folders)) return "only " + Joined(rule.folders) + " may";
    if (rule.only_in_cc && !IsSource(path)) return "it is a heavy header, for .cc files only";
    return "";
  }
  // C, C++ and POSIX headers have no folder, apart from those above.
  if (header.find('/') != std::string::npos) return "its library stands in no rule; add one";
  return "";
}

// The header of an #include line and whether it stands in quotes.
struct Include {
  std::string header;
  bool quoted = false;
};

bool ParseInclude(std::string_view line, Include* include) {
  const auto skip_spaces = [&] {
    while (!line.empty() && (line[0] == ' ' || line[0] == '\t')) line.remove_prefix(1);
  };
  skip_spaces();
  if (!line.starts_with("#")) return false;
  line.remove_prefix(1);
  skip_spaces();
  if (!line.starts_with("include")) return false;
  line.remove_prefix(7);
  skip_spaces();
  if (line.empty() || (line[0] != '"' && line[0] != '<')) return false;
  include->quoted = line[0] == '"';
  const size_t end = line.find(include->quoted ? '"' : '>', 1);
  if (end == std::string_view::npos) return false;
  include->header = std::string(line.substr(1, end - 1));
  return true;
}

// Libraries are sometimes included in quotes: "absl/...", "gtest/gtest.h".
bool IsOthers(const std::string& header) {
  return std::any_of(HeaderRules().begin(), HeaderRules().end(), [&](const HeaderRule& rule) {
    return rule.header.ends_with("/") ? header.starts_with(rule.header) : header == rule.header;
  });
}

// "planner/plan" of "planner/plan/plan.h", "base" of "base/file.h"; empty for tests and bench.
std::string PartOf(const std::string& path) {
  if (IsBelow(path, "tests") || IsBelow(path, "bench")) return "";
  const size_t slash = path.find('/');
  const size_t second = slash == std::string::npos ? slash : path.find('/', slash + 1);
  return path.substr(0, second == std::string::npos ? slash : second);
}

// Depth-first search; every edge back into the way that led there closes a circle.
class CircleFinder {
 public:
  explicit CircleFinder(const std::map<std::string, std::set<std::string>>& includes)
      : includes_(includes) {}

  std::vector<std::string> Find() {
    for (const auto& [part, unused] : includes_) Visit(part);
    return circles_;
  }

 private:
  void Visit(const std::string& part) {
    const auto on_way = std::find(way_.begin(), way_.end(), part);
    if (on_way != way_.end()) {
      std::string circle;
      for (auto step = on_way; step != way_.end(); ++step) circle += *step + " -> ";
      circles_.push_back(circle + part);
      return;
    }
    const auto found = includes_.find(part);
    if (found == includes_.end() || !visited_.insert(part).second) return;
    way_.push_back(part);
    for (const std::string& next : found->second) Visit(next);
    way_.pop_back();
  }

  const std::map<std::string, std::set<std::string>>& includes_;
  std::set<std::string> visited_;
  std::vector<std::string> way_;
  std::vector<std::string> circles_;
};

// exec/device/device.h declares these, every backend defines its own, and a program has one
// backend.
bool IsDefinedByBackends(const std::string& type) {
  for (const char* declared :
       {"Machine", "DeviceObject", "StreamObject", "EventObject", "CommunicatorObject"}) {
    if (type == std::string("tideline::") + declared) return true;
  }
  return false;
}

// The name of the type whose definition begins on this line, outside any other; empty when none
// does.
std::string DefinedType(const std::string& line) {
  if (!line.ends_with("{")) return "";
  for (const std::string_view keyword : {"enum class ", "class ", "struct "}) {
    if (!line.starts_with(keyword)) continue;
    size_t end = keyword.size();
    while (end < line.size() && (std::isalnum(line[end]) != 0 || line[end] == '_')) ++end;
    // A specialisation, or a type inside another.
    if (line[end] == '<' || line[end] == ':') return "";
    return line.substr(keyword.size(), end - keyword.size());
  }
  return "";
}

bool IsSkippedFolder(const std::string& name) {
  return name.starts_with("bazel-") || name == ".git" || name == ".cache" || name == "shared";
}

}  // namespace

std::vector<std::string> CheckIncludes(const std::string& path, std::string_view content) {
  std::vector<std::string> violations;
  int number = 0;
  while (!content.empty()) {
    const size_t end = std::min(content.find('\n'), content.size());
    const std::string_view line = content.substr(0, end);
    content.remove_prefix(std::min(end + 1, content.size()));
    ++number;
    Include include;
    if (!ParseInclude(line, &include)) continue;
    const bool ours = include.quoted && !IsOthers(include.header);
    const std::string why =
        ours ? WhyNotOurs(path, include.header) : WhyNotOthers(path, include.header);
    if (why.empty()) continue;
    violations.push_back(path + ":" + std::to_string(number) + ": includes " + include.header +
                         ": " + why);
  }
  return violations;
}

std::vector<SourceFile> ReadTree(const std::string& root) {
  namespace fs = std::filesystem;
  std::vector<SourceFile> files;
  for (auto entry = fs::recursive_directory_iterator(root);
       entry != fs::recursive_directory_iterator(); ++entry) {
    if (entry->is_directory() && IsSkippedFolder(entry->path().filename().string())) {
      entry.disable_recursion_pending();
      continue;
    }
    const std::string extension = entry->path().extension().string();
    if (extension != ".h" && extension != ".cc" && extension != ".cu" && extension != ".cuh") {
      continue;
    }
    std::ostringstream content;
    content << std::ifstream(entry->path()).rdbuf();
    files.push_back({fs::relative(entry->path(), root).string(), content.str()});
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

std::vector<std::string> FolderCircles(const std::vector<SourceFile>& files) {
  std::map<std::string, std::set<std::string>> includes;
  for (const SourceFile& file : files) {
    const std::string from = PartOf(file.path);
    std::istringstream lines(file.content);
    for (std::string line; std::getline(lines, line);) {
      Include include;
      if (!ParseInclude(line, &include) || !include.quoted || IsOthers(include.header)) continue;
      const std::string to = PartOf(include.header);
      if (!from.empty() && !to.empty() && to != from) includes[from].insert(to);
    }
  }
  return CircleFinder(includes).Find();
}

std::vector<std::string> RepeatedTypes(const std::vector<SourceFile>& files) {
  std::map<std::string, std::set<std::string>> places;
  for (const SourceFile& file : files) {
    std::vector<std::string> namespaces;
    std::istringstream lines(file.content);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("namespace ") && line.ends_with("{")) {
        namespaces.push_back(line.substr(10, line.size() - 11));  // with its space; "": unnamed
      } else if (line.starts_with("}  // namespace") && !namespaces.empty()) {
        namespaces.pop_back();
      }
      const std::string type = DefinedType(line);
      const bool is_private =
          std::find(namespaces.begin(), namespaces.end(), "") != namespaces.end();
      if (type.empty() || is_private) continue;
      std::string name;
      for (const std::string& space : namespaces) name += space.substr(0, space.size() - 1) + "::";
      places[name + type].insert(file.path);
    }
  }
  std::vector<std::string> repeated;
  for (const auto& [type, paths] : places) {
    if (paths.size() > 1 && !IsDefinedByBackends(type))
      repeated.push_back(type + ": " + Joined({paths.begin(), paths.end()}));
  }
  return repeated;
}

}  // namespace tideline
