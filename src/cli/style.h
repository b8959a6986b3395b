// How output may look where it goes: colours or none, drawn characters or ASCII, how many columns.
// Decided once at the start from the terminal and the environment, then a plain value for every
// command.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace divvy::cli {

enum class ColorChoice { kAuto, kAlways, kNever };
// "auto", "always" or "never".
[[nodiscard]] Result<ColorChoice> parse_color_choice(std::string_view text);

// What is known about the place that standard output goes to.
struct Terminal {
  bool is_terminal = false;
  bool errors_are_terminal = false;  // The same of standard error.
  std::optional<std::size_t> columns;
  // Looks an environment variable up.
  std::function<std::optional<std::string>(const char*)> environment;
};

// Asks this process's standard output and environment.
[[nodiscard]] Terminal this_terminal();

enum class Color { kPlain, kGreen, kYellow, kRed, kCyan, kBold, kDim };

struct Style {
  bool color = false;
  bool unicode = false;
  // Bars and the like, which are for eyes and not for programs that read the output.
  bool decoration = false;
  // Lines should not be longer; nothing means that they may.
  std::optional<std::size_t> columns;

  [[nodiscard]] std::string paint(Color color, std::string_view text) const;
  // The drawn form where the locale can show it, else the ASCII form.
  [[nodiscard]] std::string_view pick(std::string_view drawn, std::string_view ascii) const {
    return unicode ? drawn : ascii;
  }
  // A value that is not known.
  [[nodiscard]] std::string_view unknown() const { return pick("–", "-"); }
};

// Colours on a terminal unless NO_COLOR is set or TERM is "dumb"; COLUMNS beats the terminal's own
// width.
[[nodiscard]] Style choose_style(const Terminal& terminal, ColorChoice choice);

}  // namespace divvy::cli
