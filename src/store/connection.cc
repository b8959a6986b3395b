#include "store/connection.h"

#include <SQLiteCpp/Backup.h>
#include <SQLiteCpp/SQLiteCpp.h>
#include <sqlite3.h>

#include <algorithm>
#include <map>
#include <vector>

#include "base/check.h"

namespace divvy::store {
namespace {

// How long somebody waits for a lock of SQLite. Writers never wait for each other, because there is
// one of them; what remains are moments (the end of a checkpoint, a restore).
constexpr int kBusyMs = 10'000;

Error to_error(int code, std::string_view text, const std::filesystem::path& file) {
  const std::string where = file.string();
  switch (code & 0xff) {
    case SQLITE_FULL:
      return {ErrorCode::kResourceExhausted,
              fmt::format("the disk under {} is full, nothing was written; free some space and try "
                          "again",
                          where)};
    case SQLITE_IOERR:
      return {ErrorCode::kIo, fmt::format("{} could not be read or written ({}, SQLite {}); see "
                                          "whether its disk is full or failing",
                                          where, text, code)};
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return {
          ErrorCode::kDataLoss,
          fmt::format("{} is damaged or no database of Divvy ({}); restore a backup", where, text)};
    case SQLITE_CANTOPEN:
    case SQLITE_READONLY:
    case SQLITE_PERM:
    case SQLITE_AUTH:
      return {ErrorCode::kPermissionDenied,
              fmt::format("{} cannot be opened for writing ({}); it and its folder must belong to "
                          "the user of divvyd",
                          where, text)};
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return {ErrorCode::kUnavailable,
              fmt::format("{} is in use by another program; end it and try again", where)};
    case SQLITE_CONSTRAINT:
      return {ErrorCode::kAlreadyExists, fmt::format("{} does not allow it: {}", where, text)};
    default:
      return {ErrorCode::kInternal, fmt::format("{}: {} (SQLite {})", where, text, code)};
  }
}

Error to_error(const SQLite::Exception& exception, const std::filesystem::path& file) {
  return to_error(exception.getErrorCode(), exception.what(), file);
}

}  // namespace

struct Statement::Entry {
  Entry(SQLite::Database& database, const std::string& sql, const std::filesystem::path& file_)
      : statement(database, sql), file(file_) {}

  SQLite::Statement statement;
  const std::filesystem::path& file;
  bool used = false;
  int next = 1;
  std::optional<Error> failed;
};

struct Connection::Impl {
  Impl(const std::filesystem::path& file_, int flags)
      : file(file_), database(file_.string(), flags, kBusyMs) {}

  std::filesystem::path file;
  SQLite::Database database;
  // By their text. More than one of a text where one is in use while another is asked for.
  std::map<std::string, std::vector<std::unique_ptr<Statement::Entry>>, std::less<>> statements;
};

Statement::~Statement() {
  if (entry_ == nullptr) return;
  (void)entry_->statement.tryReset();
  entry_->used = false;
}

Statement& Statement::add(std::int64_t value) {
  try {
    entry_->statement.bind(entry_->next++, value);
  } catch (const SQLite::Exception& exception) {
    entry_->failed = to_error(exception, entry_->file);
  }
  return *this;
}

Statement& Statement::add(std::string_view text) {
  try {
    entry_->statement.bind(entry_->next++, std::string(text));
  } catch (const SQLite::Exception& exception) {
    entry_->failed = to_error(exception, entry_->file);
  }
  return *this;
}

Statement& Statement::add(std::nullptr_t) {
  try {
    entry_->statement.bind(entry_->next++);
  } catch (const SQLite::Exception& exception) {
    entry_->failed = to_error(exception, entry_->file);
  }
  return *this;
}

Result<bool> Statement::step() {
  if (entry_->failed) return err(*entry_->failed);
  // A parameter that was forgotten would be the one of the last use.
  DIVVY_CHECK(entry_->next == entry_->statement.getBindParameterCount() + 1,
              "{} parameters given to: {}", entry_->next - 1, entry_->statement.getQuery());
  try {
    return entry_->statement.executeStep();
  } catch (const SQLite::Exception& exception) {
    return err(to_error(exception, entry_->file));
  }
}

Status Statement::run() {
  for (;;) {
    DIVVY_TRY(row, step());
    if (!row) return {};
  }
}

std::int64_t Statement::integer(int column) const {
  return entry_->statement.getColumn(column).getInt64();
}

std::string Statement::text(int column) const {
  return entry_->statement.getColumn(column).getString();
}

bool Statement::is_null(int column) const { return entry_->statement.isColumnNull(column); }

Connection::Connection(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Connection::Connection(Connection&& other) noexcept = default;
Connection& Connection::operator=(Connection&& other) noexcept = default;
Connection::~Connection() = default;

Result<Connection> Connection::open(const std::filesystem::path& file, Mode mode) {
  try {
    Connection connection(
        std::make_unique<Impl>(file, SQLite::OPEN_READWRITE | SQLite::OPEN_NOFOLLOW));
    // FULL: a commit returns when it is on the disk. Temporary tables never touch the folder.
    DIVVY_RETURN_IF_ERROR(connection.execute(
        "PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY;"
        "PRAGMA wal_autocheckpoint = 2000; PRAGMA journal_size_limit = 67108864;"
        "PRAGMA trusted_schema = OFF;"));
    if (mode == Mode::kRead) DIVVY_RETURN_IF_ERROR(connection.execute("PRAGMA query_only = ON;"));
    return connection;
  } catch (const SQLite::Exception& exception) {
    return err(to_error(exception, file));
  }
}

Result<Statement> Connection::prepare(std::string_view sql) {
  auto place = impl_->statements.find(sql);
  if (place == impl_->statements.end()) {
    place = impl_->statements.try_emplace(std::string(sql)).first;
  }
  auto& kept = place->second;
  auto found = std::ranges::find_if(kept, [](const auto& entry) { return !entry->used; });
  if (found == kept.end()) {
    try {
      kept.push_back(
          std::make_unique<Statement::Entry>(impl_->database, std::string(sql), impl_->file));
    } catch (const SQLite::Exception& exception) {
      return err(to_error(exception, impl_->file));
    }
    found = std::prev(kept.end());
  }
  Statement::Entry& entry = **found;
  entry.used = true;
  entry.next = 1;
  entry.failed.reset();
  return Statement(&entry);
}

Status Connection::execute(const std::string& sql) {
  try {
    impl_->database.exec(sql);
    return {};
  } catch (const SQLite::Exception& exception) {
    return err(to_error(exception, impl_->file));
  }
}

Result<std::int64_t> Connection::number(std::string_view sql) {
  DIVVY_TRY(query, prepare(sql));
  DIVVY_TRY(row, query.step());
  return row ? query.integer(0) : 0;
}

bool Connection::in_transaction() const {
  return ::sqlite3_get_autocommit(impl_->database.getHandle()) == 0;
}

std::int64_t Connection::changes() const { return impl_->database.getChanges(); }

std::int64_t Connection::last_id() const { return impl_->database.getLastInsertRowid(); }

Status Connection::copy_from(Connection& from) {
  impl_->statements.clear();
  try {
    SQLite::Backup backup(impl_->database, from.impl_->database);
    const int code = backup.executeStep(-1);
    if (code != SQLITE_DONE) return err(to_error(code, "copying was not finished", impl_->file));
    return {};
  } catch (const SQLite::Exception& exception) {
    return err(to_error(exception, impl_->file));
  }
}

const std::filesystem::path& Connection::file() const { return impl_->file; }

}  // namespace divvy::store
