// What the starters do, without the dispatcher's lock: slices for all members first, then the
// members. Whatever becomes of it, the queue hears of every member.
#include "base/log.h"
#include "dispatch/dispatcher.h"
#include "run/launch_environment.h"

namespace divvy::dispatch {
namespace {

// As `podman run` says when it is podman that failed, and not the command.
constexpr int kNotStarted = 125;
constexpr std::chrono::seconds kStopAgain{5};
constexpr std::chrono::seconds kLookAgain{1};

run::MemberKey key_of(const model::Job& job, const model::JobMember& member) {
  return {job.id, job.attempt, member.rank};
}

}  // namespace

Result<std::optional<run::MemberReport>> Dispatcher::find_started(const run::MemberKey& key) {
  auto report = parts_.runtime.find(key);
  if (!report && report.error().code == ErrorCode::kNotFound) return std::nullopt;
  if (!report) return err(report.error());
  if (report->phase != run::MemberPhase::kLost || report->begun) return *std::move(report);
  // A shepherd that comes late may still look into the folder before it sees that it is too late.
  DIVVY_CHECK_OK(parts_.runtime.forget(key));
  return std::nullopt;
}

void Dispatcher::start_deferred(WallTime now) {
  for (auto it = deferred_.begin(); it != deferred_.end();) {
    DeferredStart& wanted = it->second;
    const model::Job* job = queue_->find(it->first);
    const bool is_starting = job != nullptr && job->attempt == wanted.job.attempt &&
                             job->state == model::JobState::kStarting;
    if (is_starting && (wanted.due > now || has_strays(it->first))) {
      ++it;
      continue;
    }
    if (is_starting) {
      tasks_->add(it->first, JobTasks::Kind::kStart,
                  [this, start = std::move(wanted)] { this->start(start); });
    }
    it = deferred_.erase(it);
  }
}

// May be done again after a crash: members that were started are left alone.
void Dispatcher::start(const DeferredStart& wanted) {
  const model::Job& job = wanted.job;
  std::vector<model::JobMember> members;
  std::vector<run::MemberKey> living;
  std::map<run::MemberKey, model::MemberEnd> ended;
  for (const model::JobMember& member : wanted.members) {
    const auto key = key_of(job, member);
    const auto found = find_started(key);
    if (!found) {
      // Whether it runs is not known: to start it might be to start it twice.
      log_error("member cannot be looked at; its start is tried again",
                {{"member", to_string(key)}, {"reason", found.error().message}});
      const std::lock_guard lock(mutex_);
      deferred_.insert_or_assign(
          job.id, DeferredStart{job, wanted.members, parts_.clock.wall_now() + kLookAgain});
      return;
    }
    if (!*found) {
      members.push_back(member);
    } else if ((*found)->end) {
      ended.emplace(key, *(*found)->end);
    } else {
      living.push_back(key);
    }
  }
  const auto give_back = [&] {
    for (const model::JobMember& member : members) {
      const auto key = key_of(job, member);
      if (const Status released = parts_.machine.release(key); !released) {
        log_error("slice not released",
                  {{"member", to_string(key)}, {"reason", released.error().message}});
      }
    }
  };
  const auto refuse = [&](const Error& error) {
    give_back();
    refuse_start(job, error, living);
  };
  // Slices of an interrupted start may be there: they are given anew, with what belongs to them.
  give_back();
  if (!ended.empty()) {
    const std::lock_guard lock(mutex_);
    ended_.merge(ended);
  }
  auto account = members.empty() ? Result<Account>(Account{}) : parts_.account(job.owner);
  if (!account) return refuse(account.error());
  std::vector<MemberSlice> slices;
  slices.reserve(members.size());
  for (const model::JobMember& member : members) {
    auto slice = parts_.machine.grant(key_of(job, member), job, member, account->user);
    if (!slice) return refuse(slice.error());
    slices.push_back(*std::move(slice));
  }
  for (std::size_t i = 0; i < members.size(); ++i) {
    start_member(job, members[i], *account, slices[i]);
  }
  {
    const std::lock_guard lock(mutex_);
    // Those of before the crash count, too.
    const WallTime now = parts_.clock.wall_now();
    for (const model::JobMember& member : job.members) {
      queue_->member_started(job.id, job.attempt, member.rank, now);
    }
    ++changes_;
  }
  wake();
}

void Dispatcher::refuse_start(const model::Job& job, const Error& why,
                              const std::vector<run::MemberKey>& living) {
  {
    const std::lock_guard lock(mutex_);
    if (living.empty()) {
      tell_refused(job.id, job.attempt, why);
    } else {
      // Members of before the crash: the job waits in the queue again when they have ended, or the
      // next attempt would run beside this one.
      for (const run::MemberKey& key : living) add_stray(key, Folder::kKeep);
      refused_.insert_or_assign(job.id, RefusedStart{job.attempt, why});
    }
  }
  wake();
}

void Dispatcher::tell_refused(model::JobId job, std::uint32_t attempt, const Error& why) {
  const WallTime now = parts_.clock.wall_now();
  if (why.code == ErrorCode::kResourceExhausted) {
    queue_->start_refused(job, attempt, why.message, now);
  } else {
    queue_->start_failed(job, attempt, why.message, now);
  }
  books_.erase(job);
  ++changes_;
}

void Dispatcher::start_member(const model::Job& job, const model::JobMember& member,
                              const Account& account, const MemberSlice& slice) {
  // All members are on this machine.
  const std::vector<std::string> hosts(job.members.size(), "127.0.0.1");
  run::MemberStart start;
  start.key = key_of(job, member);
  start.command = job.spec.command;
  start.container = job.spec.container;
  start.environment = run::member_environment(
      job.spec.container ? std::nullopt : std::optional(account.login),
      run::launch_environment(run::launch_of(job, member.rank, hosts)), job.spec.environment,
      job.spec.container ? run::Environment{} : slice.environment);
  start.working_directory = job.spec.working_directory;
  if (start.working_directory.empty() && !job.spec.container) {
    start.working_directory = account.login.home;
  }
  start.uid = account.user.uid;
  start.gid = account.user.gid;
  start.groups = account.groups;
  start.limits = job.spec.limits;
  start.keep_input = job.spec.keep_input;
  start.grace = job.spec.grace;
  if (job.spec.container) start.cdi_devices = slice.cdi_devices;
  const Status started = parts_.runtime.start(start);
  if (started || started.error().code == ErrorCode::kAlreadyExists) return;
  model::MemberEnd end;
  end.at = parts_.clock.wall_now();
  end.exit_code = kNotStarted;
  end.reason = "it could not be started: " + started.error().message;
  const std::lock_guard lock(mutex_);
  ended_.emplace(start.key, std::move(end));
}

void Dispatcher::stop(model::JobId job, std::uint32_t attempt, model::Seconds grace) {
  model::MemberEnd not_started;
  not_started.at = parts_.clock.wall_now();
  not_started.exit_code = kNotStarted;
  not_started.reason = "it was ended before it was started";
  std::vector<run::MemberKey> members;
  model::Holder holder = model::Holder::kMembers;
  {
    const std::lock_guard lock(mutex_);
    const model::Job* known = queue_->find(job);
    if (known == nullptr || known->attempt != attempt) return;
    holder = known->spec.holder;
    deferred_.erase(job);
    for (const model::JobMember& member : known->members) {
      if (member.end) continue;
      const run::MemberKey key{job, attempt, member.rank};
      // Where there is a stray of this name the start was put off, or refused.
      if (strays_.contains(key)) {
        ended_.emplace(key, not_started);
      } else {
        members.push_back(key);
      }
    }
  }
  if (holder != model::Holder::kMembers) {
    for (const run::MemberKey& key : members) stop_holder(key, grace);
    return;
  }
  const auto try_again = [&](const run::MemberKey& key, const Error& why) {
    log_error("member not told to end; it is tried again",
              {{"member", to_string(key)}, {"reason", why.message}});
    const std::lock_guard lock(mutex_);
    untold_[job] = {attempt, grace, parts_.clock.wall_now() + kStopAgain};
  };
  for (const run::MemberKey& key : members) {
    const auto member = parts_.runtime.find(key);
    if (!member && member.error().code != ErrorCode::kNotFound) {
      try_again(key, member.error());
    } else if (!member || member->end) {
      // Without a folder its start was interrupted, and this task comes after it: it never will.
      const std::lock_guard lock(mutex_);
      ended_.emplace(key, member ? *member->end : not_started);
    } else if (const Status told = parts_.runtime.stop(key, grace); !told) {
      try_again(key, told.error());
    }
  }
  wake();
}

}  // namespace divvy::dispatch
