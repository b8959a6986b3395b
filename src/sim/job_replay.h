// Replays a trace of jobs through a policy that orders them (place/job_order.h) and says when every
// job finished. Deterministic: the same trace, policy and options give the same times. One replay
// belongs to one thread; several may run side by side, each with its own policy.
//
// Time goes from event to event: a submission, the end of a job, or the moment at which the policy
// wants to look again. At every event the GPUs are given to the jobs from the front of the order,
// each on one node if it fits there, else on whole nodes (sim/free_gpus.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "place/job_order.h"
#include "sim/free_gpus.h"
#include "sim/job_sharing.h"
#include "sim/job_trace.h"

namespace divvy::sim {

// What a restart costs (restart_cost_s), and when it is charged.
enum class RestartCost {
  // As in the published simulator: every event takes every running job from its GPUs and puts it
  // back, and what it did since the event before counts less the cost of a restart; only a job that
  // ends at the moment that was predicted for it ends without cost.
  kProtocol,
  // For real restarts only: a job makes no progress for the time of a restart after it was started,
  // started again, or moved to other GPUs. A job that stays where it is pays nothing.
  kReal,
};
[[nodiscard]] std::string_view to_string(RestartCost cost);
[[nodiscard]] Result<RestartCost> parse_restart_cost(std::string_view text);

struct JobOutcome {
  double started_s = 0;
  double ended_s = 0;
  std::uint32_t starts = 0;  // Times that it was put on GPUs on which it was not just before.
};

struct ReplayResult {
  std::vector<JobOutcome> jobs;  // As in the trace.
  std::uint64_t events = 0;
};

struct RunningJob {
  std::uint32_t job = 0;
  std::span<const NodePart> place;
  bool guest = false;  // Shares the GPUs of another, whose place is the same.
};

struct ReplayOptions {
  ClusterShape cluster;
  RestartCost restart_cost = RestartCost::kReal;
  // With kResources, jobs that found no GPUs join running ones of the same size, as long as all
  // together do at least a quarter more than before (sim/job_sharing.h). Only where restart costs
  // are real and the policy preempts.
  ShareModel share = ShareModel::kNone;
  // Called after every event with how many jobs have finished; may be empty.
  std::function<void(std::size_t finished)> progress;
  // Called after every event with who runs where and how many wait; may be empty.
  std::function<void(double now_s, std::span<const RunningJob>, std::size_t waiting)> observe;
};

// The trace fits the cluster (read_job_trace checked that).
[[nodiscard]] ReplayResult replay_jobs(const JobTrace& trace, place::JobOrder& order,
                                       const ReplayOptions& options);

}  // namespace divvy::sim
