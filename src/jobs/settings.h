// How the queue is set up: queues with what they are promised, users with what they may have, and
// the rules for everybody. Plain values; an operator writes them, the daemon hands them to
// jobs::Queue.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "model/job_spec.h"

namespace divvy::jobs {

using model::Seconds;

// Of what runs at one time; nothing: not counted.
struct Quota {
  std::optional<Share> share;
  std::optional<Bytes> memory;  // of GPUs
  std::optional<std::uint32_t> jobs;
  friend bool operator==(const Quota&, const Quota&) = default;
};

// How long jobs may run; nothing: as in the queue above, or without end.
struct TimeLimits {
  std::optional<Seconds> usual;  // of a job that names none
  std::optional<Seconds> most;   // that a job may name
  friend bool operator==(const TimeLimits&, const TimeLimits&) = default;
};

// A job that holds a GPU and does not use it is warned and then ended.
struct IdlePolicy {
  Seconds after{0};    // without use it is ended; 0: never
  Seconds warning{0};  // so long before that it is warned
  friend bool operator==(const IdlePolicy&, const IdlePolicy&) = default;
};

struct QueueSettings {
  std::string path;  // "research/vision"
  // What it is promised: others who hold it give it back. Without a share nothing is promised, and
  // whatever its jobs hold is borrowed. The number of jobs is never exceeded, borrowing or not.
  Quota quota;
  bool may_borrow = true;                // what others leave unused, beyond the quota
  std::optional<Share> most_share;       // quota and borrowed together; nothing: all there is
  Quota per_user;                        // no user has more in this queue and those below
  std::uint32_t weight = 1;              // against its sisters, for the fair share
  std::int32_t highest_priority = 1000;  // that jobs submitted here may have
  std::optional<IdlePolicy> idle;        // nothing: as in the queue above
  TimeLimits time;                       // the most holds for the queues below, too
  friend bool operator==(const QueueSettings&, const QueueSettings&) = default;
};

struct UserSettings {
  std::string name;
  Quota most;                // in all queues together
  std::uint32_t weight = 1;  // against the others in a queue, for the fair share
  friend bool operator==(const UserSettings&, const UserSettings&) = default;
};

struct Settings {
  static constexpr std::string_view kDefaultQueue = "default";

  // Queues above those that are named are there too, and so is `default`.
  std::vector<QueueSettings> queues;
  std::vector<UserSettings> users;
  std::string policy = "divvy";             // of placement (place/policy.h)
  Seconds half_life{std::chrono::days(1)};  // of what was used in the past, for the fair share
  bool preemption = true;                   // also for queues that want their quota back
  std::uint32_t reservations = 4;           // jobs that wait for a place and whose place is kept
  // Jobs behind one whose start is not known may pass it for so long; then GPUs that become free
  // are kept for it.
  Seconds passing{std::chrono::minutes(10)};
  std::uint32_t tries = 100;  // different requests that do not fit, in one pass
  // Jobs that wait, each task of an array counted, in all and of one user; 0: any number.
  std::uint32_t most_waiting = 0;
  std::uint32_t most_waiting_of_user = 0;
  IdlePolicy idle;
  TimeLimits time;  // where no queue says anything
  friend bool operator==(const Settings&, const Settings&) = default;
};

// One sentence about the first thing that is wrong, beginning with where it stands.
[[nodiscard]] Status check(const Settings& settings);

// "0.5 GPU, 10GiB of GPU memory and 3 jobs"; "nothing" for a quota of nothing.
[[nodiscard]] std::string describe(const Quota& quota);

}  // namespace divvy::jobs
