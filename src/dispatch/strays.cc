// Members that no attempt of a job waits for: of an older attempt, of a start that was refused, or
// of a job that the store does not know. They are ended, for as long as that takes, and meanwhile
// no attempt of their job starts.
#include "base/log.h"
#include "dispatch/dispatcher.h"

namespace divvy::dispatch {
namespace {

constexpr std::chrono::seconds kEndAgain{5};

}  // namespace

void Dispatcher::add_stray(const run::MemberKey& key, Folder folder) {
  log_warning("member of no job is ended", {{"member", to_string(key)}});
  strays_.insert_or_assign(key, Stray{folder, false, {}});
}

bool Dispatcher::has_strays(model::JobId job) const {
  const auto first = strays_.lower_bound({job, 0, 0});
  return first != strays_.end() && first->first.job == job;
}

void Dispatcher::end_strays(WallTime now) {
  for (auto& [key, stray] : strays_) {
    if (stray.busy || stray.due > now) continue;
    stray.busy = true;
    stray.due = now + kEndAgain;
    tasks_->add(key.job, JobTasks::Kind::kEnd,
                [this, member = key, folder = stray.folder] { end_stray(member, folder); });
  }
}

void Dispatcher::end_stray(const run::MemberKey& key, Folder folder) {
  const Status ended = try_to_end(key, folder);
  {
    const std::lock_guard lock(mutex_);
    const auto stray = strays_.find(key);
    stray->second.busy = false;
    if (ended) {
      strays_.erase(stray);
    } else {
      log_warning("member of no job has not ended; it is tried again",
                  {{"member", to_string(key)}, {"reason", ended.error().message}});
    }
    if (!has_strays(key.job)) {
      if (const auto refused = refused_.extract(key.job)) {
        tell_refused(key.job, refused.mapped().attempt, refused.mapped().why);
      }
    }
  }
  wake();
}

Status Dispatcher::try_to_end(const run::MemberKey& key, Folder folder) {
  auto report = parts_.runtime.find(key);
  if (report && report->phase == run::MemberPhase::kLiving) {
    DIVVY_CHECK_OK(parts_.runtime.stop(key, std::chrono::seconds(0)));
    report = parts_.runtime.find(key);
  }
  if (!report && report.error().code != ErrorCode::kNotFound) return err(report.error());
  if (report && report->phase == run::MemberPhase::kLiving) {
    return err(ErrorCode::kUnavailable, "it was told to end and lives");
  }
  DIVVY_CHECK_OK(parts_.machine.release(key));
  if (report && folder == Folder::kRemove) return parts_.runtime.forget(key);
  return {};
}

}  // namespace divvy::dispatch
