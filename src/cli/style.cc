#include "cli/style.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>

#include "base/text.h"

namespace divvy::cli {
namespace {

std::string_view escape_code(Color color) {
  switch (color) {
    case Color::kPlain:
      return "";
    case Color::kGreen:
      return "\x1b[32m";
    case Color::kYellow:
      return "\x1b[33m";
    case Color::kRed:
      return "\x1b[31m";
    case Color::kCyan:
      return "\x1b[36m";
    case Color::kBold:
      return "\x1b[1m";
    case Color::kDim:
      return "\x1b[2m";
  }
  return "";
}

std::optional<std::size_t> parse_columns(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  std::size_t columns = 0;
  const char* end = text->data() + text->size();
  const auto [stop, code] = std::from_chars(text->data(), end, columns);
  if (code != std::errc{} || stop != end || columns == 0) return std::nullopt;
  return columns;
}

// The first of these variables that is set to something decides, as setlocale would.
bool locale_is_utf8(const Terminal& terminal) {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const auto value = terminal.environment(variable);
    if (!value || value->empty()) continue;
    const std::string lower = to_lower(*value);
    return lower.find("utf-8") != std::string::npos || lower.find("utf8") != std::string::npos;
  }
  return false;
}

}  // namespace

Result<ColorChoice> parse_color_choice(std::string_view text) {
  if (text == "auto") return ColorChoice::kAuto;
  if (text == "always") return ColorChoice::kAlways;
  if (text == "never") return ColorChoice::kNever;
  return err(ErrorCode::kInvalidArgument, "--color is auto, always or never, not \"{}\"",
             escape_for_terminal(text));
}

Terminal this_terminal() {
  Terminal terminal;
  terminal.is_terminal = isatty(STDOUT_FILENO) == 1;
  terminal.errors_are_terminal = isatty(STDERR_FILENO) == 1;
  winsize size{};
  if (terminal.is_terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    terminal.columns = size.ws_col;
  }
  terminal.environment = [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  };
  return terminal;
}

std::string Style::paint(Color with, std::string_view text) const {
  if (!color || with == Color::kPlain || text.empty()) return std::string(text);
  return fmt::format("{}{}\x1b[0m", escape_code(with), text);
}

Style choose_style(const Terminal& terminal, ColorChoice choice) {
  Style style;
  // The convention (no-color.org) is that any text but the empty one counts.
  const bool refused = !terminal.environment("NO_COLOR").value_or("").empty() ||
                       terminal.environment("TERM") == "dumb";
  style.color = choice == ColorChoice::kAlways ||
                (choice == ColorChoice::kAuto && terminal.is_terminal && !refused);
  style.unicode = locale_is_utf8(terminal);
  style.decoration = terminal.is_terminal;
  style.columns = parse_columns(terminal.environment("COLUMNS"));
  if (!style.columns) style.columns = terminal.columns;
  return style;
}

}  // namespace divvy::cli
