// Feeds any bytes to the reader of CSV. What is read has as many fields in every row as there are
// columns and does not depend on how the text was cut; what is refused is refused with the name and
// the line, on one line.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "sim/csv.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using divvy::sim::CsvTable;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto table = CsvTable::parse(text, "input", {.file_bytes = 4096, .line_bytes = 256});
  if (!table) {
    const auto& message = table.error().message;
    DIVVY_CHECK(message.starts_with("input:"), "{}", message);
    DIVVY_CHECK(message.find('\n') == std::string::npos, "{}", message);
    return 0;
  }
  DIVVY_CHECK(!table->columns().empty());
  std::size_t line = 0;
  for (std::size_t i = 0; i < table->size(); ++i) {
    const auto row = table->row(i);
    DIVVY_CHECK(row.line() > line, "line {} after {}", row.line(), line);
    line = row.line();
    for (std::size_t column = 0; column < table->columns().size(); ++column) {
      DIVVY_CHECK(row.text(column).size() <= size);
      if (const auto count = row.count(column, 1, 100)) DIVVY_CHECK(*count >= 1 && *count <= 100);
      if (const auto number = row.number(column, 10)) DIVVY_CHECK(*number >= 0 && *number <= 10);
    }
  }
  for (const auto& name : table->columns())
    DIVVY_CHECK(table->columns()[*table->column(name)] == name, "{}", name);
  return 0;
}
