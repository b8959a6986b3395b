#include "cli/table.h"

#include <gtest/gtest.h>

#include "cli/testing.h"

namespace divvy::cli {
namespace {

TEST(Table, AlignsColumns) {
  Table table;
  table.add_column("NAME");
  table.add_column("SIZE", Align::kRight);
  table.add_column("STATE");
  table.add_row({"a", "5", "ok"});
  table.add_row({"longer name", "12345", "broken"});
  EXPECT_EQ(table.render(plain_style()),
            "NAME          SIZE  STATE\n"
            "a                5  ok\n"
            "longer name  12345  broken\n");
  EXPECT_EQ(table.width(), 26U);
}

TEST(Table, LeavesNoSpacesAtTheEndOfALine) {
  Table table;
  table.add_column("A");
  table.add_column("B");
  table.add_row({"long long", ""});
  table.add_row({"x"});
  EXPECT_EQ(table.render(plain_style()), "A          B\nlong long\nx\n");
}

TEST(Table, CountsWhatATerminalDrawsAndNotBytes) {
  Table table;
  table.add_column("T");
  table.add_column("N");
  table.add_row({"日本", "1"});
  table.add_row({"41 °C", "2"});
  EXPECT_EQ(table.render(test_style()), "T      N\n日本   1\n41 °C  2\n");
}

TEST(Table, KeepsColumnsAlignedWithColours) {
  Table table;
  table.add_column("A");
  table.add_column("B");
  table.add_row({Cell("ok", Color::kGreen), "1"});
  Style style;
  style.color = true;
  EXPECT_EQ(table.render(style), "\x1b[1mA\x1b[0m   \x1b[1mB\x1b[0m\n\x1b[32mok\x1b[0m  1\n");
}

TEST(Table, ShortensWithAMark) {
  EXPECT_EQ(shorten("NVIDIA H200", 11, test_style()), "NVIDIA H200");
  EXPECT_EQ(shorten("NVIDIA H200", 10, test_style()), "NVIDIA H2…");
  EXPECT_EQ(shorten("NVIDIA H200", 8, plain_style()), "NVIDIA~");
  EXPECT_EQ(shorten("日本語", 4, test_style()), "日…");
  EXPECT_EQ(shorten("x", 0, test_style()), "");
}

}  // namespace
}  // namespace divvy::cli
