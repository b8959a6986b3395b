// Plays a scenario through the queue (jobs/queue.h), which is the one that the daemon runs, on a
// fleet that is only described. What the queue decides is done at once: a job that is given a place
// runs, one that is told to stop is gone, after its grace where it has one. Deterministic, no
// clock: time jumps from event to event. Callable from any thread, one scenario at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "model/job.h"
#include "place/reserve.h"
#include "sim/scenario.h"

namespace divvy::sim {

struct TimelineEntry {
  place::Instant at = 0;
  std::string job;     // empty: it is about a node
  std::string event;   // "starts", "waits", "ends", "stops", "queued", "lost", "moves", ...
  std::string detail;  // "on node-a gpu 0,1"
};

struct ScenarioJobOutcome {
  std::string name;
  model::JobState state = model::JobState::kQueued;
  place::Instant submitted = 0;
  std::optional<place::Instant> started;  // the last time
  std::optional<place::Instant> ended;
  std::uint32_t starts = 0;
};

struct ExpectationOutcome {
  std::size_t line = 0;
  std::string text;  // as it was written
  bool passed = false;
  std::string found;  // what is so instead, where it failed
};

struct ScenarioReport {
  std::string file;
  std::string policy;
  place::Instant end = 0;
  double gpu_use = 0;  // of all GPUs over the whole time, from 0 to 1
  std::vector<TimelineEntry> timeline;
  std::vector<ScenarioJobOutcome> jobs;
  std::vector<ExpectationOutcome> expectations;

  [[nodiscard]] std::size_t failed() const;
};

// `policy` is used instead of the scenario's own. Work that ends by itself is followed to its end
// after the last line. Refused: an unknown policy, an event that makes no sense when it comes (a
// job that finishes and does not run, a job that its queue may never hold), each as "FILE:LINE:
// reason; remedy".
[[nodiscard]] Result<ScenarioReport> run_scenario(const Scenario& scenario,
                                                  const std::optional<std::string>& policy = {});

}  // namespace divvy::sim
