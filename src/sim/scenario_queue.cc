// Who starts when: the queue of a scenario.
#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "place/explain.h"
#include "place/preempt.h"
#include "sim/scenario_world.h"

namespace divvy::sim {

std::vector<std::size_t> ScenarioWorld::queue() const {
  std::vector<std::size_t> waiting;
  for (std::size_t i = 0; i < jobs.size(); ++i) {
    if (jobs[i].state == JobState::kWaiting) waiting.push_back(i);
  }
  std::ranges::sort(waiting, {}, [&](std::size_t i) {
    return std::pair(-std::int64_t{jobs[i].request.priority}, i);
  });
  return waiting;
}

place::Outlook ScenarioWorld::outlook() const {
  place::Outlook outlook;
  outlook.now = now;
  for (const ScenarioJob& job : jobs) {
    if (job.state != JobState::kRunning || !job.expected) continue;
    for (const place::HoldingId id : job.holdings) {
      outlook.endings.push_back({id, *job.started + *job.expected});
    }
  }
  return outlook;
}

bool ScenarioWorld::start_by_evicting(std::size_t index, const place::Outlook& outlook) {
  const auto plan = place::plan_preemption(*placer, jobs[index].request, outlook.reservations);
  if (!plan || plan->victims.empty()) return false;
  std::vector<std::string> victims;
  for (const place::Victim& victim : plan->victims) {
    ScenarioJob& job = jobs[victim.job - 1];
    victims.push_back(job.request.name);
    requeue(job, "evicted", fmt::format("by {}", jobs[index].request.name));
  }
  start(index, plan->spots);
  std::ranges::sort(victims);
  jobs[index].victims = std::move(victims);
  return true;
}

bool ScenarioWorld::schedule_once() {
  std::vector<place::Reservation> reservations;
  for (const std::size_t index : queue()) {
    ScenarioJob& job = jobs[index];
    job.held_up.clear();
    place::Outlook ahead = outlook();
    ahead.reservations = reservations;
    if (reservations.empty()) {
      if (const auto spots = placer->plan(job.request); !spots.empty()) {
        start(index, spots);
        continue;
      }
    } else {
      const auto backfill = place::may_backfill(*placer, ahead, job.request, job.expected);
      if (backfill.allowed()) {
        start(index, backfill.spots);
        continue;
      }
      job.held_up = backfill.why_not;
    }
    if (scenario.preemption && start_by_evicting(index, ahead)) return true;
    const std::optional<place::Reservation> before = std::exchange(job.reservation, std::nullopt);
    if (reservations.size() >= scenario.reservations) continue;
    auto reservation = place::reserve(*placer, ahead, job.request);
    if (!reservation) continue;
    // One that waits for nobody knows when keeps its place, as long as that can become free.
    const bool keep = reservation->start == place::kNever && before &&
                      before->start == place::kNever && reservations.empty() &&
                      place::still_possible(cluster, *before);
    job.reservation = keep ? before : reservation;
    reservations.push_back(*job.reservation);
  }
  return false;
}

void ScenarioWorld::schedule() {
  // Whoever evicts has a higher priority than those who make way, so this comes to an end.
  for (std::size_t round = 0; schedule_once(); ++round) {
    DIVVY_CHECK(round <= jobs.size() * jobs.size(), "the queue does not come to rest");
  }
  for (const std::size_t index : queue()) {
    ScenarioJob& job = jobs[index];
    if (std::exchange(job.told, true)) continue;
    const auto explanation = place::explain(*placer, job.request);
    say(job.request.name, "waits",
        explanation.fits && !job.held_up.empty() ? job.held_up : place::summary(explanation));
  }
}

std::string why_it_waits(ScenarioWorld& world, const ScenarioJob& job) {
  const auto explanation = place::explain(*world.placer, job.request);
  std::string text =
      place::summary(explanation) + "\n" + place::to_text(explanation, place::Detail::kLong);
  if (!job.held_up.empty()) text = job.held_up + "\n" + text;
  return text;
}

}  // namespace divvy::sim
