// What the queue wants done, as values: the daemon writes the job down and then does it. Each
// carries the sentence that stands in the history of the job, too.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "model/job.h"

namespace divvy::jobs {

// Give these members their slices and start them. The job is `starting` with this attempt.
struct Start {
  model::JobId job;
  std::uint32_t attempt = 0;
  std::vector<model::JobMember> members;
  std::string text;
  friend bool operator==(const Start&, const Start&) = default;
};

// End every member that lives: told first, killed after the grace. The job is `stopping`.
struct Stop {
  model::JobId job;
  std::uint32_t attempt = 0;
  model::StopReason reason = model::StopReason::kCancelled;
  model::Seconds grace{0};
  std::string text;
  std::optional<model::JobId> makes_way_for;  // whose place it will be; not known after a restart
  friend bool operator==(const Stop&, const Stop&) = default;
};

// Tell its owner: it will be ended because it does not use what it holds.
struct Warn {
  model::JobId job;
  model::Seconds left{0};
  std::string text;
  friend bool operator==(const Warn&, const Warn&) = default;
};

// It waited for something that can no longer happen. The job is `cancelled`.
struct Cancel {
  model::JobId job;
  std::string text;
  friend bool operator==(const Cancel&, const Cancel&) = default;
};

// A member that runs goes elsewhere while its job goes on: not decided by a pass, but planned where
// somebody asks for it (Queue::plan_moves).
struct Move {
  model::JobId job;
  std::uint32_t attempt = 0;
  model::JobMember to;  // with the rank of the member
  std::string text;
  friend bool operator==(const Move&, const Move&) = default;
};

using Decision = std::variant<Start, Stop, Warn, Cancel>;

}  // namespace divvy::jobs
