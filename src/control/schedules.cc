#include "control/schedules.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"
#include "jobs/array.h"
#include "store/people_table.h"

namespace divvy::control {
namespace {

using namespace std::chrono_literals;

// The clock of the machine may be set; that is noticed within this time.
constexpr auto kMostPatience = 1min;
// After the disk did not take something.
constexpr auto kRetry = 5s;
// Of a change that somebody else was quicker with, each time.
constexpr int kTries = 20;

store::ScheduleRow row_of(const Schedule& schedule, std::int64_t revision) {
  return {schedule.name, schedule.owner, revision, write_schedule(schedule)};
}

tl::unexpected<Error> no_schedule(std::string_view name) {
  return err(ErrorCode::kNotFound,
             "there is no schedule {}; divvy schedule list shows those there are",
             escape_for_terminal(name.substr(0, 128)));
}

// Who is disabled asks for nothing any more, and so does nothing that asks in their name.
Status check_enabled(store::Database& database, const std::string& owner) {
  DIVVY_TRY(person, database.read([&](store::Connection& connection) {
    return store::PeopleTable(connection).find(owner);
  }));
  if (!person || !person->disabled) return {};
  return err(ErrorCode::kPermissionDenied, "{} is disabled", owner);
}

}  // namespace

Schedules::~Schedules() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Schedules::begin() {
  thread_ = std::thread([this] { run(); });
}

void Schedules::run() {
  for (;;) {
    const auto patience = step();
    std::unique_lock lock(mutex_);
    const auto due = [this] { return stopping_ || woken_; };
    if (patience) {
      changed_.wait_for(lock, *patience, due);
    } else {
      changed_.wait(lock, due);
    }
    if (stopping_) return;
    woken_ = false;
  }
}

void Schedules::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

Result<std::vector<Schedules::Entry>> Schedules::read_all() {
  DIVVY_TRY(rows, parts_.database.read([](store::Connection& connection) {
    return store::ScheduleTable(connection).list();
  }));
  std::vector<Entry> entries;
  for (const store::ScheduleRow& row : rows) {
    auto schedule = read_schedule(row.document);
    if (!schedule) {
      log_error("schedule left out",
                {{"schedule", row.name}, {"reason", schedule.error().message}});
      continue;
    }
    entries.push_back({*std::move(schedule), row.revision});
  }
  return entries;
}

Result<std::optional<Schedules::Entry>> Schedules::read(const std::string& name) {
  DIVVY_TRY(row, parts_.database.read([&](store::Connection& connection) {
    return store::ScheduleTable(connection).find(name);
  }));
  if (!row) return std::nullopt;
  DIVVY_TRY(schedule, read_schedule(row->document));
  return Entry{std::move(schedule), row->revision};
}

Result<bool> Schedules::write(const Entry& entry) {
  bool written = false;
  DIVVY_RETURN_IF_ERROR(parts_.database.commit([&](store::Connection& connection) -> Status {
    DIVVY_TRY(done,
              store::ScheduleTable(connection).update(row_of(entry.schedule, entry.revision)));
    written = done;
    return {};
  }));
  return written;
}

Result<Schedule> Schedules::make(NewSchedule wanted, const std::string& owner) {
  const WallTime now = parts_.clock.wall_now();
  Schedule schedule{.name = std::move(wanted.name),
                    .owner = owner,
                    .every = std::move(wanted.every),
                    .job = std::move(wanted.job),
                    .missed = wanted.missed,
                    .overlap = wanted.overlap,
                    .suspended = false,
                    .made = now,
                    .next = {},
                    .last_job = {},
                    .last_at = {},
                    .trouble = {}};
  schedule.next = schedule.every.next(now);
  if (!schedule.next) {
    return err(ErrorCode::kInvalidArgument, "every: \"{}\" never comes",
               escape_for_terminal(schedule.every.text()));
  }
  DIVVY_TRY(there, list());
  // Whose it is: they do not see each other's.
  const auto same = std::ranges::find(there, schedule.name, &Schedule::name);
  if (same != there.end() && same->owner != owner) {
    return err(ErrorCode::kAlreadyExists,
               "there is a schedule {} already, of another user; take another --name",
               schedule.name);
  }
  if (same != there.end()) {
    return err(ErrorCode::kAlreadyExists,
               "there is a schedule {0} already; take another --name, or delete it first: divvy "
               "schedule delete {0}",
               schedule.name);
  }
  const auto own = std::ranges::count(there, owner, &Schedule::owner);
  if (static_cast<std::size_t>(own) >= kMostOfOneOwner) {
    return err(ErrorCode::kFailedPrecondition,
               "you have {} schedules, and that is as many as there may be; delete one", own);
  }
  const model::JobSpec run = run_of(schedule);
  DIVVY_RETURN_IF_ERROR(with_context(model::check(run), "a run"));
  DIVVY_RETURN_IF_ERROR(with_context(parts_.dispatcher.check(run, owner), "a run"));
  DIVVY_RETURN_IF_ERROR(parts_.database.commit([&](store::Connection& connection) {
    return store::ScheduleTable(connection).insert(row_of(schedule, 1));
  }));
  wake();
  return schedule;
}

Result<Schedule> Schedules::change(const std::string& name, const Change& change) {
  for (int i = 0; i < kTries; ++i) {
    DIVVY_TRY(entry, read(name));
    if (!entry) return no_schedule(name);
    DIVVY_RETURN_IF_ERROR(change(entry->schedule, parts_.clock.wall_now()));
    DIVVY_TRY(written, write(*entry));
    if (!written) continue;
    wake();
    return std::move(entry->schedule);
  }
  return err(ErrorCode::kUnavailable, "the schedule {} changes all the time; try again", name);
}

Result<Schedule> Schedules::find(const std::string& name) {
  DIVVY_TRY(entry, read(name));
  if (!entry) return no_schedule(name);
  return std::move(entry->schedule);
}

Result<Schedule> Schedules::remove(const std::string& name, const Check& check) {
  std::optional<Schedule> removed;
  DIVVY_RETURN_IF_ERROR(parts_.database.commit([&](store::Connection& connection) -> Status {
    store::ScheduleTable table(connection);
    DIVVY_TRY(row, table.find(name));
    if (!row) return no_schedule(name);
    DIVVY_TRY(schedule, read_schedule(row->document));
    DIVVY_RETURN_IF_ERROR(check(schedule));
    removed = std::move(schedule);
    return table.remove(name);
  }));
  return *std::move(removed);
}

Result<std::vector<Schedule>> Schedules::list() {
  DIVVY_TRY(entries, read_all());
  std::vector<Schedule> all;
  all.reserve(entries.size());
  for (Entry& entry : entries) all.push_back(std::move(entry.schedule));
  return all;
}

model::JobSpec Schedules::run_of(const Schedule& schedule) {
  model::JobSpec run = schedule.job;
  if (run.name.empty()) run.name = schedule.name;
  run.labels["divvy.schedule"] = schedule.name;
  return run;
}

std::optional<model::JobId> Schedules::still_running(const Schedule& schedule) {
  if (!schedule.last_job || schedule.overlap == Overlap::kAllow) return std::nullopt;
  // The tasks of an array have numbers one after the other, and the last ones end last.
  for (std::uint64_t i = jobs::jobs_of(schedule.job); i-- > 0;) {
    const auto job = parts_.dispatcher.find(model::JobId(schedule.last_job->value() + i));
    if (job && !model::is_finished(job->state)) return job->id;
  }
  return std::nullopt;
}

void Schedules::submit(Schedule& schedule, const DueRun& run, WallTime now) {
  NewJob wanted(run_of(schedule));
  wanted.owner = schedule.owner;
  wanted.key =
      fmt::format("schedule/{}/{}/{}", schedule.name, schedule.made.time_since_epoch().count(),
                  run.at.time_since_epoch().count());
  const Status enabled = check_enabled(parts_.database, schedule.owner);
  const auto submitted = enabled ? parts_.dispatcher.submit(std::move(wanted))
                                 : Result<store::Submitted>(err(enabled.error()));
  schedule.last_at = now;
  if (submitted) {
    schedule.last_job = submitted->jobs.front().id;
    return;
  }
  schedule.trouble = "a run was refused: " + submitted.error().message;
  log_warning("run of a schedule refused",
              {{"schedule", schedule.name}, {"reason", submitted.error().message}});
}

std::optional<Duration> Schedules::step() {
  auto entries = read_all();
  if (!entries) {
    log_error("schedules cannot be read", {{"reason", entries.error().message}});
    return kRetry;
  }
  const WallTime begun = parts_.clock.wall_now();
  // At the beginning, too: the clock may have been set while no daemon ran.
  const bool set_back = !last_step_ || begun < *last_step_;
  last_step_ = begun;
  std::optional<Duration> patience;
  const auto within = [&patience](Duration time) {
    patience = std::clamp<Duration>(patience ? std::min(*patience, time) : time, 0s, kMostPatience);
  };
  for (Entry& entry : *entries) {
    Schedule& schedule = entry.schedule;
    const WallTime now = parts_.clock.wall_now();
    const bool is_due = !schedule.suspended && schedule.next && *schedule.next <= now;
    if (is_due) {
      const auto run = take_due(schedule, still_running(schedule), now);
      if (run) submit(schedule, *run, now);
    }
    // A run that was submitted before the clock was set back has its key, and is not run again.
    if (is_due || (set_back && bring_forward(schedule, now))) {
      const auto written = write(entry);
      // Somebody changed it meanwhile, or the disk is full: looked at again, and the run has its
      // key.
      if (!written || !*written) within(written ? Duration(0s) : Duration(kRetry));
    }
    if (!schedule.suspended && schedule.next) within(*schedule.next - now);
  }
  return patience;
}

}  // namespace divvy::control
