// What came out of a scenario, as a table and as JSON, and the one call behind `divvy sim cluster`.
// Callable from any thread.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "sim/scenario_run.h"

namespace divvy::sim {

// The timeline, the jobs, how much of the GPUs was in use, and which expectations failed.
[[nodiscard]] std::string to_table(const ScenarioReport& report);
// {"scenario":..., "policy":..., "passed":true, "end_s":n, "gpu_use":0.8, "timeline":[...],
//  "jobs":[...], "expectations":[...]} with a line end.
[[nodiscard]] std::string to_json(const ScenarioReport& report);

struct ClusterOptions {
  std::string scenario;               // a file
  std::optional<std::string> policy;  // instead of the scenario's own
  bool json = false;
};

struct ClusterAnswer {
  std::string text;  // to be printed
  bool passed = false;
};

// Plays the scenario. The error says "FILE:LINE: reason; remedy".
[[nodiscard]] Result<ClusterAnswer> run_cluster(const ClusterOptions& options);

}  // namespace divvy::sim
