#include "exec/data/data_name.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace tideline {
namespace {

constexpr char kData[] = ".bin";
constexpr char kIndex[] = ".idx";
constexpr size_t kEndingLetters = 4;

struct FormatName {
  std::string_view name;
  DataFormat format;
};
constexpr std::array<FormatName, 4> kFormats = {{
    {"bytes", DataFormat::kBytes},
    {"u16", DataFormat::kUint16},
    {"u32", DataFormat::kUint32},
    {"megatron", DataFormat::kMegatron},
}};

bool Exists(const std::string& path) { return access(path.c_str(), F_OK) == 0; }

bool IsIndexed(std::string_view path) { return path.ends_with(kData) || path.ends_with(kIndex); }

std::string WithoutEnding(const std::string& path) {
  return IsIndexed(path) ? path.substr(0, path.size() - kEndingLetters) : path;
}

// The part before the colon, where it looks like the name of a format.
std::string_view FormatPart(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon == 0) return {};
  const std::string_view part = text.substr(0, colon);
  const bool plain = std::all_of(part.begin(), part.end(), [](char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= '0' && letter <= '9');
  });
  return plain ? part : std::string_view();
}

StatusOr<DataName> WithFormat(const FormatName& format, const std::string& path) {
  if (path.empty()) {
    return UsageError(absl::StrCat("--data ", std::string(format.name), ": names no file; write ",
                                   std::string(format.name), ":PATH"));
  }
  if (format.format != DataFormat::kMegatron) return DataName{format.format, path};
  return DataName{format.format, WithoutEnding(path)};
}

}  // namespace

StatusOr<DataName> ParseDataName(const std::string& text) {
  const std::string_view part = FormatPart(text);
  for (const FormatName& format : kFormats) {
    if (part == format.name) return WithFormat(format, text.substr(part.size() + 1));
  }
  if (!part.empty() && !Exists(text)) {
    std::vector<std::string> names;
    for (const FormatName& format : kFormats) names.emplace_back(format.name);
    return InputError(absl::StrCat("--data ", text, ": there is no file of this name; ",
                                   UnknownName("format", part, names)));
  }
  if (!IsIndexed(text)) return DataName{DataFormat::kBytes, text};
  const DataName indexed = {DataFormat::kMegatron, WithoutEnding(text)};
  for (const std::string& file : FilesOf(indexed)) {
    if (Exists(file)) continue;
    if (file == text)
      return InputError(absl::StrCat("cannot read --data ", text, ": no such file"));
    return InputError(absl::StrCat("--data ", text, ": there is no ", file,
                                   " beside it, as a Megatron dataset has; write u16:", text,
                                   " or u32:", text, " for a file of tokens, bytes:", text,
                                   " if each byte is one"));
  }
  return indexed;
}

std::vector<std::string> FilesOf(const DataName& name) {
  if (name.format != DataFormat::kMegatron) return {name.path};
  return {absl::StrCat(name.path, kData), absl::StrCat(name.path, kIndex)};
}

}  // namespace tideline
