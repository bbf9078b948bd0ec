#include "tests/fuzz/target.h"

#include <algorithm>
#include <iterator>

namespace tideline {
namespace {

bool Printable(std::string_view message) {
  return std::all_of(message.begin(), message.end(), [](char c) {
    return c == '\n' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f);
  });
}

}  // namespace

std::vector<FuzzTarget> FuzzTargets() {
  std::vector<FuzzTarget> all;
  for (std::vector<FuzzTarget> part :
       {BaseTargets(), ModelTargets(), TraceTargets(), PlannerTargets(), ExecTargets()}) {
    std::move(part.begin(), part.end(), std::back_inserter(all));
  }
  return all;
}

std::string FindingOf(const Status& status, const std::vector<int>& exit_codes) {
  if (status.ok()) return "";
  const std::string message(status.message());
  const int code = ExitCode(status);
  if (std::find(exit_codes.begin(), exit_codes.end(), code) == exit_codes.end()) {
    return "exit code " + std::to_string(code) + ": " + message;
  }
  if (message.empty()) return "an error without a message";
  if (message.size() > kLongestMessage) return "a message too long to read: " + message;
  if (!Printable(message)) return "an unprintable message: " + message;
  return "";
}

}  // namespace tideline
