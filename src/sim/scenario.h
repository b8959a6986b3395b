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
#include "place/node_spec.h"
#include "place/request.h"
#include "place/reserve.h"

namespace divvy::sim {

// --- What happens ---

struct Submit {
  place::Request request;
  std::optional<place::Instant> lasts;     // ends by itself so long after it started
  std::optional<place::Instant> expected;  // how long the queue believes that it will run
};
struct Finish {
  std::string job;
};
// Taken back by whoever submitted it, whether it waits or runs.
struct Cancel {
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
  kRuns,
  kWaits,  // for a reason that has `text` in it
  kDone,
  kPreempts,   // exactly the jobs `names` made way when it started
  kStartedAt,  // at the time `number`
  kReserved,   // it has a reservation: for the time `number`, or, with -1, without a time
  kMoved,      // some member was moved by a defragmentation
  kNear,       // the GPUs of each member are together by `level`
  kTogether,   // the members are in one domain of `level`
  kSpread,     // no two members are in one domain of `level`
  kFree,       // `amount` is free, on the node `names` or in all
  kHeld,
};

struct Expect {
  Expected what = Expected::kRuns;
  std::string job;
  std::vector<std::string> names;
  std::vector<std::uint32_t> gpus;
  std::string text;
  std::int64_t number = 0;
  place::Closeness level = place::Closeness::kAnywhere;
  Share amount;
  std::string source;  // the line as it was written
};

struct Step {
  std::size_t line = 0;
  place::Instant at = 0;  // seconds
  std::variant<Wait, Submit, Finish, Cancel, LoseNode, ReturnNode, Cordon, GpuHealth, SetPriority,
               DefragFor, Expect>
      what;
};

struct Scenario {
  std::string file;
  std::string policy = "divvy";
  std::size_t reservations = 1;  // how many of those who wait get one
  bool preemption = true;
  std::vector<place::NodeSpec> nodes;
  std::vector<std::pair<std::string, std::string>> exclusions;  // tenant and node
  std::vector<Step> steps;  // in the order of the file, which is the order of time
};

// What is wrong is refused with "FILE:LINE: reason; remedy".
[[nodiscard]] Result<Scenario> parse_scenario(std::string_view text, std::string file);
[[nodiscard]] Result<Scenario> read_scenario(const std::string& path);

}  // namespace divvy::sim
