#include "control/retention.h"

#include <algorithm>

#include "agent/waiting.h"
#include "base/log.h"
#include "store/job_table.h"

namespace divvy::control {
namespace {

using namespace std::chrono_literals;

// Of one step: a change of the store that takes milliseconds.
constexpr std::uint32_t kStep = 50;
// Between two steps of a long clean-up, for everybody else.
constexpr auto kPause = 100ms;
constexpr auto kLookEvery = 10min;
// For a machine to answer.
constexpr auto kPatience = 30s;

struct OldJob {
  model::JobId id;
  std::vector<store::JobTable::MemberName> members;
};

}  // namespace

Retention::Retention(store::Database& database, const agent::Agents& agents, const Clock& clock,
                     Rules rules)
    : database_(database), agents_(agents), clock_(clock), rules_(rules) {}

Retention::~Retention() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Retention::begin() {
  thread_ = std::thread([this] { run(); });
}

void Retention::set_rules(Rules rules) {
  {
    const std::lock_guard lock(mutex_);
    rules_ = rules;
    look_now_ = true;
  }
  changed_.notify_all();
}

Retention::Rules Retention::rules() const {
  const std::lock_guard lock(mutex_);
  return rules_;
}

void Retention::run() {
  for (;;) {
    const auto removed = step();
    if (!removed) log_warning("old jobs not removed", {{"reason", removed.error().message}});
    if (removed && *removed > 0) log_info("old jobs or their output removed", {{"jobs", *removed}});
    std::unique_lock lock(mutex_);
    const auto patience = removed && *removed > 0 ? std::chrono::milliseconds(kPause) : kLookEvery;
    changed_.wait_for(lock, patience, [this] { return stopping_ || look_now_; });
    if (stopping_) return;
    look_now_ = false;
  }
}

Result<std::size_t> Retention::step() {
  const Rules now = rules();
  DIVVY_TRY(jobs, remove_jobs(now));
  if (jobs > 0) return jobs;
  return remove_logs(now);
}

// The machine that had it is not written anywhere once a job is old, so each is asked.
Status Retention::forget(const model::MemberKey& key) {
  for (agent::Agent* const agent : agents_.all()) {
    DIVVY_RETURN_IF_ERROR(agent::ask_and_wait(*agent, agent::ForgetOrder{key}, kPatience));
  }
  return {};
}

Result<std::size_t> Retention::remove_jobs(const Rules& rules) {
  if (rules.keep == model::Seconds(0) && rules.most_jobs == 0) return 0;
  WallTime before = WallTime::min();
  DIVVY_TRY(old, database_.read([&](store::Connection& connection) -> Result<std::vector<OldJob>> {
    store::JobTable table(connection);
    if (rules.keep > model::Seconds(0)) before = clock_.wall_now() - rules.keep;
    if (rules.most_jobs > 0) {
      DIVVY_TRY(end, table.end_behind(rules.most_jobs));
      if (end) before = std::max(before, *end + Duration(1));
    }
    DIVVY_TRY(ids, table.old_jobs(before, std::nullopt, kStep));
    std::vector<OldJob> jobs;
    for (const model::JobId id : ids) {
      DIVVY_TRY(members, table.member_names(id));
      jobs.push_back({id, std::move(members)});
    }
    return jobs;
  }));
  std::vector<model::JobId> bare;  // have no output any more
  for (const OldJob& job : old) {
    Status gone;
    for (const auto& member : job.members) {
      if (gone) gone = forget({job.id, member.attempt, member.rank});
    }
    if (gone) {
      bare.push_back(job.id);
    } else {
      log_warning("output not removed",
                  {{"job", job.id.value()}, {"reason", gone.error().message}});
    }
  }
  if (bare.empty()) return 0;
  std::size_t removed = 0;
  const Status kept = database_.commit([&](store::Connection& connection) -> Status {
    store::JobTable table(connection);
    // Somebody may have come to wait for one of them.
    DIVVY_TRY(still, table.old_jobs(before, std::nullopt, kStep));
    removed = 0;
    for (const model::JobId id : bare) {
      if (std::ranges::find(still, id) == still.end()) continue;
      DIVVY_RETURN_IF_ERROR(table.remove(id));
      ++removed;
    }
    return {};
  });
  if (!kept) return err(kept.error());
  return removed;
}

Result<std::size_t> Retention::remove_logs(const Rules& rules) {
  if (rules.most_logs == Bytes(0)) return 0;
  std::map<model::MemberKey, Bytes> sizes;
  for (agent::Agent* const agent : agents_.all()) {
    DIVVY_TRY(some, agent::ask_and_wait(*agent, agent::OutputSizesOrder{}, kPatience));
    sizes.merge(some.members);
  }
  DIVVY_TRY(ended, database_.read([](store::Connection& connection) {
    return store::JobTable(connection).ended();
  }));
  const auto members_of = [&sizes](model::JobId job) {
    return std::pair(sizes.lower_bound({job, 0, 0}),
                     sizes.lower_bound({model::JobId(job.value() + 1), 0, 0}));
  };
  std::uint64_t total = 0;
  for (const model::JobId job : ended) {
    const auto [first, last] = members_of(job);
    for (auto member = first; member != last; ++member) total += member->second.count();
  }
  std::size_t removed = 0;
  for (const model::JobId job : ended) {
    if (total <= rules.most_logs.count() || removed == kStep) break;
    const auto [first, last] = members_of(job);
    bool any = false;
    for (auto member = first; member != last; ++member) {
      if (const Status gone = forget(member->first); !gone) {
        log_warning("output not removed",
                    {{"member", to_string(member->first)}, {"reason", gone.error().message}});
        continue;
      }
      total -= member->second.count();
      any = true;
    }
    if (any) ++removed;
  }
  return removed;
}

}  // namespace divvy::control
