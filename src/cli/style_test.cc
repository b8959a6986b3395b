#include "cli/style.h"

#include <gtest/gtest.h>

#include <map>

namespace divvy::cli {
namespace {

Terminal terminal(bool is_terminal, const std::map<std::string, std::string>& variables = {}) {
  Terminal result;
  result.is_terminal = is_terminal;
  result.columns = is_terminal ? std::optional<std::size_t>(120) : std::nullopt;
  result.environment = [variables](const char* name) -> std::optional<std::string> {
    const auto known = variables.find(name);
    if (known == variables.end()) return std::nullopt;
    return known->second;
  };
  return result;
}

TEST(Style, UsesColoursOnATerminalOnly) {
  EXPECT_TRUE(choose_style(terminal(true), ColorChoice::kAuto).color);
  EXPECT_FALSE(choose_style(terminal(false), ColorChoice::kAuto).color);
}

TEST(Style, RespectsNoColor) {
  EXPECT_FALSE(choose_style(terminal(true, {{"NO_COLOR", "1"}}), ColorChoice::kAuto).color);
  EXPECT_TRUE(choose_style(terminal(true, {{"NO_COLOR", ""}}), ColorChoice::kAuto).color);
}

TEST(Style, UsesNoColoursOnADumbTerminal) {
  EXPECT_FALSE(choose_style(terminal(true, {{"TERM", "dumb"}}), ColorChoice::kAuto).color);
}

TEST(Style, FollowsTheChoiceOfTheCommandLineBeforeAnythingElse) {
  EXPECT_TRUE(choose_style(terminal(false, {{"NO_COLOR", "1"}}), ColorChoice::kAlways).color);
  EXPECT_FALSE(choose_style(terminal(true), ColorChoice::kNever).color);
}

TEST(Style, DrawsOnlyWhereTheLocaleIsUtf8) {
  EXPECT_TRUE(choose_style(terminal(true, {{"LANG", "de_DE.UTF-8"}}), ColorChoice::kAuto).unicode);
  EXPECT_TRUE(
      choose_style(terminal(true, {{"LC_ALL", ""}, {"LC_CTYPE", "C.utf8"}}), ColorChoice::kAuto)
          .unicode);
  EXPECT_FALSE(
      choose_style(terminal(true, {{"LC_ALL", "C"}, {"LANG", "en_US.UTF-8"}}), ColorChoice::kAuto)
          .unicode);
  EXPECT_FALSE(choose_style(terminal(true), ColorChoice::kAuto).unicode);
}

TEST(Style, TakesTheWidthFromColumnsBeforeTheTerminal) {
  EXPECT_EQ(choose_style(terminal(true), ColorChoice::kAuto).columns, 120U);
  EXPECT_EQ(choose_style(terminal(true, {{"COLUMNS", "60"}}), ColorChoice::kAuto).columns, 60U);
  EXPECT_EQ(choose_style(terminal(true, {{"COLUMNS", "6o"}}), ColorChoice::kAuto).columns, 120U);
  EXPECT_EQ(choose_style(terminal(false), ColorChoice::kAuto).columns, std::nullopt);
}

TEST(Style, PaintsNothingWithoutColours) {
  Style style;
  EXPECT_EQ(style.paint(Color::kRed, "hot"), "hot");
  style.color = true;
  EXPECT_EQ(style.paint(Color::kRed, "hot"), "\x1b[31mhot\x1b[0m");
  EXPECT_EQ(style.paint(Color::kRed, ""), "");
}

TEST(Style, ReadsTheThreeWordsForColour) {
  EXPECT_EQ(parse_color_choice("always").value(), ColorChoice::kAlways);
  EXPECT_EQ(parse_color_choice("\x1b[2J").error().message,
            "--color is auto, always or never, not \"\\x1b[2J\"");
}

}  // namespace
}  // namespace divvy::cli
