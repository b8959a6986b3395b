// After the daemon was away: the store says what was to be, the slices and the members' folders
// what there is. They are compared by the names of members.
#include <signal.h>

#include <set>

#include "agent/waiting.h"
#include "base/log.h"
#include "control/dispatcher.h"
#include "jobs/array.h"
#include "store/job_table.h"

namespace divvy::control {
namespace {

constexpr std::chrono::seconds kLookAgain{1};
// For a machine to say what it has.
constexpr std::chrono::seconds kPatience{60};

struct Past {
  model::JobId next_id;
  std::vector<model::Job> jobs;
  std::vector<jobs::UsageRow> usage;
  std::vector<jobs::FinishedJob> finished;
};

Result<Past> read_past(store::Connection& connection, WallTime now, model::Seconds half_life) {
  Past past;
  store::JobTable table(connection);
  DIVVY_TRY(next_id, table.next_id());
  past.next_id = next_id;
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
Result<std::vector<model::MemberKey>> find_strangers(
    store::Connection& connection, const std::map<model::MemberKey, model::MemberReport>& members) {
  std::vector<model::MemberKey> strangers;
  for (const auto& [key, report] : members) {
    DIVVY_TRY(job, store::JobTable(connection).find(key.job));
    if (!job || job->attempt < key.attempt) strangers.push_back(key);
  }
  return strangers;
}

}  // namespace

Status Dispatcher::recover() {
  const WallTime now = parts_.clock.wall_now();
  DIVVY_TRY(past, parts_.database.read([&](store::Connection& connection) {
    return read_past(connection, now, parts_.settings.half_life);
  }));
  Members members;
  std::map<model::MemberKey, std::string> nodes;  // of those
  std::vector<Held> held;
  for (Machine& machine : machines_) {
    agent::Agent& agent = *parts_.agents.find(machine.node);
    DIVVY_TRY(listing, agent::ask_and_wait(agent, agent::ListOrder{}, kPatience));
    machine.state = std::move(listing.state);
    for (model::MemberReport& report : listing.members) {
      nodes.emplace(report.key, machine.node);
      members.emplace(report.key, std::move(report));
    }
    for (agent::HeldSlices& one : listing.held) held.push_back({machine.node, std::move(one)});
  }

  next_id_ = past.next_id;
  for (const Held& one : held) {
    // Of members the store knows; holders are told to both at once.
    if (one.slices.holder == model::Holder::kMembers) continue;
    next_id_ = std::max(next_id_, one.slices.key.job.next());
  }
  for (Held& one : held) {
    if (one.slices.key.job == model::JobId()) DIVVY_RETURN_IF_ERROR(adopt(one, past.jobs));
  }

  std::set<model::MemberKey> expected;
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
  for (const model::MemberKey& key : strangers) add_stray(key, nodes.at(key), Folder::kRemove);
  // Nobody waits for them any more.
  for (const auto& [key, report] : members) {
    if (expected.contains(key) || strays_.contains(key)) continue;
    if (report.phase == model::MemberPhase::kLiving) add_stray(key, nodes.at(key), Folder::kKeep);
  }
  // Of holders: nobody was told that they have it, or the store was put back to an earlier time.
  std::set<model::MemberKey> holding;
  for (Held& one : held) {
    const bool known = expected.contains(one.slices.key) || strays_.contains(one.slices.key);
    agent::Agent& agent = *parts_.agents.find(one.node);
    if (!known && !agent::ask_and_wait(agent, agent::ReleaseOrder{one.slices.key}, kPatience)) {
      if (one.slices.holder == model::Holder::kMembers) {
        add_stray(one.slices.key, one.node, Folder::kKeep);
      } else {
        // It uses its GPU, and nobody else is to be placed there.
        DIVVY_RETURN_IF_ERROR(adopt(one, past.jobs));
        steps_told_[one.slices.key.job] = past.jobs.back().history.size();
        books_[one.slices.key.job] = {now, 0};
      }
    }
    holding.insert(one.slices.key);
  }

  DIVVY_RETURN_IF_ERROR(queue_->set_fleet(fleet()));
  const std::vector<model::Job> jobs = past.jobs;
  DIVVY_RETURN_IF_ERROR(queue_->restore(std::move(past.jobs), past.usage, past.finished, now));
  for (const model::Job& job : jobs) {
    if (job.spec.holder != model::Holder::kMembers) {
      find_holder(job, holding, now);
    } else if (model::is_active(job.state)) {
      find_again(job, members, now);
    }
  }
  log_info("jobs found again", {{"jobs", jobs.size()}, {"members", expected.size()}});
  return {};
}

// Granted before everybody was a job.
Status Dispatcher::adopt(Held& one, std::vector<model::Job>& jobs) {
  agent::HeldSlices& held = one.slices;
  std::uint32_t share = 0;
  for (const model::Slice& slice : held.slices) share += slice.share().thousandths();
  DIVVY_TRY(request, model::Request::parse(to_string(Share(share))));
  model::JobSpec spec(std::move(request));
  spec.name = held.name;
  if (!held.command.empty()) spec.command = {held.command};
  spec.holder = held.holder;
  spec.job_class = held.job_class;
  spec.preemptible = false;
  const model::JobId id = std::exchange(next_id_, next_id_.next());
  model::Job job = jobs::expand(id, held.user, spec, held.since).front();
  DIVVY_RETURN_IF_ERROR(job.become(model::JobState::kStarting, held.since, "it ran before"));
  DIVVY_RETURN_IF_ERROR(job.become(model::JobState::kRunning, held.since, "started"));
  job.attempt = 1;
  job.members = {{0, one.node, held.slices, std::nullopt}};
  held.key = {id, job.attempt, 0};
  DIVVY_RETURN_IF_ERROR(parts_.database.commit(
      [&](store::Connection& connection) { return store::JobTable(connection).insert(job); }));
  DIVVY_RETURN_IF_ERROR(agent::ask_and_wait(*parts_.agents.find(one.node),
                                            agent::AdoptOrder{held.tenant, held.key}, kPatience));
  jobs.push_back(std::move(job));
  return {};
}

void Dispatcher::find_holder(const model::Job& job, const std::set<model::MemberKey>& holding,
                             WallTime now) {
  if (!model::is_active(job.state)) {
    // Whoever asked lost the connection with the daemon.
    const Status ended = queue_->cancel(job.id, "the restart of divvyd, while it waited", now);
    DIVVY_CHECK(ended.has_value(), "{}", ended.error().message);
    return;
  }
  const model::MemberKey key{job.id, job.attempt, 0};
  if (!holding.contains(key)) {
    gone_.push_back(key);
  } else if (job.state == model::JobState::kStarting) {
    queue_->member_started(job.id, job.attempt, key.rank, now);
  }
}

void Dispatcher::find_again(const model::Job& job, const Members& members, WallTime now) {
  if (job.state == model::JobState::kStarting) {
    // What was started is found by the start itself.
    std::vector<model::JobMember> open = job.members;
    std::erase_if(open, [](const model::JobMember& member) { return member.end.has_value(); });
    deferred_.emplace(job.id, DeferredStart{job, std::move(open), now});
    return;
  }
  for (const model::JobMember& member : job.members) {
    if (!member.end) find_member(job, member, members, now);
  }
}

void Dispatcher::find_member(const model::Job& job, const model::JobMember& member,
                             const Members& members, WallTime now) {
  const model::MemberKey key{job.id, job.attempt, member.rank};
  const auto known = members.find(key);
  if (known == members.end()) {
    // One that is being stopped is looked at when it is told once more.
    if (job.state == model::JobState::kRunning)
      doubtful_.emplace(key, Doubtful{member.node, now, {}});
  } else if (known->second.end) {
    ended_.emplace(key, Ended{member.node, *known->second.end});
  }
}

void Dispatcher::look_at_doubtful(WallTime now) {
  std::vector<std::pair<model::MemberKey, Doubtful>> due;
  for (auto it = doubtful_.begin(); it != doubtful_.end();) {
    if (it->second.due > now) {
      ++it;
      continue;
    }
    due.emplace_back(it->first, std::move(it->second));
    it = doubtful_.erase(it);
  }
  for (auto& [key, doubt] : due) lines_.add(key.job, look_at(key, doubt.node, doubt.why));
}

// Of a job that runs, as the store has it.
Task Dispatcher::look_at(model::MemberKey key, std::string node, std::string why) {
  const auto found = co_await ask(node, agent::FindOrder{key});
  const WallTime now = parts_.clock.wall_now();
  if (!found) {
    // An error is no end: its job would be started a second time beside it.
    log_error("member cannot be looked at; it is tried again",
              {{"member", to_string(key)}, {"reason", found.error().message}});
    doubtful_.insert_or_assign(key, Doubtful{node, now + kLookAgain, why});
  } else if (!found->report) {
    model::MemberEnd end{now, 0, SIGKILL, "its folder is gone"};
    if (!why.empty()) end = {now, 125, 0, why};
    ended_.emplace(key, Ended{node, std::move(end)});
  } else if (found->report->end) {
    ended_.emplace(key, Ended{node, *found->report->end});
  }
}

}  // namespace divvy::control
