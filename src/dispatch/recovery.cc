// After the daemon was away: the store says what was to be, the slices and the members' folders
// what there is. They are compared by the names of members.
#include <signal.h>

#include <set>

#include "base/log.h"
#include "dispatch/dispatcher.h"
#include "store/job_table.h"

namespace divvy::dispatch {
namespace {

// Its shepherd kills at once, but a busy machine may take a while.
constexpr std::chrono::seconds kClearWithin{20};

struct Past {
  std::vector<model::Job> jobs;
  std::vector<jobs::UsageRow> usage;
  std::vector<jobs::FinishedJob> finished;
};

Result<Past> read_past(store::Connection& connection, WallTime now, model::Seconds half_life) {
  Past past;
  store::JobTable table(connection);
  DIVVY_TRY(unfinished, table.unfinished());
  past.jobs = std::move(unfinished);
  std::set<model::JobId> wanted;
  for (const model::Job& job : past.jobs) {
    for (const model::Dependency& dependency : job.spec.after) wanted.insert(dependency.job);
  }
  for (const model::JobId id : wanted) {
    DIVVY_TRY(job, table.find(id));
    if (!job || !model::is_finished(job->state)) continue;
    past.finished.push_back(
        {id, job->task ? std::optional(job->task->array) : std::nullopt, job->state});
  }
  // What is older counts for less than a thousandth.
  store::UsageFilter filter;
  filter.since = now - 10 * half_life;
  DIVVY_TRY(rows, store::UsageTable(connection).rows(filter));
  for (const store::UsageRow& row : rows) {
    past.usage.push_back({row.queue, row.owner, static_cast<double>(row.held), row.from});
  }
  return past;
}

// Members of attempts that never were, as the store has it: it was put back to an earlier time, or
// jobs were pruned and their output was not.
Result<std::vector<run::MemberKey>> find_strangers(
    store::Connection& connection, const std::map<run::MemberKey, run::MemberReport>& members) {
  std::vector<run::MemberKey> strangers;
  for (const auto& [key, report] : members) {
    DIVVY_TRY(job, store::JobTable(connection).find(key.job));
    if (!job || job->attempt < key.attempt) strangers.push_back(key);
  }
  return strangers;
}

}  // namespace

// Ends it where it lives, and leaves nothing of it.
Status Dispatcher::clear(const run::MemberKey& key) {
  const auto until = std::chrono::steady_clock::now() + kClearWithin;
  log_warning("member of no job is ended", {{"member", to_string(key)}});
  for (;;) {
    const auto report = parts_.runtime.find(key);
    if (!report) return {};
    if (report->phase == run::MemberPhase::kLiving) {
      DIVVY_CHECK_OK(parts_.runtime.stop(key, std::chrono::seconds(0)));
    } else if (parts_.runtime.forget(key)) {
      return {};
    }
    if (std::chrono::steady_clock::now() > until) {
      return err(ErrorCode::kTimeout, "member {} of an earlier time does not end", to_string(key));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

Status Dispatcher::recover() {
  const WallTime now = parts_.clock.wall_now();
  DIVVY_TRY(past, parts_.database.read([&](store::Connection& connection) {
    return read_past(connection, now, parts_.settings.half_life);
  }));
  DIVVY_TRY(found, parts_.runtime.find());
  std::map<run::MemberKey, run::MemberReport> members;
  for (run::MemberReport& report : found) members.emplace(report.key, std::move(report));

  std::set<run::MemberKey> expected;
  for (const model::Job& job : past.jobs) {
    steps_told_[job.id] = job.history.size();
    if (!model::is_active(job.state)) continue;
    books_[job.id] = {now, 0};
    for (const model::JobMember& member : job.members) {
      if (!member.end) expected.insert({job.id, job.attempt, member.rank});
    }
  }
  // Numbers that the store does not know will be given again.
  DIVVY_TRY(strangers, parts_.database.read([&](store::Connection& connection) {
    return find_strangers(connection, members);
  }));
  for (const run::MemberKey& key : strangers) {
    DIVVY_CHECK_OK(clear(key));
    members.erase(key);
  }
  // Nobody waits for them any more.
  for (const auto& [key, report] : members) {
    if (expected.contains(key) || report.phase != run::MemberPhase::kLiving) continue;
    log_warning("member of no job is ended", {{"member", to_string(key)}});
    DIVVY_CHECK_OK(parts_.runtime.stop(key, std::chrono::seconds(0)));
  }
  for (const run::MemberKey& key : parts_.machine.held()) {
    if (expected.contains(key)) continue;
    if (const Status released = parts_.machine.release(key); !released) {
      // Its member was just told to end: it follows.
      ended_.emplace(key, model::MemberEnd{});
    }
  }

  DIVVY_CHECK_OK(queue_->set_fleet(parts_.machine.fleet()));
  const std::vector<model::Job> jobs = past.jobs;
  DIVVY_CHECK_OK(queue_->restore(std::move(past.jobs), past.usage, past.finished, now));
  for (const model::Job& job : jobs) {
    if (!model::is_active(job.state)) continue;
    bool all_started = true;
    for (const model::JobMember& member : job.members) {
      if (member.end) continue;
      const run::MemberKey key{job.id, job.attempt, member.rank};
      const auto report = find_started(key);
      if (!report) {
        all_started = false;
      } else if (report->end) {
        ended_.emplace(key, *report->end);
      }
      if (!report && job.state == model::JobState::kRunning) {
        ended_.emplace(key, model::MemberEnd{now, 0, SIGKILL, "its folder is gone"});
      }
    }
    if (job.state != model::JobState::kStarting) continue;
    if (all_started) {
      for (const model::JobMember& member : job.members) {
        queue_->member_started(job.id, job.attempt, member.rank, now);
      }
    } else {
      tasks_->add(job.id, [this, job] { start(job, job.members); });
    }
  }
  log_info("jobs found again", {{"jobs", jobs.size()}, {"members", expected.size()}});
  return {};
}

}  // namespace divvy::dispatch
