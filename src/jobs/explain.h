// What the queue says about a job that waits, and about the queues themselves. Plain values, made
// by jobs::Queue, shown by `divvy get`, `divvy explain` and `divvy queue`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "jobs/queue_tree.h"
#include "jobs/settings.h"

namespace divvy::jobs {

enum class WaitKind {
  kNothing,      // it does not wait: it runs or has ended
  kSuspended,    // until somebody resumes it
  kDependency,   // for another job
  kBackOff,      // after a failure
  kArray,        // for other tasks of its array
  kQuota,        // for jobs of its queue or user
  kMakingRoom,   // for those who were told to make way for it
  kReservation,  // it fits, but would delay somebody who was before it
  kFull,         // it does not fit as things are
  kNever,        // it would not fit if everybody left
  kNext,         // nothing stands in the way: the next pass starts it
};
[[nodiscard]] std::string_view to_string(WaitKind kind);

struct WaitReport {
  WaitKind kind = WaitKind::kNothing;
  std::string text;                    // one line for people
  std::string details;                 // more lines, node by node; may be empty
  std::optional<std::uint32_t> place;  // in line, from 1 on; only who could start has one
  std::uint32_t in_line = 0;           // so many could start
  std::optional<WallTime> starts;      // the best guess
};

// How a queue stands, for `divvy queue` and `divvy quota`.
struct QueueReport {
  std::string path;
  Quota quota;
  bool may_borrow = true;
  std::optional<Share> most_share;
  std::uint32_t weight = 1;
  TimeLimits time;             // with what it has from those above
  Held held;                   // with those below
  std::uint64_t borrowed = 0;  // of the share that is held, in thousandths
  std::uint32_t waiting = 0;
  double used_gpu_hours = 0;  // decayed
  double score = 0;           // the lower goes first
};

struct UserReport {
  std::string name;
  Quota most;
  Held held;
};

// "in 40 s", "in about 5 min", "in about 3 h"
[[nodiscard]] std::string about(Duration time);

}  // namespace divvy::jobs
