// Who goes elsewhere so that a job that waits finds its GPUs in one piece. Only planned where
// somebody asks: a move costs its job a stop and a start, which no pass decides on its own. Called
// by jobs::Queue.
#pragma once

#include <optional>
#include <vector>

#include "jobs/queue_view.h"

namespace divvy::jobs {

// As Queue::plan_moves.
[[nodiscard]] Result<std::optional<std::vector<Move>>> plan_moves(const QueueView& view,
                                                                  model::JobId job,
                                                                  std::size_t most, WallTime now);

}  // namespace divvy::jobs
