// The parts of the queue as those see them who change nothing, and what more than one of these
// asks: what a job asks for now, how much of it the limits allow, who leaves when. Made by
// jobs::Queue for one question or one pass; the parts outlive it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "jobs/attempts.h"
#include "jobs/fair_share.h"
#include "jobs/fleet_view.h"
#include "jobs/holdings.h"
#include "jobs/job_book.h"
#include "jobs/queue_tree.h"
#include "jobs/reservations.h"
#include "jobs/settings.h"
#include "jobs/shapes.h"
#include "place/reserve.h"

namespace divvy::jobs {

struct QueueView {
  const Settings& settings;
  const QueueTree& tree;
  const FairShare& shares;
  const FleetView& fleet;
  const Shapes& shapes;
  const JobBook& book;
  const Holdings& holdings;
  const Reservations& reservations;
  const Attempts& attempts;

  // What a job asks for, of GPUs that are in its mode or that nobody holds.
  [[nodiscard]] place::Request request_for(const Entry& entry) const;
  // The same on GPUs that no other replica of its service has; nothing: there are none, or it is no
  // replica. Preferred, and not waited for: one GPU that fails is to end no more of them than need
  // be.
  [[nodiscard]] std::optional<place::Request> apart_from_siblings(const Entry& entry,
                                                                  place::Request request) const;
  [[nodiscard]] std::vector<std::string> all_gpus() const;
  // What so many members take at least, and what they take in these spots.
  [[nodiscard]] Held least(const Entry& entry, std::uint32_t members) const {
    return shapes[entry.shape].least(members);
  }
  [[nodiscard]] Held held_at(const Entry& entry, std::span<const place::Spot> spots) const;
  // As many members as the limits leave to it, and none if that is fewer than it needs.
  [[nodiscard]] std::uint32_t members_allowed(const Entry& entry,
                                              const std::optional<QueueTree>& ahead) const;
  // What is held when those who make way are gone and those for whom they do have started; nothing
  // where nobody does. Limits are kept for them like places: what one of several leaves is not for
  // somebody else until the last is gone.
  [[nodiscard]] std::optional<QueueTree> tree_after_claims() const;
  // When those who run leave, as far as that is known. Without reservations.
  [[nodiscard]] place::Outlook outlook(WallTime now) const;
  // The place that others make. They may be gone long before their grace is over, or stay longer,
  // and whoever were there in the meantime would have to make way, too.
  [[nodiscard]] place::Reservation kept_for(const Entry& entry, const Claim& claim,
                                            WallTime now) const;
  // Those in line, in the order in which they would start if each found its place.
  [[nodiscard]] std::vector<model::JobId> order() const;
};

// Whole seconds, as placement counts them.
[[nodiscard]] place::Instant instant(WallTime time);
// How long it may take at most, as far as that is known.
[[nodiscard]] std::optional<Seconds> longest(const model::JobSpec& spec);
// Reservations of a pass are of jobs that came before, so nobody who comes later may touch them,
// whatever its priority.
inline constexpr std::int32_t kAboveAll = std::numeric_limits<std::int32_t>::max();

}  // namespace divvy::jobs
