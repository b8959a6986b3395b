// Aligned columns of text. Knows how wide characters are drawn and that colours take no room. A
// plain value; the caller has already made foreign text safe for a terminal.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/style.h"

namespace divvy::cli {

enum class Align { kLeft, kRight };

struct Cell {
  Cell(std::string text_, Color color_ = Color::kPlain) : text(std::move(text_)), color(color_) {}
  Cell(const char* text_) : text(text_) {}

  std::string text;
  Color color = Color::kPlain;
};

class Table {
 public:
  // A column without a header text continues the one before it.
  void add_column(std::string header, Align align = Align::kLeft);
  // Missing cells at the end are empty; there are not more cells than columns.
  void add_row(std::vector<Cell> row);

  // Of the longest line, in terminal columns.
  [[nodiscard]] std::size_t width() const;

  // Every line with its line end and without spaces at the end.
  [[nodiscard]] std::string render(const Style& style) const;

 private:
  struct Column {
    std::string header;
    Align align = Align::kLeft;
    std::size_t width = 0;
  };

  std::vector<Column> columns_;
  std::vector<std::vector<Cell>> rows_;
};

// `text` in at most `width` terminal columns; what is cut off is marked with "…" or "~".
[[nodiscard]] std::string shorten(const std::string& text, std::size_t width, const Style& style);

}  // namespace divvy::cli
