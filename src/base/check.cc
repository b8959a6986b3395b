#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace divvy::detail {

void check_failed(const char* file, int line, const char* expression,
                  std::string_view message) noexcept {
  // Straight to the stream and not through the log, which may be the very thing that is broken.
  std::fprintf(stderr, "%s:%d: check failed: %s%s%.*s\n", file, line, expression,
               message.empty() ? "" : ": ", static_cast<int>(message.size()), message.data());
  std::fflush(stderr);
  std::abort();
}

}  // namespace divvy::detail
