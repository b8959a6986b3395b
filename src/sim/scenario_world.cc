#include "sim/scenario_world.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "base/check.h"
#include "base/text.h"

namespace divvy::sim {
namespace {

using model::JobState;

// Far more than anybody plays, and far from where wall time would overflow.
constexpr place::Instant kEnd = place::Instant{100} * 365 * 24 * 3600;
// Decisions at one time. A queue that takes back what it decided would never come to rest.
constexpr std::size_t kMostRounds = 1'000;

model::GpuUuid uuid_of(std::uint32_t node, std::uint32_t gpu) {
  auto uuid = model::GpuUuid::parse(fmt::format("GPU-{:08x}-0000-0000-0000-{:012x}", node, gpu));
  DIVVY_CHECK(uuid.has_value(), "{}", uuid.error().message);
  return *std::move(uuid);
}

jobs::FleetNode fleet_node_of(const place::NodeSpec& spec, std::uint32_t number) {
  jobs::FleetNode node;
  node.name = spec.name;
  node.cpu_milli = spec.cpu_milli;
  node.ram = spec.ram;
  node.rack = spec.rack;
  node.zone = spec.zone;
  node.labels = spec.labels;
  node.taints = spec.taints;
  node.max_members = spec.max_members;
  for (std::uint32_t i = 0; i < spec.devices.size(); ++i) {
    jobs::FleetGpu gpu{.uuid = uuid_of(number, i), .index = i};
    gpu.device = spec.devices[i];
    node.gpus.push_back(std::move(gpu));
  }
  return node;
}

std::string_view event_of(JobState state) {
  switch (state) {
    case JobState::kStopping:
      return "stops";
    case JobState::kSucceeded:
      return "ends";
    case JobState::kFailed:
      return "fails";
    default:
      return to_string(state);
  }
}

// "n-0 x4, n-1 x2"
std::string counted(const std::map<std::uint32_t, std::size_t>& members, const Scenario& scenario) {
  std::vector<std::string> pieces;
  pieces.reserve(members.size());
  for (const auto& [node, count] : members) {
    pieces.push_back(fmt::format("{} x{}", scenario.nodes[node].name, count));
  }
  return fmt::format("{}", fmt::join(pieces, ", "));
}

}  // namespace

Result<std::unique_ptr<ScenarioWorld>> ScenarioWorld::create(const Scenario& scenario,
                                                             const std::string& policy) {
  std::unique_ptr<ScenarioWorld> world(new ScenarioWorld(scenario));
  jobs::Settings settings = scenario.settings;
  settings.policy = policy;
  DIVVY_TRY(queue, jobs::Queue::create(std::move(settings)));
  world->queue_ = std::move(queue);
  for (std::uint32_t i = 0; i < scenario.nodes.size(); ++i) {
    world->fleet_.nodes.push_back(fleet_node_of(scenario.nodes[i], i));
    world->nodes_[scenario.nodes[i].name] = i;
    for (const jobs::FleetGpu& gpu : world->fleet_.nodes.back().gpus) {
      world->gpu_numbers_[gpu.uuid.str()] = gpu.index;
    }
  }
  for (const auto& [user, node] : scenario.exclusions) {
    world->fleet_node(node).not_for.push_back(user);
  }
  if (const auto set = world->queue_->set_fleet(world->fleet_); !set) {
    return err(with_context(set.error(), escape_for_terminal(scenario.file)));
  }
  return world;
}

void ScenarioWorld::tell_fleet() {
  const Status set = queue_->set_fleet(fleet_);
  DIVVY_CHECK(set.has_value(), "{}", set.error().message);
}

const model::Job& ScenarioWorld::job(std::size_t index) const {
  const model::Job* const found = queue_->find(id_of(index));
  DIVVY_CHECK(found != nullptr, "the queue does not know {}", jobs[index].name);
  return *found;
}

std::vector<std::uint32_t> ScenarioWorld::gpus_of(const model::JobMember& member) const {
  std::vector<std::uint32_t> gpus;
  gpus.reserve(member.slices.size());
  for (const model::Slice& slice : member.slices) {
    gpus.push_back(gpu_numbers_.at(slice.gpu().str()));
  }
  return gpus;
}

std::string ScenarioWorld::describe(std::span<const model::JobMember> members) const {
  if (members.size() != 1) {
    std::map<std::uint32_t, std::size_t> counts;
    for (const model::JobMember& member : members) ++counts[node(member.node)];
    return counted(counts, scenario);
  }
  const model::JobMember& member = members.front();
  const std::vector<std::uint32_t> gpus = gpus_of(member);
  std::vector<std::string> pieces;
  std::vector<std::uint32_t> whole;
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (member.slices[i].whole_gpu()) whole.push_back(gpus[i]);
  }
  if (!whole.empty()) pieces.push_back(fmt::format("gpu {}", fmt::join(whole, ",")));
  for (std::size_t i = 0; i < gpus.size(); ++i) {
    if (member.slices[i].whole_gpu()) continue;
    pieces.push_back(fmt::format("{} of gpu {}", member.slices[i].share(), gpus[i]));
  }
  return fmt::format("{} {}", member.node, fmt::join(pieces, " and "));
}

