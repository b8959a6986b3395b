#include "place/reserve.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/text.h"
#include "place/shortfall.h"

namespace divvy::place {
namespace {

// What is overdue leaves next.
Instant expected(const Ending& ending, Instant now) {
  return ending.at == kNever ? kNever : std::max(ending.at, now + 1);
}

void release_until(Cluster& cluster, const Outlook& outlook, Instant time) {
  for (const Ending& ending : outlook.endings) {
    if (expected(ending, outlook.now) <= time && cluster.holding(ending.holding).live) {
      cluster.release(ending.holding);
    }
  }
}

bool open_and_healthy(const Cluster& cluster, const Spot& spot) {
  const NodeState& state = cluster.state(spot.node);
  if (!state.open || (spot.whole & ~unsigned{state.usable}) != 0) return false;
  return spot.part_device < 0 || (state.usable >> spot.part_device & 1) != 0;
}

bool take_if_all_fit(Cluster& cluster, std::span<const Spot> spots) {
  for (const Spot& spot : spots) {
    if (!open_and_healthy(cluster, spot) || !cluster.fits(spot)) return false;
    cluster.take(spot);
  }
  return true;
}

std::vector<const Reservation*> by_start(const Outlook& outlook) {
  std::vector<const Reservation*> sorted;
  sorted.reserve(outlook.reservations.size());
  for (const Reservation& reservation : outlook.reservations) sorted.push_back(&reservation);
  std::ranges::sort(sorted, {}, [](const Reservation* reservation) {
    return std::pair(reservation->start, reservation);
  });
  return sorted;
}

// The cluster as it will be then: those who left are gone, those who were to start have started,
// and what the later ones wait for is held. Between mark() and rollback().
void advance(Cluster& cluster, const Outlook& outlook, Instant time) {
  release_until(cluster, outlook, time);
  // Nobody starts in what an earlier reservation has, so the order decides nothing.
  for (const Reservation* reservation : by_start(outlook)) hold(cluster, reservation->spots);
}

std::vector<Spot> plan_at(Placer& placer, const Outlook& outlook, const Request& request,
                          Instant time) {
  Cluster& cluster = placer.cluster();
  const Cluster::Mark mark = cluster.mark();
  advance(cluster, outlook, time);
  std::vector<Spot> spots = placer.plan(request);
  cluster.rollback(mark);
  return spots;
}

// Can this one start in time, all those before it having started?
bool starts_in_time(Cluster& cluster, const Outlook& outlook, const Reservation& reservation,
                    std::span<const Spot> beside) {
  const Cluster::Mark mark = cluster.mark();
  bool possible = true;
  std::vector<HoldingId> others;
  if (reservation.start == kNever) {
    for (const Spot& spot : reservation.spots) {
      for (const HoldingId holding : cluster.on(spot.node)) others.push_back(holding);
    }
  }
  for (const Spot& spot : beside) {
    possible = possible && cluster.fits(spot);
    if (possible) cluster.take(spot);
  }
  release_until(cluster, outlook, reservation.start == kNever ? kNever - 1 : reservation.start);
  for (const HoldingId holding : others) {
    if (cluster.holding(holding).live) cluster.release(holding);
  }
  for (const Reservation* earlier : by_start(outlook)) {
    if (earlier == &reservation) break;
    hold(cluster, earlier->spots);
  }
  possible = possible && take_if_all_fit(cluster, reservation.spots);
  cluster.rollback(mark);
  return possible;
}

}  // namespace

void hold(Cluster& cluster, std::span<const Spot> spots) {
  for (const Spot& spot : spots) {
    const NodeState& state = cluster.state(spot.node);
    Spot free = spot;
    free.whole &= state.whole;
    free.cpu_milli = std::clamp<std::int64_t>(state.cpu_free, 0, spot.cpu_milli);
    free.ram = std::clamp<std::int64_t>(state.ram_free, 0, spot.ram);
    if (spot.part_device >= 0) {
      const std::size_t device = static_cast<std::uint8_t>(spot.part_device);
      if ((state.usable >> device & 1) == 0 || (free.whole >> device & 1) != 0) {
        free.part_device = -1;
        free.part = 0;
        free.part_memory = 0;
      } else {
        free.part = std::min(spot.part, state.share_free[device]);
        free.part_memory = std::min(spot.part_memory, state.memory_free[device]);
      }
    }
    // A GPU that becomes free bit by bit is kept free for the one who waits for all of it.
    for (unsigned left = spot.whole & ~unsigned{state.whole} & state.usable; left != 0;
         left &= left - 1) {
      const auto device = static_cast<std::size_t>(std::countr_zero(left));
      const Spot rest{.node = spot.node,
                      .part_device = static_cast<std::int16_t>(device),
                      .part = state.share_free[device],
                      .part_memory = state.memory_free[device]};
      if ((rest.part != 0 || rest.part_memory != 0) && cluster.fits(rest)) {
        cluster.take(rest, 0, std::numeric_limits<std::int32_t>::max(), false);
      }
    }
    if (cluster.fits(free)) {
      cluster.take(free, 0, std::numeric_limits<std::int32_t>::max(), false);
    }
  }
}

std::optional<Reservation> reserve(Placer& placer, const Outlook& outlook, const Request& request) {
  Reservation result;
  result.name = request.name;
  result.priority = request.priority;
  std::vector<Instant> times{outlook.now};
  for (const Ending& ending : outlook.endings) {
    if (expected(ending, outlook.now) != kNever) times.push_back(expected(ending, outlook.now));
  }
  std::ranges::sort(times);
  times.erase(std::ranges::unique(times).begin(), times.end());
  // The more has ended, the more fits: halve the times between "does not fit" and "fits".
  std::size_t low = 0;
  std::size_t high = times.size() - 1;
  std::vector<Spot> spots = plan_at(placer, outlook, request, times[high]);
  if (!spots.empty()) {
    while (low < high) {
      const std::size_t middle = low + (high - low) / 2;
      auto earlier = plan_at(placer, outlook, request, times[middle]);
      if (earlier.empty()) {
        low = middle + 1;
      } else {
        high = middle;
        spots = std::move(earlier);
      }
    }
    result.start = times[high];
    result.spots = std::move(spots);
    return result;
  }
  // Nobody knows when enough has ended: hold back where the least is missing.
  Cluster& cluster = placer.cluster();
  std::vector<Spot> kept;
  const Cluster::Mark mark = cluster.mark();
  for (const Reservation& other : outlook.reservations) {
    hold(cluster, other.spots);
    kept.insert(kept.end(), other.spots.begin(), other.spots.end());
  }
  auto room = find_room(cluster, request, request.least(), kept);
  cluster.rollback(mark);
  if (!room) return std::nullopt;
  result.spots = std::move(room->spots);
  return result;
}

const Reservation* delayed_by(Cluster& cluster, const Outlook& outlook, std::span<const Spot> spots,
                              Instant until) {
  for (const Reservation* reservation : by_start(outlook)) {
    const bool over_before = until <= reservation->start && reservation->start != kNever;
    if (over_before && !reservation->any_moment) continue;
    if (starts_in_time(cluster, outlook, *reservation, spots)) continue;
    // It may be impossible anyhow, because a node broke: that is not this request's doing.
    if (starts_in_time(cluster, outlook, *reservation, {})) return reservation;
  }
  return nullptr;
}

Backfill may_backfill(Placer& placer, const Outlook& outlook, const Request& request,
                      std::optional<Instant> duration) {
  Cluster& cluster = placer.cluster();
  Backfill result;
  std::vector<Spot> spots = placer.plan(request);
  if (spots.empty()) {
    result.why_not = "it does not fit as things are";
    return result;
  }
  const Instant until =
      duration && *duration < kNever - outlook.now ? outlook.now + *duration : kNever;
  const Reservation* delayed = delayed_by(cluster, outlook, spots, until);
  if (delayed == nullptr) {
    result.spots = std::move(spots);
    return result;
  }
  // Once more, beside everything that those have reserved who start before it ends.
  const Cluster::Mark mark = cluster.mark();
  for (const Reservation& reservation : outlook.reservations) {
    if (reservation.start == kNever || reservation.start < until || reservation.any_moment) {
      hold(cluster, reservation.spots);
    }
  }
  spots = placer.plan(request);
  cluster.rollback(mark);
  if (!spots.empty() && delayed_by(cluster, outlook, spots, until) == nullptr) {
    result.spots = std::move(spots);
    return result;
  }
  const std::string name = escape_for_terminal(delayed->name);
  result.why_not = delayed->start == kNever
                       ? fmt::format("{} waits for these GPUs", name)
                       : fmt::format("it would delay {}, which starts at {}", name, delayed->start);
  return result;
}

bool ready(Cluster& cluster, const Reservation& reservation) {
  const Cluster::Mark mark = cluster.mark();
  const bool fits = take_if_all_fit(cluster, reservation.spots);
  cluster.rollback(mark);
  return fits;
}

bool still_possible(const Cluster& cluster, const Reservation& reservation) {
  return std::ranges::all_of(reservation.spots, [&](const Spot& spot) {
    return spot.node.value() < cluster.size() && open_and_healthy(cluster, spot);
  });
}

}  // namespace divvy::place
