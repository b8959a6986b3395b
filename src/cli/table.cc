#include "cli/table.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace divvy::cli {
namespace {

constexpr std::size_t kGap = 2;

}  // namespace

void Table::add_column(std::string header, Align align) {
  const std::size_t width = display_width(header);
  columns_.push_back({std::move(header), align, width});
}

void Table::add_row(std::vector<Cell> row) {
  DIVVY_CHECK(row.size() <= columns_.size(), "a row of {} cells in a table of {} columns",
              row.size(), columns_.size());
  for (std::size_t i = 0; i < row.size(); ++i) {
    columns_[i].width = std::max(columns_[i].width, display_width(row[i].text));
  }
  rows_.push_back(std::move(row));
}

std::size_t Table::width() const {
  std::size_t width = 0;
  for (const Column& column : columns_) width += column.width + kGap;
  return width == 0 ? 0 : width - kGap;
}

std::string Table::render(const Style& style) const {
  std::string result;
  const auto line = [&](auto&& cell_at) {
    // Spaces are written when something follows them, so that none is left at the end of a line.
    std::size_t owed = 0;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const auto [text, color] = cell_at(i);
      const std::size_t padding = columns_[i].width - display_width(text);
      const bool right = columns_[i].align == Align::kRight;
      if (right) owed += padding;
      if (!text.empty()) {
        result.append(owed, ' ');
        owed = 0;
        result += style.paint(color, text);
      }
      owed += (right ? 0 : padding) + kGap;
    }
    result += '\n';
  };
  using Piece = std::pair<std::string_view, Color>;
  line([&](std::size_t i) { return Piece{columns_[i].header, Color::kBold}; });
  for (const auto& row : rows_) {
    line([&](std::size_t i) {
      return i < row.size() ? Piece{row[i].text, row[i].color} : Piece{"", Color::kPlain};
    });
  }
  return result;
}

std::string shorten(const std::string& text, std::size_t width, const Style& style) {
  if (display_width(text) <= width) return text;
  if (width == 0) return "";
  std::string result;
  std::string_view rest = text;
  while (!rest.empty()) {
    const std::size_t size = first_code_point(rest).value_or(CodePoint{U'?', 1}).size;
    const std::string longer = result + std::string(rest.substr(0, size));
    if (display_width(longer) > width - 1) break;
    result = longer;
    rest.remove_prefix(size);
  }
  while (result.ends_with(' ')) result.pop_back();
  return result += style.pick("…", "~");
}

}  // namespace divvy::cli