std::string ScenarioWorld::describe(std::span<const place::Spot> spots) const {
  std::map<std::uint32_t, std::size_t> counts;
  for (const place::Spot& spot : spots) ++counts[spot.node.value()];
  if (spots.size() == 1) return scenario.nodes[spots.front().node.value()].name;
  return counted(counts, scenario);
}

void ScenarioWorld::say(std::string job, std::string event, std::string detail) {
  timeline.push_back({now, std::move(job), std::move(event), std::move(detail)});
}

// --- Time ---

void ScenarioWorld::advance(place::Instant time) {
  used_gpu_seconds +=
      static_cast<double>(held_share_) / Share::kWhole * static_cast<double>(time - now);
  now = time;
}

Status ScenarioWorld::pass_to(place::Instant time) {
  for (;;) {
    std::optional<place::Instant> next;
    if (!due_.empty()) next = due_.begin()->first;
    if (const auto pass = queue_->next_pass(wall())) {
      const auto at = std::chrono::ceil<jobs::Seconds>(*pass).time_since_epoch().count();
      // What was due now has been looked at.
      if (at > now) next = next ? std::min(*next, at) : at;
    }
    if (!next || *next > time) break;
    if (*next > kEnd) {
      return err(ErrorCode::kOutOfRange, "it goes on for more than 100 years; let jobs last less");
    }
    advance(std::max(now, *next));
    end_due();
    DIVVY_RETURN_IF_ERROR(settle());
  }
  if (time != place::kNever) advance(time);
  return {};
}

void ScenarioWorld::end_at(std::size_t index, std::optional<place::Instant> time) {
  ScenarioJob& job = jobs[index];
  if (job.due) due_.erase({*job.due, index});
  job.due = time;
  if (time) due_.emplace(*time, index);
}

void ScenarioWorld::end_due() {
  while (!due_.empty() && due_.begin()->first <= now) {
    const std::size_t index = due_.begin()->second;
    const bool told = job(index).state == JobState::kStopping;
    end_at(index, std::nullopt);
    end_members(index, 0, told ? 15 : 0);
  }
}

// --- What happens to jobs ---

Status ScenarioWorld::submit(const Submit& submit) {
  DIVVY_RETURN_IF_ERROR(queue_->check(submit.spec, submit.owner));
  ScenarioJob job;
  job.name = submit.spec.name;
  job.lasts = submit.lasts;
  const std::size_t index = jobs.size();
  by_name_[job.name] = index;
  const place::Request request = place::request_of(submit.spec);
  std::string detail = place::describe(request.member);
  if (request.members != 1) detail = fmt::format("{} x ({})", request.members, detail);
  say(job.name, "submitted", std::move(detail));
  jobs.push_back(std::move(job));
  untold_.insert(index);
  queue_->submit(model::Job(id_of(index), submit.owner, submit.spec, wall()), wall());
  return {};
}

