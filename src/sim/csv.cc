#include "sim/csv.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <unordered_set>

#include "base/check.h"
#include "base/parse_error.h"
#include "base/text.h"

namespace divvy::sim {
namespace {

constexpr std::size_t kColumnsMax = 4096;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

}  // namespace

// Takes the text in pieces of any size and fills a table.
class CsvParser {
 public:
  CsvParser(std::string name, const TextLimits& limits) : limits_(limits) {
    table_.name_ = std::move(name);
  }

  Status take(std::string_view piece) {
    for (const char c : piece) DIVVY_RETURN_IF_ERROR(take(c));
    return {};
  }

  Result<CsvTable> finish() {
    if (state_ == State::kQuoted)
      return wrong(row_line_, "a field opens with a quote that is never closed; close it");
    if (state_ != State::kStart || !fields_.empty() || skipped_cr_)
      DIVVY_RETURN_IF_ERROR(end_row());
    if (table_.columns_.empty())
      return wrong(1, "there is no line that names the columns; is the file empty?");
    return std::move(table_);
  }

 private:
  enum class State {
    kStart,   // At the start of a field.
    kPlain,   // Inside a field without quotes.
    kQuoted,  // Between quotes.
    kClosed,  // After a closing quote: another quote, a comma or the end of the line follows.
  };

  template <typename... Args>
  tl::unexpected<Error> wrong(std::size_t line, fmt::format_string<Args...> format,
                              Args&&... args) const {
    return err(ErrorCode::kInvalidArgument, "{}:{}: {}", escape_for_terminal(table_.name_), line,
               fmt::format(format, std::forward<Args>(args)...));
  }

  Status take(char c) {
    if (++line_bytes_ > limits_.line_bytes)
      return wrong(line_, "a line of more than {}; is this really a CSV file?",
                   describe_bytes(limits_.line_bytes));
    // The NUL byte is refused here too, because text does not only come from files.
    if (c == '\0') return wrong(line_, "a NUL byte, so this is binary data and no text");
    if (skipped_cr_ && c != '\n') return wrong(line_, "a carriage return inside a line; remove it");
    if (state_ == State::kQuoted) {
      if (c == '"') {
        state_ = State::kClosed;
        return {};
      }
      if (c == '\n') next_line();
      field_ += c;
      return {};
    }
    switch (c) {
      case '\r':
        skipped_cr_ = true;
        return {};
      case '\n':
        skipped_cr_ = false;
        return end_line();
      case ',':
        end_field();
        return {};
      case '"':
        if (state_ == State::kPlain && !(field_ == kByteOrderMark && first_field()))
          return wrong(line_, "a quote in the middle of a field; put the whole field in quotes");
        if (state_ == State::kPlain) field_.clear();
        if (state_ == State::kClosed) field_ += '"';
        state_ = State::kQuoted;
        return {};
      default:
        if (state_ == State::kClosed)
          return wrong(line_, "text after a closing quote; write a quote inside a field twice");
        state_ = State::kPlain;
        field_ += c;
        return {};
    }
  }

  [[nodiscard]] bool first_field() const { return table_.columns_.empty() && fields_.empty(); }

  void next_line() {
    ++line_;
    line_bytes_ = 0;
  }

  void end_field() {
    fields_.push_back(std::move(field_));
    field_.clear();
    state_ = State::kStart;
  }

  Status end_line() {
    if (state_ != State::kStart || !fields_.empty()) DIVVY_RETURN_IF_ERROR(end_row());
    next_line();
    row_line_ = line_;
    return {};
  }

  Status end_row() {
    end_field();
    skipped_cr_ = false;
    Status status = table_.columns_.empty() ? take_header() : take_row();
    fields_.clear();
    return status;
  }

  Status take_header() {
    if (fields_.front().starts_with(kByteOrderMark))
      fields_.front().erase(0, kByteOrderMark.size());
    if (fields_.size() > kColumnsMax)
      return wrong(row_line_, "{} columns, more than the {} that are read; is this a CSV file?",
                   fields_.size(), kColumnsMax);
    std::unordered_set<std::string> seen;
    for (auto& field : fields_) {
      std::string column(trim(field));
      if (column.empty())
        return wrong(row_line_, "column {} has no name; name it or remove it",
                     table_.columns_.size() + 1);
      if (!seen.insert(column).second)
        return wrong(row_line_, "two columns are called {}; rename or remove one",
                     quote_typed(column));
      table_.columns_.push_back(std::move(column));
    }
    return {};
  }

