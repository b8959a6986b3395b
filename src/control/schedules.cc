#include "control/schedules.h"

#include <algorithm>

#include "base/log.h"
#include "base/text.h"

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
  const auto own = std::ranges::count(there, owner, &Schedule::owner);
  if (static_cast<std::size_t>(own) >= kMostOfOneOwner) {
    return err(ErrorCode::kFailedPrecondition,
               "you have {} schedules, and that is as many as there may be; delete one", own);
  }
  DIVVY_RETURN_IF_ERROR(with_context(parts_.dispatcher.check(schedule.job, owner), "a run"));
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

Status Schedules::remove(const std::string& name) {
  return parts_.database.commit(
      [&](store::Connection& connection) { return store::ScheduleTable(connection).remove(name); });
}

Result<std::vector<Schedule>> Schedules::list() {
  DIVVY_TRY(entries, read_all());
  std::vector<Schedule> all;
  for (Entry& entry : entries) all.push_back(std::move(entry.schedule));
  return all;
}

void Schedules::submit(Schedule& schedule, const DueRun& run, WallTime now) {
  NewJob wanted(schedule.job);
  if (wanted.spec.name.empty()) wanted.spec.name = schedule.name;
  wanted.spec.labels["divvy.schedule"] = schedule.name;
  wanted.owner = schedule.owner;
  wanted.key =
      fmt::format("schedule/{}/{}/{}", schedule.name, schedule.made.time_since_epoch().count(),
                  run.at.time_since_epoch().count());
  const auto submitted = parts_.dispatcher.submit(std::move(wanted));
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
  std::optional<Duration> patience;
  const auto within = [&patience](Duration time) {
    patience = std::clamp<Duration>(patience ? std::min(*patience, time) : time, 0s, kMostPatience);
  };
  for (Entry& entry : *entries) {
    Schedule& schedule = entry.schedule;
    const WallTime now = parts_.clock.wall_now();
    const bool was_due = !schedule.suspended && schedule.next && *schedule.next <= now;
    if (was_due) {
      const auto last =
          schedule.last_job ? parts_.dispatcher.find(*schedule.last_job) : std::nullopt;
      const bool last_runs = last && !model::is_finished(last->state);
      if (const auto run = take_due(schedule, last_runs, now)) submit(schedule, *run, now);
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
