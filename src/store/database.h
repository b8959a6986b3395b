// The store: one SQLite file that holds jobs, people, queues, usage and events. Opened by the
// daemon; everything may be called from any thread.
//
//   database->commit([&](Connection& connection) { return JobTable(connection).insert(job); });
//   auto page = database->read([&](Connection& connection) {
//     return JobTable(connection).list(filter);
//   });
//
// What commit() answered with success is on the disk: killed at any moment, or without power, it is
// there afterwards.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <vector>

#include "base/result.h"
#include "store/connection.h"
#include "store/writer.h"

namespace divvy::store {

class Database {
 public:
  // Makes the file where there is none (0600), checks it, and brings it to the newest schema.
  // kPermissionDenied, kDataLoss or kFailedPrecondition with one sentence that says what to do.
  [[nodiscard]] static Result<std::unique_ptr<Database>> open(const std::filesystem::path& file);

  [[nodiscard]] Status commit(Change change) { return writer_.commit(std::move(change)); }
  void later(Change change) { writer_.later(std::move(change)); }
  [[nodiscard]] Writer::Counts counts() const { return writer_.counts(); }

  // `look` sees the database as it is at one moment, while others write. It answers with a Result.
  template <typename Look>
  [[nodiscard]] auto read(const Look& look) -> std::invoke_result_t<Look, Connection&> {
    DIVVY_TRY(connection, begin_reading());
    auto found = look(connection);
    end_reading(std::move(connection));
    return found;
  }

  // A copy in one file (0600) of everything committed before the call, while others read and write.
  // What was at `to` is replaced when the copy is whole, and not before.
  [[nodiscard]] Status backup(const std::filesystem::path& to);

  // Makes the database what it was when `from` was made by backup(), in one step: either all of it,
  // also over a crash, or nothing. What others hold in memory is theirs to read anew.
  [[nodiscard]] Status restore(const std::filesystem::path& from);

  // Looks at every page. kDataLoss with what is wrong.
  [[nodiscard]] Status check();

  [[nodiscard]] const std::filesystem::path& file() const { return file_; }

 private:
  Database(std::filesystem::path file, Connection writing)
      : file_(std::move(file)), writer_(std::move(writing)) {}

  [[nodiscard]] Result<Connection> begin_reading();
  void end_reading(Connection connection);

  std::filesystem::path file_;
  std::mutex mutex_;
  std::vector<Connection> idle_;  // Readers that nobody uses just now; guarded by mutex_
  Writer writer_;
};

}  // namespace divvy::store
