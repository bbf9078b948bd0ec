#include "base/status.h"

#include "absl/strings/str_cat.h"

namespace tideline {

Status UsageError(std::string message) { return absl::InvalidArgumentError(message); }
Status InfeasibleError(std::string message) { return absl::FailedPreconditionError(message); }
Status ComparisonError(std::string message) { return absl::OutOfRangeError(message); }
Status InputError(std::string message) { return absl::DataLossError(message); }
Status UnavailableError(std::string message) { return absl::UnavailableError(message); }
Status RunError(std::string message) { return absl::AbortedError(message); }
Status InternalError(std::string message) { return absl::InternalError(message); }

int ExitCode(const Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
      return 2;
    case absl::StatusCode::kFailedPrecondition:
      return 3;
    case absl::StatusCode::kOutOfRange:
      return 4;
    case absl::StatusCode::kDataLoss:
      return 5;
    case absl::StatusCode::kUnavailable:
      return 6;
    case absl::StatusCode::kAborted:
      return 1;
    default:
      return 70;
  }
}

Status Annotate(const Status& status, const std::string& context) {
  if (status.ok()) return status;
  return Status(status.code(), absl::StrCat(context, ": ", status.message()));
}

}  // namespace tideline
