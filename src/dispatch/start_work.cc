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

run::MemberKey key_of(const model::Job& job, const model::JobMember& member) {
  return {job.id, job.attempt, member.rank};
}

}  // namespace

std::optional<run::MemberReport> Dispatcher::find_started(const run::MemberKey& key) {
  auto report = parts_.runtime.find(key);
  if (!report) return std::nullopt;
  if (report->phase != run::MemberPhase::kLost || report->begun) return *std::move(report);
  Status forgotten = parts_.runtime.forget(key);
  // A shepherd that comes late may still look into the folder before it sees that it is too late.
  for (int tries = 0; !forgotten && tries < 100; ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    forgotten = parts_.runtime.forget(key);
  }
  if (!forgotten) {
    log_error("a start that was interrupted cannot be cleared",
              {{"member", to_string(key)}, {"reason", forgotten.error().message}});
    return *std::move(report);
  }
  return std::nullopt;
}

// May be done again after a crash: members that were started are left alone.
void Dispatcher::start(const model::Job& job, std::vector<model::JobMember> members) {
  std::erase_if(members, [&](const model::JobMember& member) {
    return find_started(key_of(job, member)).has_value();
  });
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
    {
      const std::lock_guard lock(mutex_);
      const WallTime now = parts_.clock.wall_now();
      if (error.code == ErrorCode::kResourceExhausted) {
        queue_->start_refused(job.id, job.attempt, error.message, now);
      } else {
        queue_->start_failed(job.id, job.attempt, error.message, now);
      }
      books_.erase(job.id);
      ++changes_;
    }
    wake();
  };
  // Slices of an interrupted start may be there: they are given anew, with what belongs to them.
  give_back();
  const auto account = parts_.account(job.owner);
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
  std::vector<run::MemberKey> members;
  {
    const std::lock_guard lock(mutex_);
    const model::Job* known = queue_->find(job);
    if (known == nullptr || known->attempt != attempt) return;
    for (const model::JobMember& member : known->members) {
      if (!member.end) members.push_back({job, attempt, member.rank});
    }
  }
  for (const run::MemberKey& key : members) {
    const auto member = parts_.runtime.find(key);
    if (!member && member.error().code == ErrorCode::kNotFound) {
      // Its start was interrupted, and this task comes after it: it never will.
      model::MemberEnd end;
      end.at = parts_.clock.wall_now();
      end.exit_code = kNotStarted;
      end.reason = "it was ended before it was started";
      const std::lock_guard lock(mutex_);
      ended_.emplace(key, std::move(end));
    } else if (member && member->phase == run::MemberPhase::kLiving) {
      if (const Status told = parts_.runtime.stop(key, grace); !told) {
        log_error("member not told to end; it is tried again",
                  {{"member", to_string(key)}, {"reason", told.error().message}});
        const std::lock_guard lock(mutex_);
        untold_[job] = {attempt, grace, parts_.clock.wall_now() + kStopAgain};
      }
    }
  }
  wake();
}

}  // namespace divvy::dispatch
