// Which few moves of running members would make a request fit that does not. The GPUs are there,
// but in pieces: members in the way go elsewhere. The cluster is afterwards as it was; the caller
// makes the moves one after the other and then takes the spots. Called by the thread that owns the
// placer.
//
// A move is a stop and a start: the member leaves, then starts at its new spot, which fits at that
// moment. Nobody is moved who is not preemptible or has a higher priority than the request. Only
// members in the way are moved, not others to make room for them, so that a plan may be missed that
// needs a chain of moves; a single move that helps is always found within the limit of tries.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "place/placer.h"
#include "place/request.h"

namespace divvy::place {

struct Move {
  HoldingId holding;
  Spot from;
  Spot to;
};

struct DefragPlan {
  std::vector<Move> moves;  // in this order; none: it fits as things are
  std::vector<Spot> spots;  // of the request, afterwards
};

struct DefragLimits {
  std::size_t moves = 8;
  std::uint64_t tries = 50'000;  // sets of members on one node that are looked at
};

// The request behind a member that runs, which says where else it may go; nullptr: it stays.
using RequestOf = std::function<const Request*(HoldingId)>;

// Nothing if no few moves help.
[[nodiscard]] std::optional<DefragPlan> plan_defrag(Placer& placer, const Request& request,
                                                    const RequestOf& request_of,
                                                    DefragLimits limits = {});

}  // namespace divvy::place