  Status take_row() {
    if (fields_.size() != table_.columns_.size())
      return wrong(row_line_, "{} fields where the first line names {} columns; {}", fields_.size(),
                   table_.columns_.size(),
                   fields_.size() < table_.columns_.size() ? "is the line cut off?"
                                                           : "put a field with a comma in quotes");
    for (const auto& field : fields_) {
      table_.cells_ += field;
      table_.ends_.push_back(table_.cells_.size());
    }
    table_.lines_.push_back(row_line_);
    return {};
  }

  TextLimits limits_;
  CsvTable table_;
  State state_ = State::kStart;
  bool skipped_cr_ = false;  // A carriage return was seen that a line feed has to follow.
  std::string field_;
  std::vector<std::string> fields_;
  std::size_t line_ = 1;
  std::size_t row_line_ = 1;  // Where the row began; a quoted field may hold line ends.
  std::uint64_t line_bytes_ = 0;
};

Result<CsvTable> CsvTable::read(const std::string& path, const TextLimits& limits) {
  CsvParser parser(path, limits);
  DIVVY_RETURN_IF_ERROR(
      read_text(path, limits, [&](std::string_view piece) { return parser.take(piece); }));
  return parser.finish();
}

Result<CsvTable> CsvTable::parse(std::string_view text, std::string name,
                                 const TextLimits& limits) {
  CsvParser parser(std::move(name), limits);
  DIVVY_RETURN_IF_ERROR(parser.take(text));
  return parser.finish();
}

std::optional<std::size_t> CsvTable::find_column(std::string_view name) const {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  if (found == columns_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns_.begin());
}

Result<std::size_t> CsvTable::column(std::string_view name) const {
  if (const auto found = find_column(name)) return *found;
  std::string known;
  for (const auto& column : columns_) {
    if (!known.empty()) known += ", ";
    known += escape_for_terminal(column);
    if (known.size() > 400) {
      known += ", ...";
      break;
    }
  }
  const auto meant = did_you_mean(name, columns_);
  return err(ErrorCode::kInvalidArgument, "{}:1: there is no column \"{}\"{}; the columns are {}",
             escape_for_terminal(name_), name,
             meant ? fmt::format(" (did you mean \"{}\"?)", escape_for_terminal(*meant)) : "",
             known);
}

std::size_t CsvRow::line() const { return table_->lines_[index_]; }

std::string CsvRow::where() const {
  return fmt::format("{}:{}", escape_for_terminal(table_->name_), line());
}

std::string_view CsvRow::text(std::size_t column) const {
  DIVVY_CHECK(column < table_->columns_.size(), "column {} of {}", column, table_->columns_.size());
  const std::size_t cell = index_ * table_->columns_.size() + column;
  const std::size_t begin = cell == 0 ? 0 : table_->ends_[cell - 1];
  return std::string_view(table_->cells_).substr(begin, table_->ends_[cell] - begin);
}

tl::unexpected<Error> CsvRow::wrong_field(std::size_t column, std::string_view rule) const {
  return wrong("{} is {}; it has to be {}", escape_for_terminal(table_->columns_[column]),
               text(column).empty() ? "empty" : quote_typed(text(column)), rule);
}

Result<std::uint64_t> CsvRow::count(std::size_t column, std::uint64_t least,
                                    std::uint64_t most) const {
  const std::string_view field = trim(text(column));
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  const bool digits =
      !field.empty() &&
      std::all_of(field.begin(), field.end(), [](unsigned char c) { return c >= '0' && c <= '9'; });
  if (!digits) return wrong_field(column, "a whole number that is not negative");
  if (error != std::errc() || value > most)
    return wrong_field(column, fmt::format("at most {}", most));
  if (value < least) return wrong_field(column, fmt::format("at least {}", least));
  return value;
}

Result<double> CsvRow::number(std::size_t column, double most) const {
  const std::string_view field = trim(text(column));
  double value = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error == std::errc::result_out_of_range)
    return wrong_field(column, fmt::format("at most {}", most));
  if (error != std::errc() || end != field.data() + field.size() || !std::isfinite(value) ||
      value < 0)
    return wrong_field(column, "a number that is not negative");
  if (value > most) return wrong_field(column, fmt::format("at most {}", most));
  // Minus zero reads as zero, so that it prints as one.
  return value + 0.0;
}

}  // namespace divvy::sim
