// What came out of replaying a trace of jobs, in numbers, as JSON and as a table, and the one call
// behind `divvy sim jobs`. Callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "sim/job_replay.h"

namespace divvy::sim {

struct JobSummary {
  std::string policy;
  std::string trace;
  RestartCost restart_cost = RestartCost::kReal;
  ShareModel share = ShareModel::kNone;
  std::size_t jobs = 0;
  // Completion time: from submission to end.
  double avg_jct_s = 0;
  double p99_jct_s = 0;   // The value at index floor(0.99 n) of all, sorted, from 0.
  double makespan_s = 0;  // From time 0 of the trace to the end of the last job.
  std::uint64_t starts = 0;
  std::uint64_t events = 0;
};

[[nodiscard]] JobSummary summarize(const JobTrace& trace, const ReplayResult& result);

// {"policy":..., "jobs":n, "avg_jct_s":..., "p99_jct_s":..., "makespan_s":..., ...} with a line
// end.
[[nodiscard]] std::string to_json(const JobSummary& summary);
// One policy is that object; several are {"trace":..., "runs":[...]}.
[[nodiscard]] std::string to_json(std::span<const JobSummary> summaries);
// A line for each policy, after one that says what was replayed and how restarts were charged.
[[nodiscard]] std::string to_table(std::span<const JobSummary> summaries,
                                   const ClusterShape& cluster);

struct JobsOptions {
  std::string trace;                  // A file, plain or compressed with gzip.
  std::vector<std::string> policies;  // At least one name (place/job_order.h).
  ClusterShape cluster;
  RestartCost restart_cost = RestartCost::kProtocol;
  ShareModel share = ShareModel::kNone;  // Anything else needs RestartCost::kReal.
  bool json = false;
  // Called now and then with the part that is done, from 0 to 1; may be empty.
  std::function<void(double part)> progress;
};

// Replays the trace once for each policy and gives back what is to be printed.
[[nodiscard]] Result<std::string> run_jobs(const JobsOptions& options);

}  // namespace divvy::sim
