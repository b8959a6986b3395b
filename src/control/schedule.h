// A job that is submitted again and again, at the times of a cron. A value; its documents are in
// the store and in requests. Pure, callable from any thread; any text is safe to pass.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "model/cron.h"
#include "model/job_spec.h"

namespace divvy::control {

// What becomes of a run whose time came while no daemon ran.
enum class MissedRuns {
  kSkip,
  kOnce,  // However many there were
};
// What becomes of a run whose time comes while the job of the last one has not ended.
enum class Overlap {
  kSkip,
  kAllow,
};
[[nodiscard]] std::string_view to_string(MissedRuns missed);
[[nodiscard]] std::string_view to_string(Overlap overlap);
[[nodiscard]] Result<MissedRuns> parse_missed_runs(std::string_view text);
[[nodiscard]] Result<Overlap> parse_overlap(std::string_view text);

struct Schedule {
  std::string name;
  std::string owner;
  model::Cron every;
  model::JobSpec job;
  MissedRuns missed = MissedRuns::kSkip;
  Overlap overlap = Overlap::kSkip;
  bool suspended = false;
  WallTime made;
  std::optional<WallTime> next;  // nothing: never
  std::optional<model::JobId> last_job;
  std::optional<WallTime> last_at;
  std::string trouble;  // of the last time: why there was no run, or not the usual one
};

[[nodiscard]] std::string write_schedule(const Schedule& schedule);
// kDataLoss with why it is none.
[[nodiscard]] Result<Schedule> read_schedule(std::string_view text);

// What somebody asks for: name, every, missed, overlap and job. kInvalidArgument with the field.
struct NewSchedule {
  std::string name;
  model::Cron every;
  MissedRuns missed = MissedRuns::kSkip;
  Overlap overlap = Overlap::kSkip;
  model::JobSpec job;
};
[[nodiscard]] Result<NewSchedule> read_new_schedule(std::string_view text);
// Changes every, missed, overlap and suspended, where the text has them.
[[nodiscard]] Status change_schedule(Schedule& schedule, std::string_view text, WallTime now);

// One step of time: what is due at `now`, and what comes next.
struct DueRun {
  WallTime at;  // when it was due: the name of the run
};
// A run to be submitted, or nothing; `next` is moved on and `trouble` is told. `running`: a job of
// the last run that has not ended.
[[nodiscard]] std::optional<DueRun> take_due(Schedule& schedule,
                                             const std::optional<model::JobId>& running,
                                             WallTime now);

// After the clock was set back, or the time zone was changed: a time that comes before `next` now
// would otherwise be passed over, for years where the clock had been wrong by years. Whether it
// changed anything.
[[nodiscard]] bool bring_forward(Schedule& schedule, WallTime now);

}  // namespace divvy::control
