#include "base/parse_error.h"

#include <gtest/gtest.h>

#include "base/text.h"

namespace divvy {
namespace {

std::vector<std::string> lines_of(const Error& error) {
  std::vector<std::string> lines;
  for (const auto line : split(error.message, '\n')) lines.emplace_back(line);
  return lines;
}

Error fail_at(std::string_view text, std::size_t position) {
  return parse_error({text, position, "a thing", "it is wrong", "write it like this"});
}

TEST(ParseError, ShowsTextPlaceAndExample) {
  EXPECT_EQ(fail_at("10Gx", 2).message,
            "cannot read \"10Gx\" as a thing: it is wrong\n"
            "  10Gx\n"
            "    ^\n"
            "write it like this");
}

TEST(ParseError, PointsBehindTheTextWhenSomethingIsMissing) {
  EXPECT_EQ(lines_of(fail_at("10.", 3))[2], "     ^");
  EXPECT_EQ(lines_of(fail_at("", 0))[2], "  ^");
  EXPECT_EQ(lines_of(fail_at("ab", 99))[2], "    ^");
}

TEST(ParseError, EscapesWhatCouldMoveTheCursorAndKeepsTheCaretRight) {
  const auto lines = lines_of(fail_at("\x1b\n\"\xC3\xA9x", 5));
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[1], "  \\x1b\\n\\\"\\xc3\\xa9x");
  EXPECT_EQ(lines[2].find('^'), lines[1].size() - 1);
}

TEST(ParseError, CutsLongTextAroundThePlace) {
  std::string text(1'000, 'a');
  for (const std::size_t position : {0UL, 10UL, 500UL, 990UL, 999UL}) {
    text[position] = 'Z';
    const auto lines = lines_of(fail_at(text, position));
    ASSERT_EQ(lines.size(), 4U);
    EXPECT_LE(lines[1].size(), 70U);
    EXPECT_EQ(lines[1][lines[2].find('^')], 'Z') << position;
    text[position] = 'a';
  }
  EXPECT_TRUE(lines_of(fail_at(text, 500))[1].starts_with("  ...a"));
  EXPECT_TRUE(lines_of(fail_at(text, 500))[1].ends_with("a..."));
  EXPECT_TRUE(lines_of(fail_at(text, 1'000))[1].ends_with("aa"));
}

TEST(ParseError, QuotesPiecesShortAndSafe) {
  EXPECT_EQ(quote_typed("Gx"), "\"Gx\"");
  EXPECT_EQ(quote_typed("a\nb"), "\"a\\nb\"");
  EXPECT_EQ(quote_typed(std::string(500, 'q')), "\"" + std::string(24, 'q') + "...\"");
}

}  // namespace
}  // namespace divvy
