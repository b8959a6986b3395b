// Several jobs on the same GPUs, and how fast each of them runs then. An option of the replay of
// jobs, off by default: what sharing gains depends on this model of interference and is only
// claimed together with it.
//
// The model. Alone, a job keeps each of three resources (storage and CPU; the GPU; the network)
// busy for a part of every iteration: the trace's resource_time divided by its iteration_time, at
// most 1. Jobs that share GPUs take turns on each resource. All run at one speed: the speed at
// which the busiest resource is just not overloaded, less 5 % for every job beside the first,
// because turns never fit together without gaps. The memory of the GPUs is taken to be large
// enough.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "base/result.h"
#include "sim/job_trace.h"

namespace divvy::sim {

enum class ShareModel { kNone, kResources };
[[nodiscard]] std::string_view to_string(ShareModel model);
[[nodiscard]] Result<ShareModel> parse_share_model(std::string_view text);

// The jobs on one set of GPUs.
class ShareGroup {
 public:
  static constexpr std::size_t kJobsMax = 4;

  void add(const TraceJob& job);

  [[nodiscard]] std::size_t jobs() const { return jobs_; }
  // Of each of them, where 1 is as fast as alone.
  [[nodiscard]] double speed() const;
  // Of all of them together.
  [[nodiscard]] double throughput() const { return static_cast<double>(jobs_) * speed(); }

 private:
  std::array<double, 3> busy_{};
  std::size_t jobs_ = 0;
};

// Whether it says how busy it keeps anything; without that nobody shares with it.
[[nodiscard]] bool can_share(const TraceJob& job);

// How much more a group does with the job than without it: 1.5 is half as much again. 0 where the
// group is full.
[[nodiscard]] double share_gain(ShareGroup group, const TraceJob& job);

}  // namespace divvy::sim
