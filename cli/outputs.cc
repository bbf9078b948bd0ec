#include "cli/outputs.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "exec/data/data_name.h"

namespace tideline {
namespace {

// A path of the command line and what it was given for.
struct GivenPath {
  std::string name;  // "--perfetto", "PLAN"
  std::string path;
  PathUse use = PathUse::kNone;
};

bool Writes(const GivenPath& given) {
  return given.use == PathUse::kWritesFile || given.use == PathUse::kWritesFolder;
}

void AddPath(const std::string& name, const std::string& path, PathUse use,
             std::vector<GivenPath>* given) {
  if (use == PathUse::kNone) return;
  if (use == PathUse::kReadsData) {
    const StatusOr<DataName> data = ParseDataName(path);
    if (!data.ok()) return;  // the verb says what is wrong with it
    for (const std::string& file : FilesOf(*data)) given->push_back({name, file, use});
    return;
  }
  const bool is_name =
      use == PathUse::kReadsOrName && !path.ends_with(".json") && path.find('/') == path.npos;
  if (!is_name) given->push_back({name, path, use});
}

std::vector<GivenPath> GivenPaths(const CommandInfo& info, const CommandContext& context) {
  std::vector<GivenPath> given;
  for (size_t i = 0; i < context.arguments.size() && !info.arguments.empty(); ++i) {
    const ArgumentRecord& record = info.arguments[std::min(i, info.arguments.size() - 1)];
    AddPath(record.name, context.arguments[i], record.path_use, &given);
  }
  for (const OptionRecord& record : info.options) {
    if (record.path_use == PathUse::kNone || !context.options.Has(record.name)) continue;
    for (const std::string& path : context.options.Texts(record.name)) {
      if (path == "-") continue;  // the verb says whether that is stdout
      AddPath(absl::StrCat("--", record.name), path, record.path_use, &given);
    }
  }
  if (!context.output.empty() && context.output != "-") {
    AddPath("-o", context.output, PathUse::kWritesFile, &given);
  }
  return given;
}

bool SameFile(const std::string& a, const std::string& b) {
  std::error_code error;
  const auto resolve = [&error](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  };
  const std::filesystem::path first = resolve(a);
  if (error) return false;
  const std::filesystem::path second = resolve(b);
  if (error) return false;
  return first == second || std::filesystem::equivalent(first, second, error);
}

// A checkpoint folder's own files: its lock and its checkpoints.
bool IsOwnFileOf(const GivenPath& folder, const GivenPath& file) {
  if (folder.use != PathUse::kWritesFolder || file.use != PathUse::kWritesFile) return false;
  const std::filesystem::path path(file.path);
  const std::string name = path.filename();
  const bool own = name == "lock" || name.starts_with("step-");
  return own && SameFile(folder.path, path.has_parent_path() ? path.parent_path() : ".");
}

Status CheckDistinct(const std::vector<GivenPath>& given) {
  for (size_t i = 0; i < given.size(); ++i) {
    for (size_t j = i + 1; j < given.size(); ++j) {
      for (const auto& [folder, file] : {std::pair(i, j), std::pair(j, i)}) {
        if (!IsOwnFileOf(given[folder], given[file])) continue;
        return UsageError(absl::StrCat(given[file].name, " ", given[file].path,
                                       ": the name belongs to the checkpoints of ",
                                       given[folder].name, "; give another one"));
      }
      const bool output = Writes(given[i]) || Writes(given[j]);
      if (!output || !SameFile(given[i].path, given[j].path)) continue;
      const GivenPath& written = Writes(given[j]) ? given[j] : given[i];
      const GivenPath& other = Writes(given[j]) ? given[i] : given[j];
      return UsageError(absl::StrCat(written.name, " ", written.path, ": the file is given as ",
                                     other.name, " too and would be overwritten; give ",
                                     written.name, " another path"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

Status CheckOutputs(const CommandInfo& info, const CommandContext& context) {
  const std::vector<GivenPath> given = GivenPaths(info, context);
  TL_RETURN_IF_ERROR(CheckDistinct(given));
  for (const GivenPath& path : given) {
    if (!Writes(path)) continue;
    const Status writable = path.use == PathUse::kWritesFile ? CheckWritable(path.path)
                                                             : CheckFolderWritable(path.path);
    if (!writable.ok()) return Annotate(writable, path.name);
  }
  return absl::OkStatus();
}

}  // namespace tideline
