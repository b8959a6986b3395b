// Which nodes would have to be added for those to start who wait for room, for whoever adds nodes:
// a person or an autoscaler. Tried out on a copy of the fleet, in the order of the line: who fits
// on what is free or was added for somebody before needs nothing more. Who waits for a limit is not
// counted, because no node would help. Called by jobs::Queue.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "jobs/queue_view.h"
#include "place/node_spec.h"

namespace divvy::jobs {

// As one more of its kind would be: empty and healthy. Its name is the kind's.
struct NodeKind {
  place::NodeSpec node;
  std::uint32_t most = 1000;  // that can be added
  friend bool operator==(const NodeKind&, const NodeKind&) = default;
};

// One sentence about the first thing that is wrong.
[[nodiscard]] Status check(const NodeKind& kind);

struct GrowthLimits {
  std::uint32_t jobs = 64;   // of those in line, from the front
  std::uint32_t nodes = 64;  // in all
  std::uint32_t tries = 64;
};

struct Growth {
  struct Wanted {
    std::size_t kind = 0;
    std::uint32_t nodes = 0;
    std::vector<model::JobId> jobs = {};  // that start there, in the order of the line
    friend bool operator==(const Wanted&, const Wanted&) = default;
  };
  std::vector<Wanted> wanted;            // in the order of the kinds
  std::vector<model::JobId> not_helped;  // who would not fit on nodes of these kinds
  friend bool operator==(const Growth&, const Growth&) = default;
};

[[nodiscard]] Growth plan_growth(const QueueView& view, std::span<const NodeKind> kinds,
                                 GrowthLimits limits = {});

}  // namespace divvy::jobs
