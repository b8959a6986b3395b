// Whether things are as a scenario expects.
#include <algorithm>
#include <bit>
#include <set>

#include "base/text.h"
#include "sim/scenario_world.h"

namespace divvy::sim {
namespace {

using place::Closeness;
using place::Spot;

Checked passed() { return {true, {}}; }
Checked failed(std::string found) { return {false, std::move(found)}; }
Checked if_so(bool so, std::string found) { return so ? passed() : failed(std::move(found)); }

std::string how_it_is(ScenarioWorld& world, const ScenarioJob& job) {
  switch (job.state) {
    case JobState::kRunning:
      return fmt::format("{} runs on {}", job.request.name, world.describe(world.spots(job)));
    case JobState::kWaiting: {
      const std::string why = why_it_waits(world, job);
      return fmt::format("{} waits: {}", job.request.name, why.substr(0, why.find('\n')));
    }
    case JobState::kDone:
    case JobState::kCancelled:
      break;
  }
  return fmt::format("{} is {}", job.request.name, to_string(job.state));
}

std::vector<std::uint32_t> gpus_of(const Spot& spot) {
  std::vector<std::uint32_t> gpus;
  unsigned devices = spot.whole;
  if (spot.part_device >= 0) devices |= 1U << spot.part_device;
  for (; devices != 0; devices &= devices - 1) {
    gpus.push_back(static_cast<std::uint32_t>(std::countr_zero(devices)));
  }
  return gpus;
}

Checked check_on(ScenarioWorld& world, const ScenarioJob& job, const Expect& expect) {
  std::set<std::string> nodes;
  std::set<std::uint32_t> gpus;
  for (const Spot& spot : world.spots(job)) {
    nodes.insert(world.cluster.spec(spot.node).name);
    for (const std::uint32_t gpu : gpus_of(spot)) gpus.insert(gpu);
  }
  const bool same = job.state == JobState::kRunning &&
                    nodes == std::set<std::string>(expect.names.begin(), expect.names.end()) &&
                    (expect.gpus.empty() ||
                     gpus == std::set<std::uint32_t>(expect.gpus.begin(), expect.gpus.end()));
  if (same) return passed();
  if (nodes.size() == 1 && !expect.gpus.empty()) {
    return failed(fmt::format("{}, which are gpu {}", how_it_is(world, job), fmt::join(gpus, ",")));
  }
  return failed(how_it_is(world, job));
}

std::uint32_t domain_of(const place::Cluster& cluster, Closeness level, place::NodeId node) {
  return level == Closeness::kZone   ? cluster.zone(node)
         : level == Closeness::kRack ? cluster.rack(node)
                                     : node.value();
}

// The GPUs of every member are in one island, switch or NUMA node.
bool is_near(const ScenarioWorld& world, const std::vector<Spot>& spots, Closeness level) {
  return std::ranges::all_of(spots, [&](const Spot& spot) {
    const place::NodeShape& shape = world.cluster.shape(spot.node);
    const auto& group = level == Closeness::kNvlink ? shape.nvlink
                        : level == Closeness::kPcie ? shape.pcie
                                                    : shape.numa;
    std::set<std::uint8_t> groups;
    for (const std::uint32_t gpu : gpus_of(spot)) groups.insert(group[gpu]);
    return groups.size() <= 1;
  });
}

Checked check_amount(const ScenarioWorld& world, const Expect& expect) {
  std::uint64_t free = 0;
  std::uint64_t all = 0;
  for (std::uint32_t i = 0; i < world.cluster.size(); ++i) {
    const place::NodeId node(i);
    if (!expect.names.empty() && world.cluster.spec(node).name != expect.names.front()) continue;
    const place::NodeShape& shape = world.cluster.shape(node);
    all += std::uint64_t{shape.devices} * Share::kWhole;
    for (std::size_t gpu = 0; gpu < shape.devices; ++gpu) {
      free += world.cluster.state(node).share_free[gpu];
    }
  }
  const std::uint64_t amount = expect.what == Expected::kFree ? free : all - free;
  return if_so(amount == expect.amount.thousandths(),
               fmt::format("{:g} GPUs are {}", static_cast<double>(amount) / Share::kWhole,
                           expect.what == Expected::kFree ? "free" : "held"));
}

Checked check_waits(ScenarioWorld& world, const ScenarioJob& job, const Expect& expect) {
  if (job.state != JobState::kWaiting) return failed(how_it_is(world, job));
  if (expect.text.empty()) return passed();
  const std::string why = why_it_waits(world, job);
  return if_so(why.find(expect.text) != std::string::npos, how_it_is(world, job));
}

Checked check_reserved(ScenarioWorld& world, const ScenarioJob& job, const Expect& expect) {
  if (!job.reservation) return failed(how_it_is(world, job) + ", without a reservation");
  const place::Instant start = job.reservation->start;
  const std::string where = world.describe(job.reservation->spots);
  const std::string found = start == place::kNever
                                ? fmt::format("reserved on {} without a time", where)
                                : fmt::format("reserved on {} for {}", where, start);
  return if_so(expect.number < 0 || start == expect.number, found);
}

Checked check_preempts(const ScenarioJob& job, const Expect& expect) {
  const std::set<std::string> wanted(expect.names.begin(), expect.names.end());
  const std::set<std::string> found(job.victims.begin(), job.victims.end());
  return if_so(wanted == found && job.starts != 0,
               found.empty() ? "nobody was evicted for it"
                             : fmt::format("{} made way", fmt::join(found, ", ")));
}

Checked check_domains(ScenarioWorld& world, const ScenarioJob& job, const Expect& expect) {
  const std::vector<Spot> spots = world.spots(job);
  std::set<std::uint32_t> domains;
  for (const Spot& spot : spots) {
    domains.insert(domain_of(world.cluster, expect.level, spot.node));
  }
  const bool so =
      expect.what == Expected::kTogether ? domains.size() == 1 : domains.size() == spots.size();
  return if_so(job.state == JobState::kRunning && so, how_it_is(world, job));
}

}  // namespace

Checked check_expectation(ScenarioWorld& world, const Expect& expect) {
  if (expect.what == Expected::kFree || expect.what == Expected::kHeld) {
    return check_amount(world, expect);
  }
  const ScenarioJob& job = world.jobs[world.index_of(expect.job)];
  switch (expect.what) {
    case Expected::kOn:
      return check_on(world, job, expect);
    case Expected::kMembers:
      return if_so(job.holdings.size() == static_cast<std::size_t>(expect.number),
                   fmt::format("{} members run", job.holdings.size()));
    case Expected::kRuns:
      return if_so(job.state == JobState::kRunning, how_it_is(world, job));
    case Expected::kWaits:
      return check_waits(world, job, expect);
    case Expected::kDone:
      return if_so(job.state == JobState::kDone, how_it_is(world, job));
    case Expected::kPreempts:
      return check_preempts(job, expect);
    case Expected::kStartedAt:
      return if_so(
          job.started && *job.started == expect.number,
          job.started ? fmt::format("it started at {}", *job.started) : how_it_is(world, job));
    case Expected::kReserved:
      return check_reserved(world, job, expect);
    case Expected::kMoved:
      return if_so(job.moved, "no member was moved");
    case Expected::kNear:
      return if_so(
          job.state == JobState::kRunning && is_near(world, world.spots(job), expect.level),
          how_it_is(world, job));
    case Expected::kTogether:
    case Expected::kSpread:
      return check_domains(world, job, expect);
    case Expected::kFree:
    case Expected::kHeld:
      break;
  }
  return failed("it cannot be looked at");
}

}  // namespace divvy::sim
