#include "sim/scenario_world.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace divvy::sim {

Result<std::unique_ptr<ScenarioWorld>> ScenarioWorld::create(const Scenario& scenario,
                                                             const std::string& policy) {
  std::unique_ptr<ScenarioWorld> world(new ScenarioWorld(scenario));
  for (const place::NodeSpec& spec : scenario.nodes) DIVVY_CHECK_OK(world->cluster.add(spec));
  for (const auto& [tenant, node] : scenario.exclusions) {
    world->cluster.exclude(tenant, world->node(node));
  }
  DIVVY_TRY(made, place::make_policy(policy));
  world->placer = std::make_unique<place::Placer>(world->cluster, std::move(made));
  // What comes in the scenario is what usually comes.
  place::Workload workload;
  for (const Step& step : scenario.steps) {
    if (const auto* submit = std::get_if<Submit>(&step.what)) {
      workload.count(world->cluster.ask_of(submit->request), submit->request.members);
    }
  }
  world->placer->prepare(std::move(workload));
  return world;
}

std::vector<place::Spot> ScenarioWorld::spots(const ScenarioJob& job) const {
  std::vector<place::Spot> result;
  result.reserve(job.holdings.size());
  for (const place::HoldingId id : job.holdings) result.push_back(cluster.holding(id).spot);
  return result;
}

std::string ScenarioWorld::describe(const std::vector<place::Spot>& spots) const {
  if (spots.size() != 1) {
    std::vector<std::pair<place::NodeId, std::size_t>> counts;
    for (const place::Spot& spot : spots) {
      const auto known =
          std::ranges::find(counts, spot.node, [](const auto& c) { return c.first; });
      if (known == counts.end()) {
        counts.emplace_back(spot.node, 1);
      } else {
        ++known->second;
      }
    }
    std::ranges::sort(counts);
    std::vector<std::string> pieces;
    pieces.reserve(counts.size());
    for (const auto& [node, count] : counts) {
      pieces.push_back(fmt::format("{} x{}", cluster.spec(node).name, count));
    }
    return fmt::format("{}", fmt::join(pieces, ", "));
  }
  const place::Spot& spot = spots.front();
  std::string text = cluster.spec(spot.node).name;
  std::vector<int> whole;
  for (unsigned left = spot.whole; left != 0; left &= left - 1) {
    whole.push_back(std::countr_zero(left));
  }
  if (!whole.empty()) text += fmt::format(" gpu {}", fmt::join(whole, ","));
  if (spot.part_device >= 0) {
    text += fmt::format("{} {} of gpu {}", whole.empty() ? "" : " and", Share(spot.part),
                        static_cast<int>(spot.part_device));
  }
  return text;
}

void ScenarioWorld::say(std::string job, std::string event, std::string detail) {
  timeline.push_back({now, std::move(job), std::move(event), std::move(detail)});
}

void ScenarioWorld::pass_to(place::Instant time) {
  used_gpu_seconds +=
      static_cast<double>(cluster.held_share()) / Share::kWhole * static_cast<double>(time - now);
  now = time;
}

void ScenarioWorld::submit(const Submit& submit) {
  ScenarioJob job;
  job.request = submit.request;
  job.lasts = submit.lasts;
  job.expected = submit.expected;
  job.submitted = now;
  by_name_[job.request.name] = jobs.size();
  std::string detail = place::describe(job.request.member);
  if (job.request.members != 1) detail = fmt::format("{} x ({})", job.request.members, detail);
  say(job.request.name, "submitted", std::move(detail));
  jobs.push_back(std::move(job));
}

void ScenarioWorld::start(std::size_t index, const std::vector<place::Spot>& spots) {
  ScenarioJob& job = jobs[index];
  job.holdings =
      place::take_all(cluster, spots, index + 1, job.request.priority, job.request.preemptible);
  job.state = JobState::kRunning;
  job.started = now;
  ++job.starts;
  job.victims.clear();
  job.reservation.reset();
  job.held_up.clear();
  say(job.request.name, "starts", "on " + describe(spots));
}

void ScenarioWorld::release(ScenarioJob& job) {
  for (const place::HoldingId id : job.holdings) cluster.release(id);
  job.holdings.clear();
}

void ScenarioWorld::end(ScenarioJob& job, JobState state) {
  release(job);
  job.state = state;
  job.ended = now;
  job.reservation.reset();
  say(job.request.name, state == JobState::kDone ? "ends" : "cancelled", {});
}

void ScenarioWorld::requeue(ScenarioJob& job, std::string event, std::string detail) {
  release(job);
  job.state = JobState::kWaiting;
  job.told = false;
  say(job.request.name, std::move(event), std::move(detail));
}

void ScenarioWorld::set_priority(ScenarioJob& job, std::int32_t priority) {
  job.request.priority = priority;
  say(job.request.name, "priority", fmt::format("{}", priority));
  for (place::HoldingId& id : job.holdings) {
    const place::Holding before = cluster.holding(id);
    cluster.release(id);
    id = cluster.take(before.spot, before.job, priority, before.preemptible);
  }
}

void ScenarioWorld::move(place::HoldingId holding, const place::Spot& to) {
  const place::Holding before = cluster.holding(holding);
  ScenarioJob& job = job_of(holding);
  const auto place = std::ranges::find(job.holdings, holding);
  cluster.release(holding);
  *place = cluster.take(to, before.job, before.priority, before.preemptible);
  job.moved = true;
  say(job.request.name, "moves",
      fmt::format("from {} to {}", describe({before.spot}), describe({to})));
}

}  // namespace divvy::sim
