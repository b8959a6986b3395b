// Places that are kept for jobs in line. The first of those that do not fit have a reservation;
// those for whom others were told to make way have a claim on what these leave. A job that leaves
// the line loses both. jobs::Queue owns it; a pass makes them.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "jobs/settings.h"
#include "model/job.h"
#include "place/reserve.h"

namespace divvy::jobs {

// A place for which others were told to make way.
struct Claim {
  std::vector<place::Spot> spots;
  std::vector<model::JobId> victims;
};

// A job in line that has or had a reservation.
struct Head {
  std::optional<place::Reservation> reservation;
  // Since when it has one without a time: from then on others may pass it for a while.
  std::optional<WallTime> since;
};

class Reservations {
 public:
  // The settings outlive it.
  explicit Reservations(const Settings& settings) : settings_(settings) {}

  // Takes a job's reservation from it: every pass makes them anew.
  [[nodiscard]] std::optional<place::Reservation> take(model::JobId job);
  void put(model::JobId job, place::Reservation reservation, WallTime now);
  [[nodiscard]] const std::map<model::JobId, Head>& heads() const { return heads_; }
  // Null: it never had a reservation.
  [[nodiscard]] const Head* head(model::JobId job) const;
  // Others passed it for as long as may be.
  [[nodiscard]] bool was_passed(const Head& head, WallTime now) const;
  // The place that nobody else may use, because its start is known or it was passed long enough;
  // null: there is none.
  [[nodiscard]] const place::Reservation* kept(model::JobId job, WallTime now) const;

  void put(model::JobId job, Claim claim) { claims_.emplace(job, std::move(claim)); }
  [[nodiscard]] Claim take_claim(model::JobId job);
  [[nodiscard]] const std::map<model::JobId, Claim>& claims() const { return claims_; }

  // It has left the line.
  void drop(model::JobId job);
  // The fleet is another one: no place is what it was.
  void drop_places();
  // How many entries its tables have.
  [[nodiscard]] std::size_t entries_kept() const { return heads_.size() + claims_.size(); }

 private:
  const Settings& settings_;
  std::map<model::JobId, Head> heads_;
  std::map<model::JobId, Claim> claims_;
};

}  // namespace divvy::jobs
