// A queue as a value: enough to make another one that goes on from here (Queue::restore), for those
// who want to know what would become of it. Without what only those need who run the jobs:
// commands, environments, histories. Made by jobs::Queue; plain values afterwards, for any thread.
#pragma once

#include <cstddef>
#include <vector>

#include "jobs/fair_share.h"
#include "jobs/fleet.h"
#include "jobs/queue_view.h"
#include "jobs/settings.h"
#include "model/job.h"

namespace divvy::jobs {

struct Snapshot {
  Settings settings;
  Fleet fleet;
  // Those that hold something, then those in line in their order, then the others who wait. A
  // dependency that is met is not in them any more, so that nothing of the past is needed.
  std::vector<model::Job> jobs;
  std::vector<UsageRow> usage;
  std::size_t left_out = 0;  // wait, and there were too many
};

// At most so many jobs that wait: it is made while everybody else waits for the queue.
[[nodiscard]] Snapshot snapshot_of(const QueueView& view, std::size_t most_waiting);

}  // namespace divvy::jobs
