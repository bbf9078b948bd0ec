#include "cli/command.h"

#include <cstdio>

namespace tideline {

void CommandContext::Note(std::string_view text) const {
  if (quiet) return;
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fputc('\n', stderr);
}

}  // namespace tideline
