#include "exec/device/launch.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace tideline::internal {

Status ViolationStatus(const char* kernel, int argument, const AccessLog& log) {
  const std::string where =
      absl::StrCat("kernel ", kernel, ", argument ", argument, ", element ", log.violating_element);
  if (log.violation == AccessLog::Violation::kReadBeforeWrite) {
    return RunError(absl::StrCat(where,
                                 ": read before this launch wrote it, but the argument is declared "
                                 "Out; declare it InOut if its old value is wanted"));
  }
  return RunError(absl::StrCat(where, ": outside the ", log.touched.size(),
                               " elements declared; declare the whole operand or correct the "
                               "index"));
}

}  // namespace tideline::internal
