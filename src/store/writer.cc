#include "store/writer.h"

#include <utility>

#include "base/check.h"
#include "base/log.h"

namespace divvy::store {
namespace {

// More would make the first of them wait long for the last.
constexpr std::size_t kMostTogether = 1000;
constexpr std::size_t kMostLater = 10'000;

}  // namespace

Writer::Writer(Connection connection)
    : connection_(std::move(connection)), thread_([this] { work(); }) {}

Writer::~Writer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_all();
  thread_.join();
}

Status Writer::commit(Change change) { return submit(std::move(change), Kind::kTogether); }

Status Writer::alone(Change change) { return submit(std::move(change), Kind::kAlone); }

Status Writer::submit(Change change, Kind kind) {
  DIVVY_CHECK(std::this_thread::get_id() != thread_.get_id(),
              "a change asked for another change and would wait for itself");
  const auto mine = std::make_shared<Pending>(Pending{std::move(change), kind, {}, false});
  std::unique_lock lock(mutex_);
  pending_.push_back(mine);
  arrived_.notify_one();
  finished_.wait(lock, [&mine] { return mine->done; });
  return mine->outcome;
}

void Writer::later(Change change) {
  {
    const std::lock_guard lock(mutex_);
    if (later_ >= kMostLater) {
      log_warning("change dropped", {{"reason", "too many wait for the disk"}});
      return;
    }
    ++later_;
    pending_.push_back(
        std::make_shared<Pending>(Pending{std::move(change), Kind::kLater, {}, false}));
  }
  arrived_.notify_one();
}

Writer::Counts Writer::counts() const {
  const std::lock_guard lock(mutex_);
  Counts counts = counts_;
  counts.waiting = pending_.size();
  return counts;
}

void Writer::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    arrived_.wait(lock, [this] { return stopping_ || !pending_.empty(); });
    if (pending_.empty()) return;

    std::vector<std::shared_ptr<Pending>> batch;
    while (!pending_.empty() && batch.size() < kMostTogether) {
      const bool alone = pending_.front()->kind == Kind::kAlone;
      if (alone && !batch.empty()) break;
      batch.push_back(pending_.front());
      pending_.pop_front();
      if (alone) break;
    }
    lock.unlock();
    if (batch.front()->kind == Kind::kAlone) {
      batch.front()->outcome = run_one(batch.front()->change);
    } else {
      commit_together(batch);
    }
    lock.lock();

    bool any = false;
    for (const auto& one : batch) {
      if (one->outcome) {
        ++counts_.changes;
        any = true;
      }
      if (one->kind == Kind::kLater) {
        --later_;
        if (!one->outcome) {
          log_warning("change not written", {{"reason", one->outcome.error().message}});
        }
      }
      one->done = true;
    }
    if (any) ++counts_.syncs;
    finished_.notify_all();
  }
}

Status Writer::run_one(const Change& change) {
  try {
    return change(connection_);
  } catch (const std::exception& error) {
    return err(ErrorCode::kInternal, "a change of the database failed: {}", error.what());
  }
}

Status Writer::run_in_savepoint(const Change& change) {
  DIVVY_RETURN_IF_ERROR(connection_.execute("SAVEPOINT one"));
  Status done = run_one(change);
  if (!done) {
    // After some errors SQLite has taken back everything, savepoints too; commit_together() sees.
    if (connection_.in_transaction()) {
      DIVVY_RETURN_IF_ERROR(connection_.execute("ROLLBACK TO one; RELEASE one"));
    }
    return done;
  }
  return connection_.execute("RELEASE one");
}

void Writer::commit_together(const std::vector<std::shared_ptr<Pending>>& batch) {
  Status all = connection_.execute("BEGIN IMMEDIATE");
  if (all) {
    for (const auto& one : batch) {
      one->outcome = run_in_savepoint(one->change);
      if (!connection_.in_transaction()) {
        all = one->outcome ? err(ErrorCode::kInternal, "a change ended the transaction of others")
                           : one->outcome;
        break;
      }
    }
  }
  if (all) all = connection_.execute("COMMIT");
  if (all) return;
  // Nothing of what was done is there, so nobody is told that it is; whoever failed alone keeps
  // their own reason.
  if (connection_.in_transaction()) (void)connection_.execute("ROLLBACK");
  for (const auto& one : batch) {
    if (one->outcome) one->outcome = all;
  }
}

}  // namespace divvy::store
