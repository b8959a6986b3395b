// Who starts: one pass through the line.
//
// The jobs are tried in the order of their turn. One that its queue or user may not hold is passed
// over. One that fits starts. The first few that do not fit get a reservation, and from then on a
// job starts only if that delays none of them (backfill). Where nobody knows when the reserved one
// starts, others may pass it for a while (Settings::passing) rather than leave GPUs idle. A request
// that did not fit is not tried again in the same pass: a pass only ever takes, so it would not fit
// later either.
//
// Made by jobs::Queue for each pass; keeps nothing beyond it.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <tuple>

#include "jobs/queue_view.h"

namespace divvy::jobs {

class Pass {
 public:
  // All outlive it; the view is of the same parts.
  Pass(const QueueView& view, FleetView& fleet, JobBook& book, Reservations& reservations,
       Attempts& attempts, WallTime now);

  void run();

 private:
  void move_up_passed();
  void start_claims();
  [[nodiscard]] bool may_start_at(const Entry& entry, const Claim& claim);
  [[nodiscard]] bool try_start(Entry& entry);
  void start(Entry& entry, std::span<const place::Spot> spots);
  // True: others were told to make way.
  [[nodiscard]] bool make_room(const Entry& entry, const place::Request& request);
  void reserve_for(const Entry& entry, const place::Request& request,
                   const std::optional<place::Reservation>& before);

  const QueueView& view_;
  FleetView& fleet_;
  JobBook& book_;
  Reservations& reservations_;
  Attempts& attempts_;
  WallTime now_;
  // What it has found out so far.
  place::Outlook outlook_;
  std::optional<QueueTree> ahead_;  // QueueView::tree_after_claims
  std::uint32_t reserved_ = 0;
  std::uint32_t tries_left_;
  std::uint32_t rooms_left_;
  std::set<std::tuple<ShapeId, std::uint32_t, place::Instant>> do_not_fit_;
  std::set<std::tuple<ShapeId, QueueId, std::int32_t, std::optional<UserId>>> find_no_room_;
};

}  // namespace divvy::jobs
