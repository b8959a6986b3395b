// Assertions that stay on in every build. A failed check is a mistake in Divvy, never in its input:
// it writes file, line, expression and message to standard error and aborts, so that the process
// stops before a wrong belief about who holds what can spread. Callable from any thread.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

namespace divvy::detail {

[[noreturn]] void check_failed(const char* file, int line, const char* expression,
                               std::string_view message) noexcept;

inline std::string check_message() { return {}; }

template <typename... Args>
std::string check_message(fmt::format_string<Args...> format, Args&&... args) {
  return fmt::format(format, std::forward<Args>(args)...);
}

}  // namespace divvy::detail

// DIVVY_CHECK(used <= total, "gpu {}: {} used of {}", index, used, total);
// The message is formatted only when the check fails.
#define DIVVY_CHECK(condition, ...)                                               \
  do {                                                                            \
    if (!(condition)) [[unlikely]]                                                \
      ::divvy::detail::check_failed(__FILE__, __LINE__, #condition,               \
                                    ::divvy::detail::check_message(__VA_ARGS__)); \
  } while (false)
