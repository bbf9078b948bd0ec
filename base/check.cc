#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tideline::internal {

void CheckFailed(const char* file, int line, const char* condition, const char* text) {
  std::fprintf(stderr, "tideline: internal error at %s:%d: %s (%s)\n", file, line, text, condition);
  std::abort();
}

}  // namespace tideline::internal
