// Who would have to leave a node so that a member fits there: the search that preemption and
// defragmentation share. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "place/ask.h"
#include "place/node_trial.h"

namespace divvy::place {

// Something that can leave, with all that it has on this node.
struct Leaver {
  std::size_t number = 0;  // the caller's
  std::vector<Spot> spots;
};

// Fewer than this cannot be enough; more than leavers.size(): not even all of them are.
[[nodiscard]] std::size_t fewest_leavers(const NodeTrial& node, const Ask& ask,
                                         std::span<const Leaver> leavers);

// A set after which the member fits and of which nobody could stay. Those who stand first in
// `leavers` go first. Positions in `leavers`, ascending; empty if not even all are enough.
[[nodiscard]] std::vector<std::size_t> some_clearing(const NodeTrial& node, const Ask& ask,
                                                     std::span<const Leaver> leavers);

// Every set of that size after which the member fits. Stops when `tries` is used up, and says so.
using VisitClearing = std::function<void(std::span<const std::size_t>)>;
[[nodiscard]] bool visit_clearings(const NodeTrial& node, const Ask& ask,
                                   std::span<const Leaver> leavers, std::size_t size,
                                   std::uint64_t& tries, const VisitClearing& visit);

}  // namespace divvy::place
