#include "cli/list_view.h"

#include <algorithm>
#include <numeric>

#include "base/text.h"

namespace divvy::cli {
namespace {

std::string key_of(const ListColumn& column) {
  std::string key = to_lower(column.header);
  std::ranges::replace(key, ' ', '-');
  return key;
}

std::string csv(const ListView& view, const std::vector<Answer>& items) {
  std::string text;
  const auto add_line = [&](auto cell_of) {
    for (std::size_t i = 0; i < view.columns.size(); ++i) {
      text += (i > 0 ? "," : "") + csv_cell(cell_of(view.columns[i]));
    }
    text += "\n";
  };
  add_line([](const ListColumn& column) {
    std::string key = key_of(column);
    std::ranges::replace(key, '-', '_');
    return key;
  });
  for (const Answer& item : items) {
    add_line([&](const ListColumn& column) { return column.cell(item).text; });
  }
  return text;
}

// The document with its items in another order.
std::string with_items(const std::string& document, const std::vector<Answer>& items) {
  const auto answer = Answer::parse(document);
  if (!answer) return document;
  std::string text = "{";
  for (const std::string& name : answer->names()) {
    if (name == "items" || name == "next") continue;
    text += fmt::format("\"{}\":{},", name, (*answer)[name].json());
  }
  text += "\"items\":[";
  for (std::size_t i = 0; i < items.size(); ++i) text += (i > 0 ? "," : "") + items[i].json();
  return text + "]}";
}

std::string names_of(const std::vector<Answer>& items, const std::string& field) {
  std::string names;
  for (const Answer& item : items) names += item[field].text() + "\n";
  return names;
}

}  // namespace

Result<std::string> item_names(const std::string& document, const std::string& field) {
  DIVVY_TRY(answer, Answer::parse(document));
  return names_of(answer["items"].items(), field);
}

ListColumn text_column(std::string header, std::string field, bool wide) {
  return {
      .header = std::move(header),
      .cell = [field = std::move(field)](const Answer& item) { return Cell(item[field].text()); },
      .wide = wide};
}

ListColumn number_column(std::string header, std::string field, bool wide) {
  return {
      .header = std::move(header),
      .cell = [field](const Answer& item) { return Cell(item[field].text()); },
      .align = Align::kRight,
      .wide = wide,
      .number = [field = std::move(field)](const Answer& item) { return item[field].number(); }};
}

Status sort_items(const ListView& view, const std::string& sort_by, std::vector<Answer>& items) {
  if (sort_by.empty()) return {};
  const bool down = sort_by.starts_with("-");
  const std::string wanted = to_lower(down ? sort_by.substr(1) : sort_by);
  std::vector<std::string> keys;
  keys.reserve(view.columns.size());
  for (const ListColumn& column : view.columns) keys.push_back(key_of(column));
  const auto found = std::ranges::find(keys, wanted);
  if (found == keys.end()) {
    const auto meant = did_you_mean(wanted, std::span<const std::string>(keys));
    return err(ErrorCode::kInvalidArgument, "--sort-by: there is no column \"{}\"; {}",
               escape_for_terminal(wanted),
               meant ? fmt::format("did you mean {}?", *meant)
                     : fmt::format("columns are {}", fmt::join(keys, ", ")));
  }
  const ListColumn& column = view.columns[static_cast<std::size_t>(found - keys.begin())];
  const auto before = [&](const Answer& a, const Answer& b) {
    if (column.number) return column.number(a) < column.number(b);
    return column.cell(a).text < column.cell(b).text;
  };
  // Those that are alike stay in the order in which they came, whichever way it goes.
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) {
    const Answer& less = items[down ? b : a];
    const Answer& more = items[down ? a : b];
    return before(less, more) || (!before(more, less) && a < b);
  });
  std::vector<Answer> sorted;
  sorted.reserve(items.size());
  for (const std::size_t index : order) sorted.push_back(std::move(items[index]));
  items = std::move(sorted);
  return {};
}

std::string show_rows(const ListView& view, const std::vector<Answer>& items, bool wide,
                      const Style& style) {
  Table table;
  for (const ListColumn& column : view.columns) {
    if (wide || !column.wide) table.add_column(column.header, column.align);
  }
  for (const Answer& item : items) {
    std::vector<Cell> row;
    for (const ListColumn& column : view.columns) {
      if (!wide && column.wide) continue;
      Cell cell = column.cell(item);
      if (cell.text.empty()) cell.text = style.unknown();
      row.push_back(std::move(cell));
    }
    table.add_row(std::move(row));
  }
  return table.render(style);
}

Result<std::string> show_list(const ListView& view, const std::string& document,
                              OutputFormat format, const std::string& sort_by, const Style& style) {
  DIVVY_TRY(answer, Answer::parse(document));
  std::vector<Answer> items = answer["items"].items();
  DIVVY_RETURN_IF_ERROR(sort_items(view, sort_by, items));
  switch (format) {
    case OutputFormat::kJson:
    case OutputFormat::kYaml:
      return write_document(sort_by.empty() ? document : with_items(document, items), format);
    case OutputFormat::kCsv:
      return csv(view, items);
    case OutputFormat::kName:
      return names_of(items, view.name);
    case OutputFormat::kTable:
    case OutputFormat::kWide:
      break;
  }
  if (items.empty()) return view.nothing + "\n";
  return show_rows(view, items, format == OutputFormat::kWide, style);
}

}  // namespace divvy::cli
