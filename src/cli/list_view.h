// A list of things from the daemon, as every command shows one: a table, a wider one, CSV, names,
// or the document itself. Pure, callable from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/answer.h"
#include "cli/output.h"
#include "cli/table.h"

namespace divvy::cli {

struct ListColumn {
  std::string header;  // "GPU HOURS"; --sort-by knows it as "gpu-hours"
  std::function<Cell(const Answer&)> cell;
  Align align = Align::kLeft;
  bool wide = false;  // Only with -o wide and csv
  // What it is sorted by; without it, by its text.
  std::function<std::optional<std::int64_t>(const Answer&)> number = {};
};

struct ListView {
  std::vector<ListColumn> columns;
  std::string name;     // The field that -o name prints
  std::string nothing;  // Instead of a table without rows, without a line end
};

// A column that shows a field as it is.
[[nodiscard]] ListColumn text_column(std::string header, std::string field, bool wide = false);
[[nodiscard]] ListColumn number_column(std::string header, std::string field, bool wide = false);

// By the column; "-" before it turns it round. An unknown one is refused, with the one that was
// probably meant.
[[nodiscard]] Status sort_items(const ListView& view, const std::string& sort_by,
                                std::vector<Answer>& items);

// `document` is what the items came from, for json and yaml.
[[nodiscard]] Result<std::string> show_list(const ListView& view, const std::string& document,
                                            OutputFormat format, const std::string& sort_by,
                                            const Style& style);
// -o name of a document that has items: that field of each, in a line.
[[nodiscard]] Result<std::string> item_names(const std::string& document, const std::string& field);
// Rows alone, aligned like a table, with or without its head.
[[nodiscard]] std::string show_rows(const ListView& view, const std::vector<Answer>& items,
                                    bool wide, const Style& style);

}  // namespace divvy::cli
