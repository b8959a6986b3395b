// Who goes elsewhere so that a job that waits finds its GPUs in one piece. Only planned where
// somebody asks: a move costs its job a stop and a start, which no pass decides on its own. Called
// by jobs::Queue.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "jobs/queue_view.h"

namespace divvy::jobs {

// What is free on nodes that take new work, and in what pieces.
struct FreeRoom {
  std::uint64_t share = 0;         // thousandths, all of it
  std::uint64_t stranded = 0;      // of it on GPUs of which somebody has a part
  std::uint32_t largest_gpus = 0;  // whole GPUs that are free on one node
  std::uint32_t largest_part = 0;  // thousandths that are free of one GPU
  friend bool operator==(const FreeRoom&, const FreeRoom&) = default;
};
[[nodiscard]] FreeRoom free_room(const place::Cluster& cluster);

struct MovePlan {
  std::vector<Move> moves;              // in an order in which each is possible
  std::vector<model::JobMember> place;  // of the job that waits, afterwards
  FreeRoom before;
  FreeRoom after;  // the moves, and before the job starts
};

// Of jobs that the queue may evict: whether they may be moved. Empty: all of them.
using MayMove = std::function<bool(model::JobId)>;

// As Queue::plan_moves.
[[nodiscard]] Result<std::optional<MovePlan>> plan_moves(const QueueView& view, model::JobId job,
                                                         std::size_t most, const MayMove& may_move,
                                                         WallTime now);

}  // namespace divvy::jobs
