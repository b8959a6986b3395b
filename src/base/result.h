// How anything in Divvy says that it did not work: `Result<T>` is a value or one `Error`, `Status`
// is success or one `Error`. Values, safe to use from any thread. No exceptions cross a room's
// border.
//
// "Does not fit" is an answer, not an error, and has its own type where it occurs. A broken
// invariant is a DIVVY_CHECK (base/check.h).
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace divvy {

enum class ErrorCode {
  kInvalidArgument,     // The caller wrote something that can never be right.
  kNotFound,            // The named thing does not exist.
  kAlreadyExists,       // The named thing exists and must not.
  kOutOfRange,          // Well formed, but larger or smaller than what is supported.
  kUnavailable,         // Not answering now; trying again later may help.
  kPermissionDenied,    // This caller may not do this.
  kResourceExhausted,   // There is not enough of something right now.
  kFailedPrecondition,  // Right request, wrong moment: something has to change first.
  kTimeout,             // The answer did not come in time; it may still happen.
  kUnsupported,         // This machine, driver or build cannot do it.
  kCancelled,           // Somebody asked for it to stop.
  kDataLoss,            // Stored or received data is damaged.
  kIo,                  // The operating system refused a read, a write or an open.
  kInternal,            // A mistake in Divvy itself.
};

// The stable lower-case name of a code ("invalid_argument"), for logs and JSON.
std::string_view to_string(ErrorCode code);

struct Error {
  ErrorCode code = ErrorCode::kInternal;
  // What happened, to what, and what to do next. May hold several lines; no line end at the end.
  std::string message;

  friend bool operator==(const Error&, const Error&) = default;
};

template <typename T>
using Result = tl::expected<T, Error>;

using Status = Result<void>;

// Makes the error side of any Result: `return err(ErrorCode::kNotFound, "no GPU {}", index);`
template <typename... Args>
[[nodiscard]] tl::unexpected<Error> err(ErrorCode code, fmt::format_string<Args...> format,
                                        Args&&... args) {
  return tl::unexpected<Error>(Error{code, fmt::format(format, std::forward<Args>(args)...)});
}

// Passes on an error that already exists.
[[nodiscard]] inline tl::unexpected<Error> err(Error error) {
  return tl::unexpected<Error>(std::move(error));
}

// Puts "<context>: " in front of the message and keeps the code, so that a message that climbs
// through several layers ends up naming the thing that the user knows about.
[[nodiscard]] inline Error with_context(Error error, std::string_view context) {
  error.message.insert(0, ": ");
  error.message.insert(0, context);
  return error;
}

template <typename T>
[[nodiscard]] Result<T> with_context(Result<T> result, std::string_view context) {
  if (!result) return err(with_context(std::move(result).error(), context));
  return result;
}

}  // namespace divvy

#define DIVVY_DETAIL_CONCAT_(a, b) a##b
#define DIVVY_DETAIL_CONCAT(a, b) DIVVY_DETAIL_CONCAT_(a, b)

// DIVVY_TRY(gpus, list_gpus());
// Declares `gpus` with the value of the Result, or returns its error from the enclosing function.
// Two statements rather than a statement expression, because GCC 12 crashes on the latter around
// co_await; it must therefore stand in a block of its own and not directly after an `if`.
#define DIVVY_TRY(var, ...)                                            \
  auto DIVVY_DETAIL_CONCAT(divvy_try_, __LINE__) = (__VA_ARGS__);      \
  if (!DIVVY_DETAIL_CONCAT(divvy_try_, __LINE__))                      \
    return ::tl::unexpected<::divvy::Error>(                           \
        std::move(DIVVY_DETAIL_CONCAT(divvy_try_, __LINE__)).error()); \
  auto var = *std::move(DIVVY_DETAIL_CONCAT(divvy_try_, __LINE__))

// DIVVY_RETURN_IF_ERROR(file.sync());
// Returns the error of a Status (or of a Result whose value is not wanted) from the enclosing
// function.
#define DIVVY_RETURN_IF_ERROR(...)                                                       \
  do {                                                                                   \
    if (auto divvy_check_ok_result = (__VA_ARGS__); !divvy_check_ok_result)              \
      return ::tl::unexpected<::divvy::Error>(std::move(divvy_check_ok_result).error()); \
  } while (false)
