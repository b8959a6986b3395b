#include "jobs/pass.h"

#include <algorithm>

#include "base/text.h"
#include "jobs/room.h"

namespace divvy::jobs {
namespace {

using model::JobState;
using model::StopReason;

// Each looks at many sets of victims, and what it frees has to be there before the next.
constexpr std::uint32_t kRooms = 4;

}  // namespace

Pass::Pass(const QueueView& view, FleetView& fleet, JobBook& book, Reservations& reservations,
           Attempts& attempts, WallTime now)
    : view_(view),
      fleet_(fleet),
      book_(book),
      reservations_(reservations),
      attempts_(attempts),
      now_(now),
      tries_left_(view.settings.tries),
      rooms_left_(kRooms) {}

void Pass::run() {
  move_up_passed();
  outlook_ = view_.outlook(now_);
  start_claims();
  ahead_ = view_.tree_after_claims();
  Turn turn(book_.line(), view_.tree, view_.shares);
  while (tries_left_ != 0) {
    const auto id = turn.next();
    if (!id) break;
    if (reservations_.claims().contains(*id)) continue;
    if (try_start(book_.at(*id))) turn.started();
  }
}

// Those who were passed for as long as may be come before others of their queue and priority. A
// user who has used less would stand before them, and the next one after that, without end. Those
// who are older stay before them.
void Pass::move_up_passed() {
  const auto age = [](const Entry& entry) { return std::pair(entry.job.submitted, entry.job.id); };
  for (const auto& [id, head] : reservations_.heads()) {
    Entry& entry = book_.at(id);
    const bool waits = head.reservation && head.reservation->start == place::kNever;
    if (entry.passed || !waits || !reservations_.was_passed(head, now_)) continue;
    const bool is_oldest = std::ranges::none_of(reservations_.heads(), [&](const auto& item) {
      const Entry& other = book_.at(item.first);
      return other.queue == entry.queue && other.job.spec.priority == entry.job.spec.priority &&
             other.job.spec.job_class == entry.job.spec.job_class && !other.passed &&
             item.second.reservation && age(other) < age(entry);
    });
    if (is_oldest) book_.move_up(entry);
  }
}

bool Pass::may_start_at(const Entry& entry, const Claim& claim) {
  const place::Reservation place{"", 0, place::kNever, claim.spots};
  return !view_.holdings.array_is_full(entry.job) &&
         !view_.tree.obstacle(entry.queue, entry.user, view_.held_at(entry, claim.spots)) &&
         place::ready(fleet_.cluster(), place);
}

// Those for whom others made way come first: the place was made for them.
void Pass::start_claims() {
  std::vector<model::JobId> over;
  for (const auto& [id, claim] : reservations_.claims()) {
    const Entry& entry = book_.at(id);
    const bool waits = std::ranges::any_of(claim.victims, [this](model::JobId victim) {
      const Holding* const other = view_.holdings.find(victim);
      return other != nullptr && other->job().state == JobState::kStopping;
    });
    if (waits && !may_start_at(entry, claim)) {
      outlook_.reservations.push_back(view_.kept_for(entry, claim, now_));
    } else {
      over.push_back(id);
    }
  }
  for (const model::JobId id : over) {
    const Claim claim = reservations_.take_claim(id);
    Entry& entry = book_.at(id);
    // Otherwise something else came in between; it waits like everybody.
    if (may_start_at(entry, claim)) start(entry, claim.spots);
  }
}

void Pass::start(Entry& entry, std::span<const place::Spot> spots) {
  book_.dequeue(entry);
  reservations_.drop(entry.job.id);
  attempts_.start(entry, spots, now_);
}

bool Pass::try_start(Entry& entry) {
  const auto before = reservations_.take(entry.job.id);
  if (view_.holdings.array_is_full(entry.job)) return false;
  const model::JobSpec& spec = entry.job.spec;
  const auto length = longest(spec);
  const place::Instant duration = length ? length->count() : place::kNever;
  const auto may_evict = [&](std::optional<UserId> user) {
    return view_.settings.preemption &&
           !find_no_room_.contains({entry.shape, entry.queue, spec.priority, user});
  };
  // Most of a long line is known by this look alone.
  if (spec.least() == spec.members() && !may_evict(std::nullopt) &&
      do_not_fit_.contains(std::tuple(entry.shape, spec.members(), duration))) {
    return false;
  }
  const std::uint32_t members = view_.members_allowed(entry, ahead_);
  const std::tuple tried(entry.shape, members, duration);
  const bool known = members != 0 && do_not_fit_.contains(tried);
  // Who has to make way for its limits depends on the user, too.
  const auto user = members == 0 ? std::optional(entry.user) : std::nullopt;
  if ((known || members == 0) && !may_evict(user)) return false;
  place::Request request = view_.request_for(entry);
  if (members != 0 && !known) {
    request.members = members;
    const auto spots_for = [&](const place::Request& wanted) {
      if (outlook_.reservations.empty()) return fleet_.placer().plan(wanted);
      return place::may_backfill(fleet_.placer(), outlook_, wanted,
                                 length ? std::optional(duration) : std::nullopt)
          .spots;
    };
    std::vector<place::Spot> spots;
    if (const auto apart = view_.apart_from_siblings(entry, request)) spots = spots_for(*apart);
    if (spots.empty()) spots = spots_for(request);
    if (!spots.empty()) {
      // Only now it is known how much memory its GPUs have; an elastic job can do with fewer.
      const auto too_much = [&](const QueueTree& tree) {
        return tree.obstacle(entry.queue, entry.user, view_.held_at(entry, spots)).has_value();
      };
      while (too_much(view_.tree) || (ahead_ && too_much(*ahead_))) {
        if (spots.size() == spec.least()) return false;
        spots.pop_back();
      }
      start(entry, spots);
      const Holding& holding = view_.holdings.at(entry.job.id);
      if (ahead_) ahead_->take(entry.queue, entry.user, holding.held);
      if (length) {
        for (const place::HoldingId place : holding.places) {
          outlook_.endings.push_back({place, outlook_.now + duration});
        }
      }
      return true;
    }
    do_not_fit_.insert(tried);
    --tries_left_;
  }
  if (may_evict(user)) {
    if (make_room(entry, request)) return false;
    find_no_room_.insert({entry.shape, entry.queue, spec.priority, user});
  }
  if (members != 0 && !known) reserve_for(entry, request, before);
  return false;
}

bool Pass::make_room(const Entry& entry, const place::Request& request) {
  if (rooms_left_ == 0) return false;
  RoomSearch search(view_, fleet_.placer(), entry, request, outlook_.reservations, now_);
  if (!search.is_needed()) return false;
  --rooms_left_;
  std::optional<Claim> claim = search.find();
  if (!claim) return false;
  for (const model::JobId id : claim->victims) {
    Entry& victim = book_.at(id);
    const bool lower = victim.queue == entry.queue;
    const std::string& queue = view_.tree.settings(entry.queue).path;
    attempts_.stop(
        victim, lower ? StopReason::kPreempted : StopReason::kReclaimed, now_,
        lower ? fmt::format("preempted by {}", name_of(entry.job))
              : fmt::format("its GPU goes back to queue {} for {}", queue, name_of(entry.job)),
        entry.job.id);
    const Holding& holding = view_.holdings.at(id);
    for (const place::HoldingId place : holding.places) {
      std::erase_if(outlook_.endings,
                    [place](const place::Ending& ending) { return ending.holding == place; });
      outlook_.endings.push_back({place, instant(*holding.stop_by)});
    }
  }
  outlook_.reservations.push_back(view_.kept_for(entry, *claim, now_));
  reservations_.put(entry.job.id, *std::move(claim));
  ahead_ = view_.tree_after_claims();
  return true;
}

void Pass::reserve_for(const Entry& entry, const place::Request& request,
                       const std::optional<place::Reservation>& before) {
  if (reserved_ >= view_.settings.reservations) return;
  auto made = place::reserve(fleet_.placer(), outlook_, request);
  if (!made) return;
  // One that waits for nobody knows when keeps its place, as long as that can become free:
  // otherwise it would run after every GPU that somebody leaves.
  const bool keep = made->start == place::kNever && before && before->start == place::kNever &&
                    outlook_.reservations.empty() &&
                    place::still_possible(fleet_.cluster(), *before);
  place::Reservation reservation = keep ? *before : *std::move(made);
  reservation.priority = kAboveAll;
  reservations_.put(entry.job.id, std::move(reservation), now_);
  if (const auto* const kept = reservations_.kept(entry.job.id, now_)) {
    outlook_.reservations.push_back(*kept);
  }
  ++reserved_;
}

}  // namespace divvy::jobs
