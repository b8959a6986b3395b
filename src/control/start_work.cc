// Starting and ending the members of a job: slices for all members first, then the members.
// Whatever becomes of it, the queue hears of every member.
#include "base/log.h"
#include "base/text.h"
#include "control/dispatcher.h"
#include "control/user_names.h"

namespace divvy::control {
namespace {

// As `podman run` says when it is podman that failed, and not the command.
constexpr int kNotStarted = 125;
constexpr std::chrono::seconds kStopAgain{5};
constexpr std::chrono::seconds kLookAgain{1};

model::MemberKey key_of(const model::Job& job, const model::JobMember& member) {
  return {job.id, job.attempt, member.rank};
}

std::string command_text(const std::vector<std::string>& command) {
  std::string text;
  for (const std::string& word : command) text += (text.empty() ? "" : " ") + word;
  return text.substr(0, 200);
}

agent::GrantOrder grant_order(const model::Job& job, const model::JobMember& member,
                              const agent::UserName& user) {
  agent::GrantOrder order{.key = key_of(job, member)};
  order.slices = member.slices;
  order.mode = job.spec.mode.value_or(model::GpuMode::kTimeslice);
  order.job_class = job.spec.job_class;
  order.command = command_text(job.spec.command);
  order.user = user;
  return order;
}

template <typename Answer>
std::optional<Error> first_error(const std::vector<Result<Answer>>& replies) {
  for (const auto& reply : replies) {
    if (!reply) return reply.error();
  }
  return std::nullopt;
}

// The same order for each of these members, to its machine.
template <typename One>
std::vector<std::pair<std::string, One>> to_each(const model::Job& job,
                                                 const std::vector<model::JobMember>& members) {
  std::vector<std::pair<std::string, One>> orders;
  orders.reserve(members.size());
  for (const model::JobMember& member : members) {
    orders.emplace_back(member.node, One{key_of(job, member)});
  }
  return orders;
}

}  // namespace

// Awaited: reads the store on a thread of its own, because the store may be slow.
class Dispatcher::ReadOwner {
 public:
  ReadOwner(Dispatcher& dispatcher, std::string name, std::map<std::string, std::string> secrets)
      : dispatcher_(dispatcher), name_(std::move(name)), secrets_(std::move(secrets)) {}
  [[nodiscard]] bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) {
    dispatcher_.replies_->expect();
    dispatcher_.aside_->add(agent::Work::kStart, [this, waiting, box = dispatcher_.replies_] {
      auto owner = read();
      box->deliver([&] {
        owner_ = std::move(owner);
        waiting.resume();
      });
    });
  }
  Result<Owner> await_resume() { return *std::move(owner_); }

 private:
  [[nodiscard]] Result<Owner> read() const {
    const Parts& parts = dispatcher_.parts_;
    DIVVY_TRY(user, user_name_of(parts.database, name_));
    if (secrets_.empty()) return Owner{std::move(user), {}};
    if (parts.secrets == nullptr) {
      return err(ErrorCode::kFailedPrecondition, "secrets: this daemon keeps none");
    }
    DIVVY_TRY(values, parts.secrets->open(name_, secrets_));
    return Owner{std::move(user), std::move(values)};
  }

  Dispatcher& dispatcher_;
  std::string name_;
  std::map<std::string, std::string> secrets_;
  std::optional<Result<Owner>> owner_;
};

Dispatcher::ReadOwner Dispatcher::read_owner(const model::Job& job) {
  return {*this, job.owner, job.spec.secrets};
}

void Dispatcher::start_deferred(WallTime now) {
  std::vector<DeferredStart> due;
  for (auto it = deferred_.begin(); it != deferred_.end();) {
    DeferredStart& wanted = it->second;
    const model::Job* job = queue_->find(it->first);
    const bool is_starting = job != nullptr && job->attempt == wanted.job.attempt &&
                             job->state == model::JobState::kStarting;
    if (is_starting && (wanted.due > now || has_strays(it->first))) {
      ++it;
      continue;
    }
    if (is_starting) due.push_back(std::move(wanted));
    it = deferred_.erase(it);
  }
  for (DeferredStart& wanted : due) {
    const model::JobId id = wanted.job.id;
    lines_.add(id, start(std::move(wanted)));
  }
}

