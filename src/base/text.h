// Small pieces of text work that several rooms need. Pure functions, callable from any thread; any
// bytes are safe to pass.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace divvy {

// Without spaces, tabs and line ends at both ends.
[[nodiscard]] std::string_view trim(std::string_view text);

// "a,,b" at ',' is {"a", "", "b"}; the empty text is one empty piece. The pieces point into `text`.
[[nodiscard]] std::vector<std::string_view> split(std::string_view text, char separator);

// ASCII only, whatever the locale.
[[nodiscard]] std::string to_lower(std::string_view text);

// The code point at the start of `text` and how many bytes it takes; nothing where the bytes are
// not valid UTF-8 (also for surrogates and overlong forms). `text` is not empty.
struct CodePoint {
  char32_t value = 0;
  std::size_t size = 0;
};
[[nodiscard]] std::optional<CodePoint> first_code_point(std::string_view text);

// Text that came from somewhere else, made safe for a terminal: control characters become \n, \t or
// \x1b, bytes that are not UTF-8 become \xff, and characters that are invisible or turn the
// direction of writing become \u{202e}. A backslash becomes two, so that the result is unambiguous.
// Other UTF-8 stays.
[[nodiscard]] std::string escape_for_terminal(std::string_view text);

// As a cell of CSV (RFC 4180). One that a spreadsheet would take for a formula is quoted.
[[nodiscard]] std::string csv_cell(std::string_view text);

// How many terminal columns valid UTF-8 takes: wide characters two, combining marks none.
[[nodiscard]] std::size_t display_width(std::string_view text);

// The candidate that `word` most probably was meant to be, for "did you mean ...?"; nothing when
// none is close. Upper and lower case count as the same. The earlier of two equally close
// candidates wins.
[[nodiscard]] std::optional<std::string> did_you_mean(std::string_view word,
                                                      std::span<const std::string_view> candidates);
[[nodiscard]] std::optional<std::string> did_you_mean(std::string_view word,
                                                      std::span<const std::string> candidates);

}  // namespace divvy
