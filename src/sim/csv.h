// A table read from CSV text: the first line names the columns, every other line is a row. Traces
// come from anywhere, so nothing is trusted: what is wrong is refused with "FILE:LINE: reason;
// remedy". Quoted fields ("a,b", "say ""so""", also over several lines), LF and CRLF, a byte order
// mark, empty lines and gzip are all understood.
//
// A value; reading from several threads at once is fine. Rows point into their table, which has to
// outlive them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/text_file.h"

namespace divvy::sim {

class CsvTable;

class CsvRow {
 public:
  // The line of the file on which the row begins, from 1.
  [[nodiscard]] std::size_t line() const;
  // The field without its quotes.
  [[nodiscard]] std::string_view text(std::size_t column) const;

  // A whole number, digits only.
  [[nodiscard]] Result<std::uint64_t> count(
      std::size_t column, std::uint64_t least = 0,
      std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) const;
  // A finite number that is not negative: "12", "0.5", "1e3".
  [[nodiscard]] Result<double> number(std::size_t column, double most = 1e18) const;

  // "FILE:LINE: <what is wrong>", for rules that only the caller knows.
  template <typename... Args>
  [[nodiscard]] tl::unexpected<Error> wrong(fmt::format_string<Args...> format,
                                            Args&&... args) const {
    return err(ErrorCode::kInvalidArgument, "{}: {}", where(),
               fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  friend class CsvTable;
  CsvRow(const CsvTable& table, std::size_t index) : table_(&table), index_(index) {}
  [[nodiscard]] std::string where() const;
  [[nodiscard]] tl::unexpected<Error> wrong_field(std::size_t column, std::string_view rule) const;

  const CsvTable* table_;
  std::size_t index_;
};

class CsvTable {
 public:
  [[nodiscard]] static Result<CsvTable> read(const std::string& path,
                                             const TextLimits& limits = {});
  // `name` stands for the file in what is refused.
  [[nodiscard]] static Result<CsvTable> parse(std::string_view text, std::string name,
                                              const TextLimits& limits = {});

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const std::vector<std::string>& columns() const { return columns_; }
  // How many rows there are, without the line that names the columns.
  [[nodiscard]] std::size_t size() const { return lines_.size(); }
  [[nodiscard]] CsvRow row(std::size_t index) const { return {*this, index}; }

  // The error names the missing column and lists those that there are.
  [[nodiscard]] Result<std::size_t> column(std::string_view name) const;
  [[nodiscard]] std::optional<std::size_t> find_column(std::string_view name) const;

 private:
  friend class CsvRow;
  friend class CsvParser;
  CsvTable() = default;

  std::string name_;
  std::vector<std::string> columns_;
  // All fields of all rows one after the other, and where each of them ends: one string for each
  // field would take several times the memory of the file.
  std::string cells_;
  std::vector<std::size_t> ends_;
  std::vector<std::size_t> lines_;
};

}  // namespace divvy::sim
