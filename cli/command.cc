#include "cli/command.h"

#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/units.h"

namespace tideline {

void CommandContext::Note(std::string_view text) const {
  if (quiet) return;
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fputc('\n', stderr);
}

void CommandContext::NoteWritten(const std::string& path) const {
  std::error_code error;
  const bool sized = std::filesystem::is_regular_file(path, error);
  const auto bytes = sized ? static_cast<double>(std::filesystem::file_size(path, error)) : 0.0;
  Note(absl::StrCat("wrote ", path,
                    sized && !error ? absl::StrCat(" (", HumanBytes(bytes), ")") : ""));
}

}  // namespace tideline
