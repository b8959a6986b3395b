#include "base/parse_error.h"

#include <algorithm>
#include <cstdint>

namespace divvy {
namespace {

constexpr std::size_t kWindowColumns = 60;
constexpr std::size_t kQuotedColumns = 24;
constexpr std::string_view kCut = "...";

// One byte as plain ASCII, so that one character is one column on every terminal and the caret is
// right.
std::string shown(char c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    default:
      break;
  }
  const auto byte = static_cast<std::uint8_t>(c);
  if (byte >= 0x20 && byte < 0x7F) return {c};
  return fmt::format("\\x{:02x}", byte);
}

struct Window {
  std::string text;
  std::size_t caret_column = 0;
};

// The part of `text` around `position` that fits into `columns`, cut only between whole bytes.
Window window_around(std::string_view text, std::size_t position, std::size_t columns) {
  position = std::min(position, text.size());
  std::size_t begin = position;
  std::size_t end = position;
  std::size_t used = 0;
  // Grows to both sides in turn, so that the place keeps its surroundings, and takes the rest of
  // the room on one side when the other has come to its end.
  bool left_open = true;
  bool right_open = true;
  while (left_open || right_open) {
    right_open = right_open && end < text.size();
    if (right_open) {
      const std::size_t width = shown(text[end]).size();
      right_open = used + width <= columns;
      if (right_open) {
        used += width;
        ++end;
      }
    }
    left_open = left_open && begin > 0;
    if (left_open) {
      const std::size_t width = shown(text[begin - 1]).size();
      left_open = used + width <= columns;
      if (left_open) {
        used += width;
        --begin;
      }
    }
  }
  Window window;
  if (begin > 0) window.text += kCut;
  for (std::size_t i = begin; i < end; ++i) {
    if (i == position) window.caret_column = window.text.size();
    window.text += shown(text[i]);
  }
  if (position == end) window.caret_column = window.text.size();
  if (end < text.size()) window.text += kCut;
  return window;
}

}  // namespace

Error parse_error(ParseFailure failure, ErrorCode code) {
  const Window window = window_around(failure.text, failure.position, kWindowColumns);
  return Error{code, fmt::format("cannot read \"{}\" as {}: {}\n  {}\n  {:>{}}\n{}", window.text,
                                 failure.as, failure.reason, window.text, '^',
                                 window.caret_column + 1, failure.example)};
}

std::string quote_typed(std::string_view piece) {
  return fmt::format("\"{}\"", window_around(piece, 0, kQuotedColumns).text);
}

}  // namespace divvy
