#include "base/text.h"

#include <gtest/gtest.h>

#include <array>

namespace divvy {
namespace {

using namespace std::string_view_literals;

TEST(Text, TrimTakesBlanksFromBothEnds) {
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim("  "), "");
  EXPECT_EQ(trim(""), "");
}

TEST(Text, SplitKeepsEmptyPieces) {
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string_view>{"a", "", "b"}));
  EXPECT_EQ(split("a,", ','), (std::vector<std::string_view>{"a", ""}));
  EXPECT_EQ(split("", ','), (std::vector<std::string_view>{""}));
}

TEST(Text, CodePointsAreReadStrictly) {
  EXPECT_EQ(first_code_point("a")->value, U'a');
  EXPECT_EQ(first_code_point("\xC3\xA9z")->value, U'\u00E9');
  EXPECT_EQ(first_code_point("\xF0\x9F\x98\x80")->value, U'\U0001F600');
  EXPECT_FALSE(first_code_point(""));
  EXPECT_FALSE(first_code_point("\x80"));              // A continuation with nothing before it
  EXPECT_FALSE(first_code_point("\xC0\xAF"));          // Overlong '/'
  EXPECT_FALSE(first_code_point("\xE0\x80\xAF"));      // Overlong, three bytes
  EXPECT_FALSE(first_code_point("\xED\xA0\x80"));      // A surrogate
  EXPECT_FALSE(first_code_point("\xF4\x90\x80\x80"));  // Above U+10FFFF
  EXPECT_FALSE(first_code_point("\xE2\x82"));          // Cut off
  EXPECT_FALSE(first_code_point("\xE2\x41\x41"));      // Continuation missing
}

TEST(Text, EscapingLeavesNothingThatMovesTheCursor) {
  EXPECT_EQ(escape_for_terminal("plain text"), "plain text");
  EXPECT_EQ(escape_for_terminal("a\nb\tc\rd"), "a\\nb\\tc\\rd");
  EXPECT_EQ(escape_for_terminal("\x1b[31mred"), "\\x1b[31mred");
  EXPECT_EQ(escape_for_terminal("nul\0!"sv), "nul\\x00!");
  EXPECT_EQ(escape_for_terminal("\xC2\x9B"
                                "31m"),
            "\\u{9b}31m");
  EXPECT_EQ(escape_for_terminal("bad\xFF"), "bad\\xff");
  EXPECT_EQ(escape_for_terminal("\xE2\x80\xAEtxt"), "\\u{202e}txt");
  EXPECT_EQ(escape_for_terminal("C:\\"), "C:\\\\");
  EXPECT_EQ(escape_for_terminal("K\xC3\xA4se"), "K\xC3\xA4se");
}

TEST(Text, WidthCountsColumnsNotBytes) {
  EXPECT_EQ(display_width("abc"), 3U);
  EXPECT_EQ(display_width("K\xC3\xA4se"), 4U);
  EXPECT_EQ(display_width("e\xCC\x81"), 1U);                 // e and a combining accent
  EXPECT_EQ(display_width("\xE4\xB8\xAD\xE6\x96\x87"), 4U);  // Two Chinese characters
  EXPECT_EQ(display_width("\xFF"), 1U);
}

TEST(Text, SuggestsTheWordThatWasMeant) {
  constexpr std::array<std::string_view, 4> kCommands{"run", "submit", "gpus", "version"};
  const std::span<const std::string_view> commands(kCommands);
  EXPECT_EQ(did_you_mean("gpu", commands), "gpus");
  EXPECT_EQ(did_you_mean("sumbit", commands), "submit");
  EXPECT_EQ(did_you_mean("VERSON", commands), "version");
  EXPECT_EQ(did_you_mean("rnu", commands), "run");
  EXPECT_EQ(did_you_mean("explode", commands), std::nullopt);
  EXPECT_EQ(did_you_mean("", commands), std::nullopt);
  EXPECT_EQ(did_you_mean("-o", commands), std::nullopt);
  EXPECT_EQ(did_you_mean(std::string(10'000, 'x'), commands), std::nullopt);
}

TEST(Text, SuggestsFromStringsToo) {
  const std::vector<std::string> words{"alpha", "beta"};
  EXPECT_EQ(did_you_mean("betta", std::span<const std::string>(words)), "beta");
}

}  // namespace
}  // namespace divvy