// May be done again after a crash: members that were started are left alone.
Task Dispatcher::start(DeferredStart wanted) {
  const model::Job job = wanted.job;
  std::vector<model::JobMember> members;
  std::vector<Where> living;
  std::vector<std::pair<std::string, agent::ForgetOrder>> never_ran;
  std::optional<Error> unknown;
  const auto found = co_await ask_all(to_each<agent::FindOrder>(job, wanted.members));
  for (std::size_t i = 0; i < found.size(); ++i) {
    const model::JobMember& member = wanted.members[i];
    const model::MemberKey key = key_of(job, member);
    if (!found[i]) {
      unknown = found[i].error();
      break;
    }
    const std::optional<model::MemberReport>& report = found[i]->report;
    if (!report) {
      members.push_back(member);
    } else if (report->phase == model::MemberPhase::kLost && !report->begun) {
      // Nothing but the beginning of a start. A shepherd that comes late may still look into the
      // folder before it sees that it is too late.
      never_ran.emplace_back(member.node, agent::ForgetOrder{key});
      members.push_back(member);
    } else if (report->end) {
      ended_.emplace(key, Ended{member.node, *report->end});
    } else {
      living.push_back({key, member.node});
    }
  }
  if (!unknown) {
    const auto forgotten = co_await ask_all(std::move(never_ran));
    unknown = first_error(forgotten);
  }
  if (unknown) {
    // Whether they run is not known: to start one might be to start it twice.
    log_error("members cannot be looked at; their start is tried again",
              {{"job", job.id.value()}, {"reason", unknown->message}});
    const WallTime due = parts_.clock.wall_now() + kLookAgain;
    deferred_.insert_or_assign(job.id, DeferredStart{job, wanted.members, due});
    co_return;
  }
  // Slices of an interrupted start may be there: they are given anew, with what belongs to them.
  const auto cleared = co_await ask_all(to_each<agent::ReleaseOrder>(job, members));
  const auto owner = co_await read_owner(job);
  std::optional<Error> refused = first_error(cleared);
  std::vector<Result<agent::Granted>> granted;
  if (!owner) refused = owner.error();
  if (!refused) {
    std::vector<std::pair<std::string, agent::GrantOrder>> grants;
    grants.reserve(members.size());
    for (const model::JobMember& member : members) {
      grants.emplace_back(member.node, grant_order(job, member, owner->user));
    }
    granted = co_await ask_all(std::move(grants));
    refused = first_error(granted);
  }
  if (refused) {
    const auto released = co_await ask_all(to_each<agent::ReleaseOrder>(job, members));
    for (std::size_t i = 0; i < released.size(); ++i) {
      // Nobody knows what it holds: it is looked after until that is nothing.
      if (released[i]) continue;
      add_stray(key_of(job, members[i]), members[i].node, Folder::kKeep);
    }
    refuse_start(job, *refused, living);
    co_return;
  }
  std::vector<std::pair<std::string, agent::StartOrder>> starts;
  const std::vector<std::string> hosts = hosts_of(job);
  for (std::size_t i = 0; i < members.size(); ++i) {
    agent::StartOrder order(key_of(job, members[i]), job.spec);
    order.user = owner->user;
    order.secrets = owner->secrets;
    order.task = job.task;
    order.hosts = hosts;
    order.slice = *std::move(granted[i]);
    starts.emplace_back(members[i].node, std::move(order));
  }
  const auto started = co_await ask_all(std::move(starts));
  for (std::size_t i = 0; i < started.size(); ++i) {
    if (started[i]) continue;
    tell_not_started(key_of(job, members[i]), members[i].node, started[i].error());
  }
  // Those of before the crash count, too.
  const WallTime now = parts_.clock.wall_now();
  for (const model::JobMember& member : job.members) {
    queue_->member_started(job.id, job.attempt, member.rank, now);
  }
  ++changes_;
}

