// Members that no attempt of a job waits for: of an older attempt, of a start that was refused, or
// of a job that the store does not know. They are ended, for as long as that takes, and meanwhile
// no attempt of their job starts.
#include "base/log.h"
#include "control/dispatcher.h"

namespace divvy::control {
namespace {

constexpr std::chrono::seconds kEndAgain{5};

bool lives(const agent::Found& found) {
  return found.report && found.report->phase == model::MemberPhase::kLiving;
}

}  // namespace

void Dispatcher::add_stray(const model::MemberKey& key, const std::string& node, Folder folder) {
  log_warning("member of no job is ended", {{"member", to_string(key)}});
  strays_.insert_or_assign(key, Stray{node, folder, false, {}});
}

bool Dispatcher::has_strays(model::JobId job) const {
  const auto first = strays_.lower_bound({job, 0, 0});
  return first != strays_.end() && first->first.job == job;
}

void Dispatcher::end_strays(WallTime now) {
  std::vector<model::MemberKey> due;
  for (auto& [key, stray] : strays_) {
    if (stray.busy || stray.due > now) continue;
    stray.busy = true;
    stray.due = now + kEndAgain;
    due.push_back(key);
  }
  for (const model::MemberKey& key : due) {
    const Stray& stray = strays_.at(key);
    lines_.add(key.job, end_stray(key, stray.node, stray.folder));
  }
}

Task Dispatcher::end_stray(model::MemberKey key, std::string node, Folder folder) {
  auto found = co_await ask(node, agent::FindOrder{key});
  Status ended = found ? Status() : Status(err(found.error()));
  if (ended && lives(*found)) {
    const auto told = co_await ask(node, agent::StopOrder{key, model::Seconds(0)});
    if (!told) ended = err(told.error());
    if (ended) {
      auto again = co_await ask(node, agent::FindOrder{key});
      if (!again) ended = err(again.error());
      if (ended) found = std::move(again);
    }
    if (ended && lives(*found)) {
      ended = err(ErrorCode::kUnavailable, "it was told to end and lives");
    }
  }
  if (ended) {
    const auto released = co_await ask(node, agent::ReleaseOrder{key});
    if (!released) ended = err(released.error());
  }
  if (ended && found->report && folder == Folder::kRemove) {
    const auto forgotten = co_await ask(node, agent::ForgetOrder{key});
    if (!forgotten) ended = err(forgotten.error());
  }
  stray_ended(key, ended);
}

void Dispatcher::stray_ended(const model::MemberKey& key, const Status& ended) {
  const auto stray = strays_.find(key);
  stray->second.busy = false;
  if (ended) {
    strays_.erase(stray);
  } else {
    log_warning("member of no job has not ended; it is tried again",
                {{"member", to_string(key)}, {"reason", ended.error().message}});
  }
  if (has_strays(key.job)) return;
  if (const auto refused = refused_.extract(key.job)) {
    tell_refused(key.job, refused.mapped().attempt, refused.mapped().why);
  }
}

}  // namespace divvy::control
