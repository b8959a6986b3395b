#include "jobs/reservations.h"

#include <utility>

namespace divvy::jobs {

std::optional<place::Reservation> Reservations::take(model::JobId job) {
  const auto found = heads_.find(job);
  if (found == heads_.end()) return std::nullopt;
  return std::exchange(found->second.reservation, std::nullopt);
}

void Reservations::put(model::JobId job, place::Reservation reservation, WallTime now) {
  Head& head = heads_[job];
  if (reservation.start == place::kNever && !head.since) head.since = now;
  head.reservation = std::move(reservation);
}

const Head* Reservations::head(model::JobId job) const {
  const auto found = heads_.find(job);
  return found == heads_.end() ? nullptr : &found->second;
}

bool Reservations::was_passed(const Head& head, WallTime now) const {
  return head.since && now - *head.since >= settings_.passing;
}

const place::Reservation* Reservations::kept(model::JobId job, WallTime now) const {
  const Head* const found = head(job);
  if (found == nullptr || !found->reservation) return nullptr;
  const bool is_kept = found->reservation->start != place::kNever || was_passed(*found, now);
  return is_kept ? &*found->reservation : nullptr;
}

Claim Reservations::take_claim(model::JobId job) { return claims_.extract(job).mapped(); }

void Reservations::drop(model::JobId job) {
  heads_.erase(job);
  claims_.erase(job);
}

void Reservations::drop_places() {
  claims_.clear();
  for (auto& [id, head] : heads_) head.reservation.reset();
}

}  // namespace divvy::jobs
