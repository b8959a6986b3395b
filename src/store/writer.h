// The one that writes: a thread that takes changes from many callers and commits those that came
// meanwhile together, because a sync costs the same for one as for a hundred.
//
// commit() may be called from any thread but its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/result.h"
#include "store/connection.h"

namespace divvy::store {

// What is to be changed, as calls of the tables. It runs on the writer's thread inside a
// transaction, once; when it answers with an error, what it did is taken back, and nothing of the
// others'.
using Change = std::function<Status(Connection&)>;

class Writer {
 public:
  explicit Writer(Connection connection);
  // Commits what was handed in before.
  ~Writer();
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Returns when the change is on the disk, or with why it is not. On a full disk every change that
  // wanted to go together fails; those that come when there is space again do not.
  [[nodiscard]] Status commit(Change change);

  // For what nobody waits for (when a token was last used): goes with the next commit, or alone
  // after that. A failure is logged. Too many of them at once are dropped, and that is logged.
  void later(Change change);

  // On the writer's thread, outside of a transaction.
  [[nodiscard]] Status alone(Change change);

  struct Counts {
    std::uint64_t changes = 0;  // that were committed
    std::uint64_t syncs = 0;    // that it took
    std::size_t waiting = 0;    // just now
  };
  [[nodiscard]] Counts counts() const;

 private:
  enum class Kind { kTogether, kLater, kAlone };
  struct Pending {
    Change change;
    Kind kind = Kind::kTogether;
    Status outcome;
    bool done = false;
  };

  [[nodiscard]] Status submit(Change change, Kind kind);
  void work();
  // Runs the changes and commits them; afterwards every one has its outcome.
  void commit_together(const std::vector<std::shared_ptr<Pending>>& batch);
  [[nodiscard]] Status run_one(const Change& change);
  [[nodiscard]] Status run_in_savepoint(const Change& change);

  Connection connection_;
  mutable std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable finished_;
  std::deque<std::shared_ptr<Pending>> pending_;
  std::size_t later_ = 0;  // How many of those nobody waits for
  bool stopping_ = false;
  Counts counts_;
  std::thread thread_;  // Last: it uses all of the above
};

}  // namespace divvy::store
