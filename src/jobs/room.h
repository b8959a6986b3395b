// Who makes way for a job that does not fit: jobs of lower priority in its own queue, and jobs of
// queues that hold more than they were promised while its own holds less. Only searched here, for
// one job in one pass; the pass tells them to stop and keeps the place until they are gone.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "jobs/queue_view.h"
#include "place/placer.h"

namespace divvy::jobs {

class RoomSearch {
 public:
  // All outlive it. Tries things out on the placer's cluster, which is afterwards as it was.
  RoomSearch(const QueueView& view, place::Placer& placer, const Entry& entry,
             const place::Request& request, std::span<const place::Reservation> reservations,
             WallTime now);

  // Somebody may be evicted, and those who leave anyhow do not leave enough.
  [[nodiscard]] bool is_needed() const;
  // Once. Nothing: whoever is evicted, it would not fit.
  [[nodiscard]] std::optional<Claim> find();

 private:
  [[nodiscard]] std::vector<const Holding*> candidates(WallTime now) const;
  [[nodiscard]] bool room_is_coming() const;
  [[nodiscard]] bool limits_allow_without(std::span<const Holding* const> leaving) const;
  [[nodiscard]] bool free_quota(QueueTree& tree);
  [[nodiscard]] std::optional<std::vector<place::Spot>> free_place(QueueTree& tree);

  const QueueView& view_;
  place::Placer& placer_;
  const Entry& entry_;
  const place::Request& request_;
  std::span<const place::Reservation> reservations_;
  Held wanted_;
  std::vector<const Holding*> candidates_;
  std::vector<const Holding*> victims_;
};

}  // namespace divvy::jobs
