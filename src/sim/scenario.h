// A scenario: a cluster, what happens to it, and what is expected, as lines of text that people
// read and write (docs/scenarios.md). Only reading is here; scenario_run.h plays it. Values;
// callable from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "jobs/settings.h"
#include "model/job_spec.h"
#include "place/node_spec.h"
#include "place/reserve.h"

namespace divvy::sim {

// --- What happens ---

// Jobs are numbered in the order of their lines, from 1 on; in the specs they are named so.
struct Submit {
  model::JobSpec spec;
  std::string owner;
  std::optional<place::Instant> lasts;  // ends by itself so long after it started
};
// All of its members end well; or one of them fails.
struct Finish {
  std::string job;
  bool well = true;
};
// Taken back by whoever submitted it, whether it waits or runs.
struct Cancel {
  std::string job;
};
struct Suspend {
  std::string job;
};
struct Resume {
  std::string job;
};
struct LoseNode {
  std::string node;
  std::string reason;
};
struct ReturnNode {
  std::string node;
};
struct Cordon {
  std::string node;
  std::string reason;  // empty: open again
};
struct GpuHealth {
  std::string node;
  std::size_t gpu = 0;
  std::string reason;  // empty: healthy again
};
struct SetPriority {
  std::string job;
  std::int32_t priority = 0;
};
// Moves running members so that a job that waits can start.
struct DefragFor {
  std::string job;
  std::size_t moves = 8;
};
// Time passes.
struct Wait {};

// --- What is expected ---

enum class Expected {
  kOn,       // `names` are exactly the nodes it uses; `gpus`: exactly the GPUs, on one node
  kMembers,  // `number` members run
  kStarts,   // it was started `number` times
  kRuns,
  kWaits,  // for a reason that has `text` in it
  kDone,   // it has succeeded
  kFailed,
  kCancelled,
  kSuspended,
  kStopping,   // it was told to end and has not
  kPreempts,   // exactly the jobs `names` made way when it started
  kStartedAt,  // at the time `number`
  kReserved,   // it has a reservation: for the time `number`, or, with -1, without a time
  kMoved,      // some member was moved by a defragmentation
  kNear,       // the GPUs of each member are together by `level`
  kTogether,   // the members are in one domain of `level`
  kSpread,     // no two members are in one domain of `level`
  kFree,       // `amount` is free, on the node `names` or in all
  kHeld,
  kQueueHolds,    // the jobs of the queue `names` hold `amount`
  kQueueBorrows,  // beyond its quota
  kQueueWaits,    // `number` of its jobs wait
  kUserHolds,     // the jobs of the user `names` hold `amount`
};

struct Expect {
  Expected what = Expected::kRuns;
  std::string job;
  std::vector<std::string> names;
  std::vector<std::uint32_t> gpus;
  std::string text;
  std::int64_t number = 0;
  model::Closeness level = model::Closeness::kAnywhere;
  Share amount;
  std::string source;  // the line as it was written
};

struct Step {
  std::size_t line = 0;
  place::Instant at = 0;  // seconds
  std::variant<Wait, Submit, Finish, Cancel, Suspend, Resume, LoseNode, ReturnNode, Cordon,
               GpuHealth, SetPriority, DefragFor, Expect>
      what;
};

struct Scenario {
  std::string file;
  jobs::Settings settings;
  std::vector<place::NodeSpec> nodes;
  std::vector<std::pair<std::string, std::string>> exclusions;  // user and node
  std::vector<Step> steps;  // in the order of the file, which is the order of time
};

// What is wrong is refused with "FILE:LINE: reason; remedy".
[[nodiscard]] Result<Scenario> parse_scenario(std::string_view text, std::string file);
[[nodiscard]] Result<Scenario> read_scenario(const std::string& path);

}  // namespace divvy::sim