void ScenarioWorld::end_members(std::size_t index, int exit_code, int signal) {
  const model::Job before = job(index);
  for (const model::JobMember& member : before.members) {
    queue_->member_ended(before.id, before.attempt, member.rank, {wall(), exit_code, signal, ""},
                         wall());
  }
  hear();
}

void ScenarioWorld::fail_one_member(std::size_t index) {
  const model::Job& failing = job(index);
  queue_->member_ended(failing.id, failing.attempt, 0, {wall(), 1, 0, ""}, wall());
  hear();
}

Status ScenarioWorld::move(const jobs::Move& move) {
  const std::size_t index = move.job.value() - 1;
  const std::string from = describe({&job(index).members[move.to.rank], 1});
  DIVVY_RETURN_IF_ERROR(queue_->member_moved(move, wall()));
  jobs[index].moved = true;
  jobs[index].heard = job(index).history.size();
  say(jobs[index].name, "moves", fmt::format("from {} to {}", from, describe({&move.to, 1})));
  hear();
  return {};
}

void ScenarioWorld::hear() {
  for (const model::JobId id : queue_->take_changes()) hear(id.value() - 1);
}

void ScenarioWorld::hear(std::size_t index) {
  ScenarioJob& known = jobs[index];
  const model::Job& job = this->job(index);
  const std::uint64_t held = is_active(job.state) ? jobs::held_by(job.members).share : 0;
  held_share_ = held_share_ - std::exchange(known.held_share, held) + held;
  for (; known.heard < job.history.size(); ++known.heard) {
    const model::JobStep& step = job.history[known.heard];
    // Where it starts is told when it does.
    if (step.state == JobState::kStarting || step.state == JobState::kRunning) continue;
    if (step.state == JobState::kQueued) untold_.insert(index);
    // It was to end by itself; now it does when it was told to.
    if (step.state != JobState::kStopping) end_at(index, std::nullopt);
    say(known.name, std::string(event_of(step.state)),
        step.state == JobState::kSucceeded ? "" : step.reason);
  }
}

// --- What the queue decides ---

Status ScenarioWorld::settle() {
  for (std::size_t round = 0; round < kMostRounds; ++round) {
    const std::vector<jobs::Decision> decisions = queue_->pass(wall());
    hear();
    if (decisions.empty()) {
      tell_who_waits();
      return {};
    }
    for (const jobs::Decision& decision : decisions) {
      if (const auto* const start = std::get_if<jobs::Start>(&decision)) follow(*start);
      if (const auto* const stop = std::get_if<jobs::Stop>(&decision)) follow(*stop);
    }
  }
  return err(ErrorCode::kInternal, "the queue does not come to rest at {}; please report this",
             now);
}

void ScenarioWorld::follow(const jobs::Start& start) {
  const std::size_t index = start.job.value() - 1;
  for (const model::JobMember& member : start.members) {
    queue_->member_started(start.job, start.attempt, member.rank, wall());
  }
  hear();
  ScenarioJob& job = jobs[index];
  job.started = now;
  ++job.starts;
  job.victims = std::exchange(job.making_way, {});
  if (job.lasts) end_at(index, now + *job.lasts);
  say(job.name, "starts", "on " + describe(start.members));
}

void ScenarioWorld::follow(const jobs::Stop& stop) {
  const std::size_t index = stop.job.value() - 1;
  if (stop.makes_way_for) {
    jobs[stop.makes_way_for->value() - 1].making_way.push_back(jobs[index].name);
  }
  // It may have come to its end since that was decided.
  if (job(index).state != JobState::kStopping) return;
  const place::Instant gone = now + stop.grace.count();
  if (!jobs[index].due || *jobs[index].due > gone) end_at(index, gone);
  end_due();
}

void ScenarioWorld::tell_who_waits() {
  for (const std::size_t index : std::exchange(untold_, {})) {
    if (job(index).state != JobState::kQueued) continue;
    say(jobs[index].name, "waits", queue_->why_it_waits(id_of(index), wall()).text);
  }
}

}  // namespace divvy::sim