void Dispatcher::tell_not_started(const model::MemberKey& key, const std::string& node,
                                  const Error& why) {
  if (why.code == ErrorCode::kAlreadyExists) return;
  const std::string reason = "it could not be started: " + why.message;
  const WallTime now = parts_.clock.wall_now();
  if (why.code == ErrorCode::kUnavailable) {
    // Nobody knows whether it runs.
    doubtful_.insert_or_assign(key, Doubtful{node, now + kLookAgain, reason});
    return;
  }
  model::MemberEnd end;
  end.at = now;
  end.exit_code = kNotStarted;
  end.reason = reason;
  ended_.emplace(key, Ended{node, std::move(end)});
}

void Dispatcher::refuse_start(const model::Job& job, const Error& why,
                              const std::vector<Where>& living) {
  if (living.empty()) {
    tell_refused(job.id, job.attempt, why);
    return;
  }
  // Members of before the crash: the job waits in the queue again when they have ended, or the next
  // attempt would run beside this one.
  for (const Where& member : living) add_stray(member.key, member.node, Folder::kKeep);
  refused_.insert_or_assign(job.id, RefusedStart{job.attempt, why});
}

void Dispatcher::tell_refused(model::JobId job, std::uint32_t attempt, const Error& why) {
  const WallTime now = parts_.clock.wall_now();
  // A machine that does not answer is no failure of the job.
  if (why.code == ErrorCode::kResourceExhausted || why.code == ErrorCode::kUnavailable) {
    queue_->start_refused(job, attempt, why.message, now);
  } else {
    queue_->start_failed(job, attempt, why.message, now);
  }
  books_.erase(job);
  ++changes_;
}

void Dispatcher::add_stop(model::JobId job, std::uint32_t attempt, model::Seconds grace) {
  const model::Job* const known = queue_->find(job);
  const bool held_by_others = known != nullptr && known->spec.holder != model::Holder::kMembers;
  lines_.add(job, held_by_others ? stop_holder(job, attempt, grace) : stop(job, attempt, grace));
}

std::vector<Dispatcher::Where> Dispatcher::members_to_stop(const model::Job& job,
                                                           const model::MemberEnd& not_started) {
  std::vector<Where> members;
  for (const model::JobMember& member : job.members) {
    if (member.end) continue;
    const model::MemberKey key = key_of(job, member);
    // Where there is a stray of this name the start was put off, or refused.
    if (strays_.contains(key)) {
      ended_.emplace(key, Ended{member.node, not_started});
    } else {
      members.push_back({key, member.node});
    }
  }
  return members;
}

void Dispatcher::stop_later(model::JobId job, std::uint32_t attempt, model::Seconds grace,
                            const Where& member, const Error& why) {
  log_error("member not told to end; it is tried again",
            {{"member", to_string(member.key)}, {"reason", why.message}});
  untold_[job] = {attempt, grace, parts_.clock.wall_now() + kStopAgain};
}

Task Dispatcher::stop(model::JobId job, std::uint32_t attempt, model::Seconds grace) {
  const model::Job* const known = queue_->find(job);
  if (known == nullptr || known->attempt != attempt) co_return;
  model::MemberEnd not_started;
  not_started.at = parts_.clock.wall_now();
  not_started.exit_code = kNotStarted;
  not_started.reason = "it was ended before it was started";
  deferred_.erase(job);
  const std::vector<Where> members = members_to_stop(*known, not_started);
  std::vector<std::pair<std::string, agent::FindOrder>> looks;
  looks.reserve(members.size());
  for (const Where& member : members) looks.emplace_back(member.node, agent::FindOrder{member.key});
  const auto found = co_await ask_all(std::move(looks));
  std::vector<Where> living;
  std::vector<std::pair<std::string, agent::StopOrder>> stops;
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (!found[i]) {
      stop_later(job, attempt, grace, members[i], found[i].error());
      continue;
    }
    const std::optional<model::MemberReport>& report = found[i]->report;
    if (report && !report->end) {
      living.push_back(members[i]);
      stops.emplace_back(members[i].node, agent::StopOrder{members[i].key, grace});
    } else {
      // Without a folder its start was interrupted, and this task comes after it: it never will.
      ended_.emplace(members[i].key, Ended{members[i].node, report ? *report->end : not_started});
    }
  }
  const auto told = co_await ask_all(std::move(stops));
  for (std::size_t i = 0; i < living.size(); ++i) {
    if (!told[i]) stop_later(job, attempt, grace, living[i], told[i].error());
  }
}

}  // namespace divvy::control
