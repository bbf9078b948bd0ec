// Status at every boundary: absl::Status and absl::StatusOr with two macros that pass errors up.
//
// The code of a Status says which exit code the command line ends with (DESIGN.md section 6):
//   kInvalidArgument    2  bad command line or option
//   kFailedPrecondition 3  no feasible plan; a pin contradicts model or cluster
//   kOutOfRange         4  a check or comparison failed
//   kDataLoss           5  input unreadable or invalid (file and field named)
//   kUnavailable        6  backend, package or device not there
//   kAborted            1  a run failed
//   anything else      70  internal error
// A message for a user has four parts: what, where (file and field), why, and what to write
// instead.
#ifndef TIDELINE_BASE_STATUS_H_
#define TIDELINE_BASE_STATUS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace tideline {

using absl::Status;
using absl::StatusOr;

// Makes a Status from pieces of text and numbers, as absl::StrCat joins them.
Status UsageError(std::string message);        // exit 2
Status InfeasibleError(std::string message);   // exit 3
Status ComparisonError(std::string message);   // exit 4
Status InputError(std::string message);        // exit 5
Status UnavailableError(std::string message);  // exit 6
Status RunError(std::string message);          // exit 1
Status InternalError(std::string message);     // exit 70

// The process exit code that belongs to a status.
int ExitCode(const Status& status);

// The same status with "context: " put before its message.
Status Annotate(const Status& status, const std::string& context);

}  // namespace tideline

#define TL_STATUS_CONCAT_INNER(a, b) a##b
#define TL_STATUS_CONCAT(a, b) TL_STATUS_CONCAT_INNER(a, b)

// Returns from the calling function when `expression` is an error.
#define TL_RETURN_IF_ERROR(expression)                                              \
  do {                                                                              \
    if (::absl::Status tl_status = (expression); !tl_status.ok()) return tl_status; \
  } while (false)

// TL_ASSIGN_OR_RETURN(auto value, MakeValue());
#define TL_ASSIGN_OR_RETURN(declaration, expression) \
  TL_ASSIGN_OR_RETURN_INNER(TL_STATUS_CONCAT(tl_status_or_, __LINE__), declaration, expression)
#define TL_ASSIGN_OR_RETURN_INNER(holder, declaration, expression) \
  auto holder = (expression);                                      \
  if (!holder.ok()) return std::move(holder).status();             \
  declaration = *std::move(holder)

#endif  // TIDELINE_BASE_STATUS_H_
