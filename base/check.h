// Always-on checks for programmer errors: a violated one prints what was expected and aborts.
// Never for bad input: that is an absl::Status (see base/status.h).
#ifndef TIDELINE_BASE_CHECK_H_
#define TIDELINE_BASE_CHECK_H_

namespace tideline::internal {

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition, const char* text);

}  // namespace tideline::internal

// TL_CHECK(condition, "what must hold and why").
#define TL_CHECK(condition, text)                                              \
  do {                                                                         \
    if (!(condition)) [[unlikely]]                                             \
      ::tideline::internal::CheckFailed(__FILE__, __LINE__, #condition, text); \
  } while (false)

#endif  // TIDELINE_BASE_CHECK_H_
