#include "control/schedule.h"

#include <boost/json.hpp>

#include "base/text.h"
#include "model/job_document.h"
#include "model/json_fields.h"
#include "model/name.h"

namespace divvy::control {
namespace {

namespace json = boost::json;
using model::JsonFields;

// A run that is later than this was missed; a daemon that is busy for a moment misses none.
constexpr std::chrono::minutes kMissed{2};

// An object inside of a document that has a reader of its own.
struct Inner {
  std::string json;
};
model::Refusal take(const json::value& value, Inner& into) {
  into.json = json::serialize(value);
  return {};
}

json::value count_or_null(const std::optional<WallTime>& time) {
  return time ? json::value(time->time_since_epoch().count()) : json::value(nullptr);
}

std::optional<WallTime> read_time(JsonFields& fields, std::string_view name) {
  std::optional<std::int64_t> nanoseconds;
  fields.read(name, nanoseconds);
  if (!nanoseconds) return std::nullopt;
  return WallTime(Duration(*nanoseconds));
}

Status check_job(const model::JobSpec& job) {
  DIVVY_RETURN_IF_ERROR(with_context(model::check(job), "job"));
  // Nobody would be there to hold the slices of a run.
  if (job.holder != model::Holder::kMembers) {
    return err(ErrorCode::kInvalidArgument, "job.holder: a run is a job that has members");
  }
  if (!job.after.empty()) {
    return err(ErrorCode::kInvalidArgument, "job.after: a run waits for its time and nothing else");
  }
  return {};
}

struct Read {
  std::string name;
  std::optional<model::Cron> every;
  std::optional<MissedRuns> missed;
  std::optional<Overlap> overlap;
  Inner job;
};

void read_common(JsonFields& fields, Read& read) {
  read.every = fields.parsed("every", model::Cron::parse);
  read.missed = fields.parsed("missed", parse_missed_runs);
  read.overlap = fields.parsed("overlap", parse_overlap);
}

}  // namespace

std::string_view to_string(MissedRuns missed) {
  return missed == MissedRuns::kSkip ? "skip" : "once";
}
std::string_view to_string(Overlap overlap) { return overlap == Overlap::kSkip ? "skip" : "allow"; }

Result<MissedRuns> parse_missed_runs(std::string_view text) {
  if (text == "skip") return MissedRuns::kSkip;
  if (text == "once") return MissedRuns::kOnce;
  return err(ErrorCode::kInvalidArgument, "\"{}\" is not skip or once",
             escape_for_terminal(text.substr(0, 40)));
}

Result<Overlap> parse_overlap(std::string_view text) {
  if (text == "skip") return Overlap::kSkip;
  if (text == "allow") return Overlap::kAllow;
  return err(ErrorCode::kInvalidArgument, "\"{}\" is not skip or allow",
             escape_for_terminal(text.substr(0, 40)));
}

std::string write_schedule(const Schedule& schedule) {
  return json::serialize(json::object{
      {"name", schedule.name},
      {"owner", schedule.owner},
      {"every", schedule.every.text()},
      {"missed", to_string(schedule.missed)},
      {"overlap", to_string(schedule.overlap)},
      {"suspended", schedule.suspended},
      {"made", schedule.made.time_since_epoch().count()},
      {"next", count_or_null(schedule.next)},
      {"last_job", schedule.last_job ? json::value(schedule.last_job->value()) : json::value()},
      {"last_at", count_or_null(schedule.last_at)},
      {"trouble", schedule.trouble},
      {"job", json::parse(model::write_job_spec(schedule.job))}});
}

Result<Schedule> read_schedule(std::string_view text) {
  std::optional<Schedule> made;
  Read read;
  std::string owner;
  const Status done =
      model::read_own_json("a schedule", text, model::Unread::kLeft, [&](JsonFields& fields) {
        fields.need("name", read.name);
        fields.need("owner", owner);
        fields.need("job", read.job);
        read_common(fields, read);
        auto job = model::read_job_spec(read.job.json);
        if (!job) return fields.refuse("job", job.error().message);
        if (!read.every) return fields.refuse("every", "it is missing");
        made.emplace(Schedule{.name = read.name,
                              .owner = owner,
                              .every = *read.every,
                              .job = *std::move(job),
                              .missed = read.missed.value_or(MissedRuns::kSkip),
                              .overlap = read.overlap.value_or(Overlap::kSkip),
                              .suspended = false,
                              .made = {},
                              .next = {},
                              .last_job = {},
                              .last_at = {},
                              .trouble = {}});
        fields.read("suspended", made->suspended);
        made->made = read_time(fields, "made").value_or(WallTime());
        made->next = read_time(fields, "next");
        made->last_at = read_time(fields, "last_at");
        fields.read("last_job", made->last_job);
        fields.read("trouble", made->trouble);
      });
  if (!done) return err(done.error());
  return *std::move(made);
}

Result<NewSchedule> read_new_schedule(std::string_view text) {
  DIVVY_TRY(document, model::parse_json(text));
  JsonFields fields(document);
  Read read;
  fields.need("name", read.name);
  fields.need("job", read.job);
  if (!fields.has("every")) fields.refuse("every", "it is missing");
  read_common(fields, read);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  DIVVY_RETURN_IF_ERROR(with_context(model::check_name("schedule", read.name), "name"));
  DIVVY_TRY(job, with_context(model::read_job_spec(read.job.json), "job"));
  DIVVY_RETURN_IF_ERROR(check_job(job));
  return NewSchedule{.name = std::move(read.name),
                     .every = *std::move(read.every),
                     .missed = read.missed.value_or(MissedRuns::kSkip),
                     .overlap = read.overlap.value_or(Overlap::kSkip),
                     .job = std::move(job)};
}

Status change_schedule(Schedule& schedule, std::string_view text, WallTime now) {
  DIVVY_TRY(document, model::parse_json(text));
  JsonFields fields(document);
  Read read;
  read_common(fields, read);
  std::optional<bool> suspended;
  fields.read("suspended", suspended);
  DIVVY_RETURN_IF_ERROR(fields.finish());
  if (read.every && !read.every->next(now)) {
    return err(ErrorCode::kInvalidArgument, "every: \"{}\" never comes",
               escape_for_terminal(read.every->text()));
  }
  if (read.missed) schedule.missed = *read.missed;
  if (read.overlap) schedule.overlap = *read.overlap;
  // What came in between was meant not to be run.
  const bool goes_on = suspended && schedule.suspended && !*suspended;
  if (suspended) schedule.suspended = *suspended;
  if (read.every) schedule.every = *std::move(read.every);
  if (read.every || goes_on) schedule.next = schedule.every.next(now);
  return {};
}

std::optional<DueRun> take_due(Schedule& schedule, const std::optional<model::JobId>& running,
                               WallTime now) {
  if (schedule.suspended || !schedule.next || *schedule.next > now) return std::nullopt;
  const WallTime due = *schedule.next;
  schedule.next = schedule.every.next(now);
  schedule.trouble.clear();
  if (now - due > kMissed && schedule.missed == MissedRuns::kSkip) {
    schedule.trouble = "a run was missed, because divvyd did not run at its time";
    return std::nullopt;
  }
  if (running && schedule.overlap == Overlap::kSkip) {
    schedule.trouble = fmt::format("a run was left out, because job {} had not ended", *running);
    return std::nullopt;
  }
  return DueRun{due};
}

bool bring_forward(Schedule& schedule, WallTime now) {
  if (schedule.suspended || !schedule.next || *schedule.next <= now) return false;
  const auto next = schedule.every.next(now);
  if (!next || *next >= *schedule.next) return false;
  schedule.next = next;
  return true;
}

}  // namespace divvy::control
