// One connection to the database and the statements prepared on it: everything that the tables of
// this room need of SQLite. The library behind it (SQLiteCpp) and its exceptions stay inside
// connection.cc.
//
// A connection belongs to one thread at a time. Callers get theirs from Database: in read() or,
// inside a change, from the writer.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/result.h"

namespace divvy::store {

class Connection;

// A statement in use. It goes back to its connection when it is destroyed, which comes first.
class Statement {
 public:
  Statement(Statement&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  Statement& operator=(Statement&&) = delete;
  ~Statement();

  // The next parameter, in the order of the question marks.
  Statement& add(std::int64_t value);
  Statement& add(std::string_view text);
  Statement& add(std::nullptr_t);
  Statement& add(WallTime time) { return add(std::int64_t{time.time_since_epoch().count()}); }
  template <typename T>
  Statement& add(const std::optional<T>& value) {
    return value ? add(*value) : add(nullptr);
  }
  template <typename T>
    requires std::is_same_v<T, bool> || std::is_unsigned_v<T> || std::is_same_v<T, int>
  Statement& add(T value) {
    return add(static_cast<std::int64_t>(value));
  }
  Statement& add(const std::string& text) { return add(std::string_view(text)); }
  Statement& add(const char* text) { return add(std::string_view(text)); }

  // Whether there is another row. Errors of add() are told here.
  [[nodiscard]] Result<bool> step();
  // For what gives no rows.
  [[nodiscard]] Status run();

  // Columns of the present row, counted from 0.
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] std::string text(int column) const;
  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] WallTime time(int column) const { return WallTime(Duration(integer(column))); }
  [[nodiscard]] std::optional<WallTime> optional_time(int column) const {
    return is_null(column) ? std::nullopt : std::optional(time(column));
  }

 private:
  friend class Connection;
  struct Entry;
  explicit Statement(Entry* entry) : entry_(entry) {}
  Entry* entry_;
};

class Connection {
 public:
  enum class Mode { kRead, kWrite };
  // The file exists. kDataLoss when it is no database.
  [[nodiscard]] static Result<Connection> open(const std::filesystem::path& file, Mode mode);
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&& other) noexcept;
  ~Connection();

  // Prepared once for each text and kept afterwards: not for text with values in it.
  [[nodiscard]] Result<Statement> prepare(std::string_view sql);
  // One or more statements that are not worth keeping.
  [[nodiscard]] Status execute(const std::string& sql);
  // The one number that a query answers with.
  [[nodiscard]] Result<std::int64_t> number(std::string_view sql);

  // Whether a transaction is open: SQLite ends one by itself when the disk is full.
  [[nodiscard]] bool in_transaction() const;
  // Rows that the last statement changed.
  [[nodiscard]] std::int64_t changes() const;
  [[nodiscard]] std::int64_t last_id() const;

  // Everything that is in `from`, in one step. What was here is gone.
  [[nodiscard]] Status copy_from(Connection& from);

  [[nodiscard]] const std::filesystem::path& file() const;

 private:
  friend class Statement;
  struct Impl;
  explicit Connection(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace divvy::store
