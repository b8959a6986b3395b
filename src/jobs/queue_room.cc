// Who makes way for a job that does not fit: jobs of lower priority in its own queue, and jobs of
// queues that hold more than they were promised while its own holds less. They are told to stop and
// the place is kept for it until they are gone.
#include <algorithm>
#include <limits>

#include "base/check.h"
#include "jobs/queue.h"
#include "place/preempt.h"

namespace divvy::jobs {
namespace {

using model::JobState;
using model::StopReason;

// A pass has to end in milliseconds: a good plan soon is better than the best one late.
constexpr place::PreemptionLimits kLimits{.tries = 5'000, .plans = 100};
// How often a plan is made again because it took too much from one queue.
constexpr int kPlans = 4;

}  // namespace

// On a GPU that rests: who leaves it makes room for nobody.
bool Queue::rests(const Entry& entry) {
  place::Cluster& cluster = fleet_.cluster();
  return std::ranges::any_of(entry.holdings, [&cluster](place::HoldingId id) {
    const place::Spot& spot = cluster.holding(id).spot;
    const unsigned devices =
        spot.part_device < 0 ? spot.whole : spot.whole | 1U << spot.part_device;
    return (devices & ~unsigned{cluster.state(spot.node).usable}) != 0;
  });
}

std::vector<Queue::Entry*> Queue::candidates(const Entry& entry, WallTime now) {
  std::vector<Entry*> found;
  const Held wanted = held_of(entry, entry.job.spec.least());
  for (const model::JobId id : active_) {
    Entry& other = *this->entry(id);
    const model::JobSpec& spec = other.job.spec;
    if (other.job.state == JobState::kStopping || !spec.may_make_way()) continue;
    const bool settled = spec.minimum_run == Seconds(0) ||
                         (other.job.started && now - *other.job.started >= spec.minimum_run);
    if (!settled || rests(other)) continue;
    const bool lower = other.queue == entry.queue && spec.priority < entry.job.spec.priority;
    if (lower || tree_.may_reclaim(entry.queue, wanted, other.queue)) found.push_back(&other);
  }
  // The ones with the least right first: lowest priority, then who began last.
  std::ranges::sort(found, {}, [](const Entry* other) {
    return std::tuple(other->job.spec.priority,
                      -other->job.started.value_or(WallTime::max()).time_since_epoch().count(),
                      other->job.id);
  });
  return found;
}

// Until the limits leave room for the job: its victims are taken out of the tree and out of the
// candidates. False if that does not help.
bool Queue::free_quota(const Entry& entry, std::vector<Entry*>& candidates,
                       std::vector<Entry*>& victims) {
  const Held wanted = held_of(entry, entry.job.spec.least());
  while (const auto obstacle = tree_.obstacle(entry.queue, entry.user, wanted)) {
    const auto helps = [&](const Entry* other) {
      if (obstacle->of_user && other->user != entry.user) return false;
      return !obstacle->queue || tree_.is_below(other->queue, *obstacle->queue);
    };
    const auto victim = std::ranges::find_if(candidates, helps);
    if (victim == candidates.end()) return false;
    tree_.give_back((*victim)->queue, (*victim)->user, (*victim)->held);
    victims.push_back(*victim);
    candidates.erase(victim);
  }
  return true;
}

// A place for the job when the victims are gone, and more victims where that takes some. Both are
// taken out of the tree as they are found, so that nobody is asked who is inside its promise.
std::optional<std::vector<place::Spot>> Queue::plan_room(const Entry& entry, place::Request request,
                                                         const Round& round,
                                                         std::vector<Entry*> candidates,
                                                         std::vector<Entry*>& victims) {
  place::Cluster& cluster = fleet_.cluster();
  const Held wanted = held_of(entry, entry.job.spec.least());
  // The candidates are those who may be evicted, whatever their priority.
  request.priority = std::numeric_limits<std::int32_t>::max();
  request.members = entry.job.spec.least();
  for (int i = 0; i < kPlans; ++i) {
    const place::Cluster::Mark mark = cluster.mark();
    for (const Entry* const victim : victims) {
      for (const place::HoldingId holding : victim->holdings) cluster.release(holding);
    }
    for (const Entry* const candidate : candidates) {
      for (const place::HoldingId id : candidate->holdings) {
        const place::Holding held = cluster.holding(id);
        cluster.release(id);
        cluster.take(held.spot, held.job, held.priority, true);
      }
    }
    auto plan =
        place::plan_preemption(fleet_.placer(), request, round.outlook.reservations, kLimits);
    cluster.rollback(mark);
    if (!plan) return std::nullopt;
    std::vector<Entry*> more;
    bool too_much = false;
    for (const place::Victim& victim : plan->victims) {
      Entry* const other = this->entry(model::JobId(victim.job));
      const bool lower = other->queue == entry.queue;
      if (!lower && !tree_.may_reclaim(entry.queue, wanted, other->queue)) {
        std::erase(candidates, other);
        too_much = true;
        break;
      }
      tree_.give_back(other->queue, other->user, other->held);
      more.push_back(other);
    }
    if (!too_much) {
      victims.insert(victims.end(), more.begin(), more.end());
      return std::move(plan->spots);
    }
    for (const Entry* const other : more) tree_.take(other->queue, other->user, other->held);
  }
  return std::nullopt;
}

// Those who are being stopped leave anyhow: nobody else has to if that is enough.
bool Queue::room_is_coming(const Entry& entry, const place::Request& request, const Round& round) {
  std::vector<const Entry*> leaving;
  for (const model::JobId id : active_) {
    const Entry& other = *this->entry(id);
    if (other.job.state == JobState::kStopping) leaving.push_back(&other);
  }
  if (leaving.empty()) return false;
  place::Cluster& cluster = fleet_.cluster();
  const place::Cluster::Mark mark = cluster.mark();
  for (const Entry* const other : leaving) {
    tree_.give_back(other->queue, other->user, other->held);
    for (const place::HoldingId holding : other->holdings) cluster.release(holding);
  }
  for (const place::Reservation& reservation : round.outlook.reservations) {
    place::hold(cluster, reservation.spots);
  }
  const Held wanted = held_of(entry, entry.job.spec.least());
  const bool enough =
      !tree_.obstacle(entry.queue, entry.user, wanted) && !fleet_.placer().plan(request).empty();
  cluster.rollback(mark);
  for (const Entry* const other : leaving) tree_.take(other->queue, other->user, other->held);
  return enough;
}

void Queue::make_room(Entry& entry, const place::Request& request, Round& round) {
  if (round.rooms == 0) return;
  std::vector<Entry*> candidates = this->candidates(entry, round.now);
  if (candidates.empty()) return;
  if (room_is_coming(entry, request, round)) return;
  --round.rooms;
  std::vector<Entry*> victims;
  std::optional<std::vector<place::Spot>> spots;
  if (free_quota(entry, candidates, victims)) {
    spots = plan_room(entry, request, round, std::move(candidates), victims);
    if (spots && tree_.obstacle(entry.queue, entry.user, held_at(entry, *spots))) spots.reset();
  }
  // They hold what they hold until they are gone.
  for (const Entry* const victim : victims) tree_.take(victim->queue, victim->user, victim->held);
  if (!spots || victims.empty()) return;
  Claim claim{*std::move(spots), {}};
  for (Entry* const victim : victims) {
    const bool lower = victim->queue == entry.queue;
    const std::string& queue = tree_.settings(entry.queue).path;
    stop(*victim, lower ? StopReason::kPreempted : StopReason::kReclaimed, round.now,
         lower ? fmt::format("preempted by {}", name_of(entry.job))
               : fmt::format("its GPU goes back to queue {} for {}", queue, name_of(entry.job)),
         entry.job.id);
    claim.victims.push_back(victim->job.id);
    const place::Instant gone =
        std::chrono::ceil<Seconds>(*victim->stop_by).time_since_epoch().count();
    for (const place::HoldingId holding : victim->holdings) {
      std::erase_if(round.outlook.endings,
                    [holding](const place::Ending& ending) { return ending.holding == holding; });
      round.outlook.endings.push_back({holding, gone});
    }
  }
  round.outlook.reservations.push_back(kept_for(entry.job.id, claim, round.now));
  claims_.emplace(entry.job.id, std::move(claim));
  round.ahead = booked_ahead();
}

}  // namespace divvy::jobs
