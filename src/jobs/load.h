// How the queues and the users stand, for those who show it and for monitoring. Called by
// jobs::Queue.
#pragma once

#include <vector>

#include "jobs/explain.h"
#include "jobs/queue_view.h"
#include "jobs/tally.h"

namespace divvy::jobs {

// In the order of their paths and of their names.
[[nodiscard]] std::vector<QueueReport> queue_reports(const QueueView& view);
[[nodiscard]] std::vector<UserReport> user_reports(const QueueTree& tree);

[[nodiscard]] Load load_of(const QueueView& view, WallTime now);

}  // namespace divvy::jobs
