#include "store/database.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/log.h"
#include "base/trusted_path.h"
#include "store/migrations.h"

namespace divvy::store {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostIdle = 8;

class File {
 public:
  File(const fs::path& path, int flags) : fd_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {}
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

Error file_error(const fs::path& file, std::string_view what) {
  const int reason = errno;
  const bool denied = reason == EACCES || reason == EPERM || reason == EROFS || reason == ELOOP;
  return {denied             ? ErrorCode::kPermissionDenied
          : reason == ENOENT ? ErrorCode::kNotFound
          : reason == ENOSPC ? ErrorCode::kResourceExhausted
                             : ErrorCode::kIo,
          fmt::format("{} {}: {}{}", file.string(), what, std::strerror(reason),
                      denied ? fmt::format("; give it and its folder to uid {}, or name another "
                                           "folder with --state-dir",
                                           ::geteuid())
                             : "")};
}

Status sync_folder(const fs::path& file) {
  const fs::path folder = file.has_parent_path() ? file.parent_path() : fs::path(".");
  const File opened(folder, O_RDONLY | O_DIRECTORY);
  if (opened.fd() < 0 || ::fsync(opened.fd()) != 0) {
    return err(file_error(folder, "cannot be synced"));
  }
  return {};
}

// Before SQLite sees the file: it would make one that everybody may read, and the hashes of tokens
// are in it. Not later, because closing a descriptor of it would end the locks of SQLite.
Status prepare_file(const fs::path& file) {
  const File opened(file, O_RDWR | O_CREAT | O_NOFOLLOW);
  if (opened.fd() < 0) return err(file_error(file, "cannot be opened"));
  struct stat status{};
  if (::fstat(opened.fd(), &status) != 0) return err(file_error(file, "cannot be looked at"));
  if (!S_ISREG(status.st_mode)) {
    return err(ErrorCode::kPermissionDenied, "{} is no plain file; move it away", file.string());
  }
  if ((status.st_mode & 0177U) != 0) {
    if (::fchmod(opened.fd(), 0600) != 0) return err(file_error(file, "is open to others"));
    log_warning("database was open to others", {{"file", file.string()}});
  }
  return sync_folder(file);
}

Status check_pages(Connection& connection) {
  DIVVY_TRY(query, connection.prepare("PRAGMA quick_check(1)"));
  DIVVY_TRY(row, query.step());
  const std::string found = row ? query.text(0) : "no answer";
  if (found == "ok") return {};
  return err(ErrorCode::kDataLoss, "{} is damaged ({}); restore a backup",
             connection.file().string(), found);
}

Status use_wal(Connection& connection) {
  DIVVY_TRY(query, connection.prepare("PRAGMA journal_mode = WAL"));
  DIVVY_TRY(row, query.step());
  if (row && query.text(0) == "wal") return {};
  return err(ErrorCode::kUnsupported,
             "{} lies on a file system without shared memory or locks; put the state folder on a "
             "local disk",
             connection.file().string());
}

// The file and what SQLite keeps beside it.
void remove_all_of(const fs::path& file) {
  for (const char* end : {"", "-wal", "-shm", "-journal"}) {
    std::error_code ignored;
    fs::remove(file.string() + end, ignored);
  }
}

// A file of ours that is gone when we are done, unless it was moved.
class Scratch {
 public:
  explicit Scratch(fs::path path) : path_(std::move(path)) { remove_all_of(path_); }
  ~Scratch() { remove_all_of(path_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

Status write_copy(Connection& from, const fs::path& to) {
  DIVVY_RETURN_IF_ERROR(prepare_file(to));
  DIVVY_TRY(copy, Connection::open(to, Connection::Mode::kWrite));
  return copy.copy_from(from);
}

Status copy_bytes(const fs::path& from, const fs::path& to) {
  const File source(from, O_RDONLY);
  if (source.fd() < 0) return err(file_error(from, "cannot be read"));
  DIVVY_RETURN_IF_ERROR(prepare_file(to));
  std::error_code code;
  // Over a file that exists, whose mode stays.
  fs::copy_file(from, to, fs::copy_options::overwrite_existing, code);
  if (code) {
    return err(ErrorCode::kIo, "{} could not be copied: {}", from.string(), code.message());
  }
  if (::chmod(to.c_str(), 0600) != 0) return err(file_error(to, "is open to others"));
  return {};
}

}  // namespace

Result<std::unique_ptr<Database>> Database::open(const fs::path& file) {
  DIVVY_RETURN_IF_ERROR(prepare_file(file));
  DIVVY_TRY(connection, Connection::open(file, Connection::Mode::kWrite));
  DIVVY_RETURN_IF_ERROR(check_schema(connection));
  DIVVY_RETURN_IF_ERROR(check_pages(connection));
  DIVVY_RETURN_IF_ERROR(use_wal(connection));
  DIVVY_RETURN_IF_ERROR(migrate(connection));
  return std::unique_ptr<Database>(new Database(file, std::move(connection)));
}

Result<Connection> Database::begin_reading() {
  std::optional<Connection> connection;
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      connection.emplace(std::move(idle_.back()));
      idle_.pop_back();
    }
  }
  if (!connection) {
    DIVVY_TRY(opened, Connection::open(file_, Connection::Mode::kRead));
    connection.emplace(std::move(opened));
  }
  DIVVY_RETURN_IF_ERROR(connection->execute("BEGIN"));
  return *std::move(connection);
}

void Database::end_reading(Connection connection) {
  if (!connection.execute("COMMIT")) return;
  const std::lock_guard lock(mutex_);
  if (idle_.size() < kMostIdle) idle_.push_back(std::move(connection));
}

Status Database::backup(const fs::path& to) {
  // In a folder of others a link could stand where the copy is written.
  DIVVY_RETURN_IF_ERROR(with_context(check_trusted_folder(to.parent_path()), "the backup failed"));
  const Scratch scratch(to.string() + ".partial");
  DIVVY_TRY(connection, Connection::open(file_, Connection::Mode::kRead));
  DIVVY_RETURN_IF_ERROR(with_context(write_copy(connection, scratch.path()), "the backup failed"));
  {
    const File copy(scratch.path(), O_RDONLY);
    if (copy.fd() < 0 || ::fsync(copy.fd()) != 0) {
      return err(file_error(scratch.path(), "cannot be synced"));
    }
  }
  if (::rename(scratch.path().c_str(), to.c_str()) != 0) {
    return err(file_error(to, "cannot be put in place"));
  }
  return sync_folder(to);
}

Status Database::restore(const fs::path& from) {
  std::error_code ignored;
  if (const auto size = fs::file_size(from.string() + "-wal", ignored); !ignored && size > 0) {
    return err(ErrorCode::kFailedPrecondition,
               "{} is a database in use, not a backup of one; make a backup of it first",
               from.string());
  }
  // A copy of our own is brought to the newest schema: the backup stays as it was, for the next
  // time.
  const Scratch scratch(file_.string() + ".restore");
  DIVVY_RETURN_IF_ERROR(copy_bytes(from, scratch.path()));
  DIVVY_TRY(source, Connection::open(scratch.path(), Connection::Mode::kWrite));
  DIVVY_TRY(schema, with_context(check_schema(source), "the backup cannot be restored"));
  if (schema == 0) {
    return err(ErrorCode::kInvalidArgument, "{} is empty: no backup", from.string());
  }
  DIVVY_RETURN_IF_ERROR(with_context(check_pages(source), "the backup cannot be restored"));
  DIVVY_RETURN_IF_ERROR(migrate(source));
  return writer_.alone([&source](Connection& live) { return live.copy_from(source); });
}

Status Database::check() {
  return read([](Connection& connection) { return check_pages(connection); });
}

}  // namespace divvy::store
