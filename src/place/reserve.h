// Reservations for requests that wait, and who may start before them. A large gang that waits while
// small requests take every GPU that becomes free would wait for ever; with a reservation it has a
// place and, where the ends of running work are expected, a time. Smaller requests may still start
// if that delays nobody (backfill): they end before, or use something else.
//
// Pure: time is a number that the caller gives, in any unit; the caller keeps the reservations and
// asks again when things change. Nothing is taken from the cluster. Called by the thread that owns
// the placer.
//
// Without expected ends a reservation has no time (kNever). It then holds back what it needs: spots
// where the least has to become free, which nobody else gets, so that they fill up from what
// running work leaves there. It can start as soon as `ready` says so.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "place/cluster.h"
#include "place/placer.h"
#include "place/request.h"

namespace divvy::place {

using Instant = std::int64_t;
inline constexpr Instant kNever = std::numeric_limits<Instant>::max();

// A member that runs is expected to leave then. What is overdue is expected to leave next.
struct Ending {
  HoldingId holding;
  Instant at = kNever;
};

struct Reservation {
  std::string name;           // of the request
  std::int32_t priority = 0;  // of the request
  Instant start = kNever;     // the earliest; kNever: when its spots are free
  std::vector<Spot> spots;
  // It may start before that, at any moment: then not even what ends in time may be on its spots.
  bool any_moment = false;
};

// What is known about the time ahead.
struct Outlook {
  Instant now = 0;
  std::vector<Ending> endings;
  std::vector<Reservation> reservations;
};

// The earliest start of a request that waits and the spots that it will use, beside the
// reservations that exist. Nothing if it could never start, whoever leaves.
[[nodiscard]] std::optional<Reservation> reserve(Placer& placer, const Outlook& outlook,
                                                 const Request& request);

struct Backfill {
  std::vector<Spot> spots;  // where it may start now; empty: it may not
  std::string why_not;      // "it would delay train, which starts at 120"
  [[nodiscard]] bool allowed() const { return !spots.empty(); }
};
// May the request start now? Without a duration it is taken to run for ever.
[[nodiscard]] Backfill may_backfill(Placer& placer, const Outlook& outlook, const Request& request,
                                    std::optional<Instant> duration);

// The first reservation that could not start in time if these spots were taken from now until
// `until`; nothing if all can.
[[nodiscard]] const Reservation* delayed_by(Cluster& cluster, const Outlook& outlook,
                                            std::span<const Spot> spots, Instant until);

// Everything that it needs is free, on open nodes and healthy GPUs.
[[nodiscard]] bool ready(Cluster& cluster, const Reservation& reservation);
// Its spots could become free: their nodes are open and their GPUs healthy. Otherwise it has to be
// made anew.
[[nodiscard]] bool still_possible(const Cluster& cluster, const Reservation& reservation);

// Takes what is free of the reserved spots, so that nobody is planned there. Between mark() and
// rollback().
void hold(Cluster& cluster, std::span<const Spot> spots);

}  // namespace divvy::place
