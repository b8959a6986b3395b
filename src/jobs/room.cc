#include "jobs/room.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "place/preempt.h"

namespace divvy::jobs {
namespace {

using model::JobState;

// A pass has to end in milliseconds: a good plan soon is better than the best one late.
constexpr place::PreemptionLimits kLimits{.tries = 5'000, .plans = 100};
// How often a plan is made again because it took too much from one queue.
constexpr int kPlans = 4;

void give_back(QueueTree& tree, const Holding& holding) {
  tree.give_back(holding.entry->queue, holding.entry->user, holding.held);
}

void take(QueueTree& tree, const Holding& holding) {
  tree.take(holding.entry->queue, holding.entry->user, holding.held);
}

void release(place::Cluster& cluster, const Holding& holding) {
  for (const place::HoldingId place : holding.places) cluster.release(place);
}

}  // namespace

RoomSearch::RoomSearch(const QueueView& view, place::Placer& placer, const Entry& entry,
                       const place::Request& request,
                       std::span<const place::Reservation> reservations, WallTime now)
    : view_(view),
      placer_(placer),
      entry_(entry),
      request_(request),
      reservations_(reservations),
      wanted_(view.least(entry, entry.job.spec.least())),
      candidates_(candidates(now)) {}

std::vector<const Holding*> RoomSearch::candidates(WallTime now) const {
  std::vector<const Holding*> found;
  for (const auto& [id, other] : view_.holdings.jobs()) {
    const model::Job& job = other.job();
    const model::JobSpec& spec = job.spec;
    if (job.state == JobState::kStopping || !spec.may_make_way()) continue;
    const bool settled =
        spec.minimum_run == Seconds(0) || (job.started && now - *job.started >= spec.minimum_run);
    if (!settled || view_.holdings.rests(other)) continue;
    const QueueId queue = other.entry->queue;
    const bool lower = queue == entry_.queue && spec.priority < entry_.job.spec.priority;
    if (lower || view_.tree.may_reclaim(entry_.queue, wanted_, queue)) found.push_back(&other);
  }
  // The ones with the least right first: lowest priority, then who began last.
  std::ranges::sort(found, {}, [](const Holding* other) {
    const model::Job& job = other->job();
    return std::tuple(job.spec.priority,
                      -job.started.value_or(WallTime::max()).time_since_epoch().count(), job.id);
  });
  return found;
}

bool RoomSearch::is_needed() const { return !candidates_.empty() && !room_is_coming(); }

// Those who are being stopped leave anyhow: nobody else has to if that is enough.
bool RoomSearch::room_is_coming() const {
  std::vector<const Holding*> leaving;
  for (const auto& [id, other] : view_.holdings.jobs()) {
    if (other.job().state == JobState::kStopping) leaving.push_back(&other);
  }
  if (leaving.empty() || !limits_allow_without(leaving)) return false;
  place::Cluster& cluster = placer_.cluster();
  const place::Cluster::Mark mark = cluster.mark();
  for (const Holding* const other : leaving) release(cluster, *other);
  for (const place::Reservation& reservation : reservations_) {
    place::hold(cluster, reservation.spots);
  }
  const bool enough = !placer_.plan(request_).empty();
  cluster.rollback(mark);
  return enough;
}

// What others give back only ever makes room, so whoever is within the limits now stays there: the
// tree, which is dear to copy, is copied for the others.
bool RoomSearch::limits_allow_without(std::span<const Holding* const> leaving) const {
  if (!view_.tree.obstacle(entry_.queue, entry_.user, wanted_)) return true;
  QueueTree tree = view_.tree;
  for (const Holding* const other : leaving) give_back(tree, *other);
  return !tree.obstacle(entry_.queue, entry_.user, wanted_);
}

// Until the limits leave room for the job: its victims are taken out of the tree and out of the
// candidates. False if that does not help.
bool RoomSearch::free_quota(QueueTree& tree) {
  while (const auto obstacle = tree.obstacle(entry_.queue, entry_.user, wanted_)) {
    const auto helps = [&](const Holding* other) {
      if (obstacle->of_user && other->entry->user != entry_.user) return false;
      return !obstacle->queue || tree.is_below(other->entry->queue, *obstacle->queue);
    };
    const auto victim = std::ranges::find_if(candidates_, helps);
    if (victim == candidates_.end()) return false;
    give_back(tree, **victim);
    victims_.push_back(*victim);
    candidates_.erase(victim);
  }
  return true;
}

// A place for the job when the victims are gone, and more victims where that takes some. Both are
// taken out of the tree as they are found, so that nobody is asked who is inside its promise.
std::optional<std::vector<place::Spot>> RoomSearch::free_place(QueueTree& tree) {
  place::Cluster& cluster = placer_.cluster();
  place::Request request = request_;
  // The candidates are those who may be evicted, whatever their priority.
  request.priority = std::numeric_limits<std::int32_t>::max();
  request.members = entry_.job.spec.least();
  for (int i = 0; i < kPlans; ++i) {
    const place::Cluster::Mark mark = cluster.mark();
    for (const Holding* const victim : victims_) release(cluster, *victim);
    for (const Holding* const candidate : candidates_) {
      for (const place::HoldingId id : candidate->places) {
        const place::Holding held = cluster.holding(id);
        cluster.release(id);
        cluster.take(held.spot, held.job, held.priority, true);
      }
    }
    auto plan = place::plan_preemption(placer_, request, reservations_, kLimits);
    cluster.rollback(mark);
    if (!plan) return std::nullopt;
    std::vector<const Holding*> more;
    bool too_much = false;
    for (const place::Victim& victim : plan->victims) {
      const Holding& other = view_.holdings.at(model::JobId(victim.job));
      const QueueId queue = other.entry->queue;
      if (queue != entry_.queue && !tree.may_reclaim(entry_.queue, wanted_, queue)) {
        std::erase(candidates_, &other);
        too_much = true;
        break;
      }
      give_back(tree, other);
      more.push_back(&other);
    }
    if (!too_much) {
      victims_.insert(victims_.end(), more.begin(), more.end());
      return std::move(plan->spots);
    }
    for (const Holding* const other : more) take(tree, *other);
  }
  return std::nullopt;
}

std::optional<Claim> RoomSearch::find() {
  // They hold what they hold until they are gone.
  QueueTree tree = view_.tree;
  if (!free_quota(tree)) return std::nullopt;
  auto spots = free_place(tree);
  if (!spots || victims_.empty()) return std::nullopt;
  if (tree.obstacle(entry_.queue, entry_.user, view_.held_at(entry_, *spots))) return std::nullopt;
  Claim claim{*std::move(spots), {}};
  for (const Holding* const victim : victims_) claim.victims.push_back(victim->job().id);
  return claim;
}

}  // namespace divvy::jobs
