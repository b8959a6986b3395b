// Looks whether a scenario is where it was expected to be.
#include <algorithm>
#include <set>

#include "base/text.h"
#include "sim/scenario_world.h"

namespace divvy::sim {
namespace {

using model::Closeness;
using model::JobMember;
using model::JobState;

Checked passed() { return {true, {}}; }
Checked failed(std::string found) { return {false, std::move(found)}; }
Checked if_so(bool so, std::string found) { return so ? passed() : failed(std::move(found)); }

std::string gpus_text(std::uint64_t thousandths) {
  return fmt::format("{:g}", static_cast<double>(thousandths) / Share::kWhole);
}

// One expectation of one job.
class OfJob {
 public:
  OfJob(ScenarioWorld& world, const Expect& expect)
      : world_(world),
        expect_(expect),
        index_(world.index_of(expect.job)),
        known_(world.jobs[index_]),
        job_(world.job(index_)) {}

  [[nodiscard]] Checked check() {
    switch (expect_.what) {
      case Expected::kOn:
        return check_on();
      case Expected::kMembers:
        return if_so(members().size() == static_cast<std::size_t>(expect_.number),
                     fmt::format("{} members run", members().size()));
      case Expected::kStarts:
        return if_so(known_.starts == static_cast<std::uint64_t>(expect_.number),
                     fmt::format("it was started {} times", known_.starts));
      case Expected::kRuns:
        return is(JobState::kRunning);
      case Expected::kWaits:
        return check_waits();
      case Expected::kDone:
        return is(JobState::kSucceeded);
      case Expected::kFailed:
        return is(JobState::kFailed);
      case Expected::kCancelled:
        return is(JobState::kCancelled);
      case Expected::kSuspended:
        return is(JobState::kSuspended);
      case Expected::kStopping:
        return is(JobState::kStopping);
      case Expected::kPreempts:
        return check_preempts();
      case Expected::kStartedAt:
        return if_so(
            known_.started == expect_.number,
            known_.started ? fmt::format("it started at {}", *known_.started) : how_it_is());
      case Expected::kReserved:
        return check_reserved();
      case Expected::kMoved:
        return if_so(known_.moved, "no member was moved");
      case Expected::kNear:
        return if_so(runs() && std::ranges::all_of(
                                   members(), [this](const auto& member) { return near(member); }),
                     how_it_is());
      case Expected::kTogether:
      case Expected::kSpread:
        return check_domains();
      default:
        return failed("it cannot be looked at");
    }
  }

 private:
  [[nodiscard]] bool runs() const { return job_.state == JobState::kRunning; }
  [[nodiscard]] std::span<const JobMember> members() const {
    if (!is_active(job_.state)) return {};
    return job_.members;
  }
  [[nodiscard]] const place::NodeSpec& node_of(const JobMember& member) const {
    return world_.scenario.nodes[world_.node(member.node)];
  }

  // Everything that the queue says about it, the line for people first.
  [[nodiscard]] std::string why() {
    const jobs::WaitReport report =
        world_.queue().why_it_waits(ScenarioWorld::id_of(index_), world_.wall());
    return report.details.empty() ? report.text : report.text + "\n" + report.details;
  }

  [[nodiscard]] std::string how_it_is() {
    switch (job_.state) {
      case JobState::kRunning:
        return fmt::format("{} runs on {}", known_.name, world_.describe(members()));
      case JobState::kQueued: {
        const std::string text = why();
        return fmt::format("{} waits: {}", known_.name, text.substr(0, text.find('\n')));
      }
      default:
        return fmt::format("{} is {}: {}", known_.name, to_string(job_.state),
                           job_.history.empty() ? "" : job_.history.back().reason);
    }
  }

  [[nodiscard]] Checked is(JobState state) { return if_so(job_.state == state, how_it_is()); }

  [[nodiscard]] Checked check_on() {
    std::set<std::string> nodes;
    std::set<std::uint32_t> gpus;
    for (const JobMember& member : members()) {
      nodes.insert(member.node);
      for (const std::uint32_t gpu : world_.gpus_of(member)) gpus.insert(gpu);
    }
    const bool same = runs() &&
                      nodes == std::set<std::string>(expect_.names.begin(), expect_.names.end()) &&
                      (expect_.gpus.empty() ||
                       gpus == std::set<std::uint32_t>(expect_.gpus.begin(), expect_.gpus.end()));
    if (same) return passed();
    if (nodes.size() == 1 && !expect_.gpus.empty()) {
      return failed(fmt::format("{}, which are gpu {}", how_it_is(), fmt::join(gpus, ",")));
    }
    return failed(how_it_is());
  }

  [[nodiscard]] Checked check_waits() {
    if (job_.state != JobState::kQueued) return failed(how_it_is());
    if (expect_.text.empty()) return passed();
    return if_so(why().find(expect_.text) != std::string::npos, how_it_is());
  }

  [[nodiscard]] Checked check_reserved() {
    const place::Reservation* const reservation =
        world_.queue().reservation(ScenarioWorld::id_of(index_), world_.wall());
    if (reservation == nullptr) return failed(how_it_is() + ", without a reservation");
    const place::Instant start = reservation->start;
    const std::string where = world_.describe(reservation->spots);
    const std::string found = start == place::kNever
                                  ? fmt::format("reserved on {} without a time", where)
                                  : fmt::format("reserved on {} for {}", where, start);
    return if_so(expect_.number < 0 || start == expect_.number, found);
  }

  [[nodiscard]] Checked check_preempts() const {
    const std::set<std::string> wanted(expect_.names.begin(), expect_.names.end());
    const std::set<std::string> found(known_.victims.begin(), known_.victims.end());
    return if_so(wanted == found && known_.starts != 0,
                 found.empty() ? "nobody made way for it"
                               : fmt::format("{} made way", fmt::join(found, ", ")));
  }

  // Its GPUs are in one island, switch or NUMA node.
  [[nodiscard]] bool near(const JobMember& member) const {
    const place::NodeSpec& node = node_of(member);
    std::set<std::optional<std::uint32_t>> groups;
    for (const std::uint32_t gpu : world_.gpus_of(member)) {
      const place::DeviceSpec& device = node.devices[gpu];
      groups.insert(expect_.level == Closeness::kNvlink ? device.nvlink_island
                    : expect_.level == Closeness::kPcie ? device.pcie_switch
                                                        : device.numa_node);
    }
    return groups.size() <= 1;
  }

  [[nodiscard]] Checked check_domains() {
    std::set<std::string> domains;
    for (const JobMember& member : members()) {
      const place::NodeSpec& node = node_of(member);
      domains.insert(expect_.level == Closeness::kZone   ? node.zone
                     : expect_.level == Closeness::kRack ? node.rack
                                                         : node.name);
    }
    const bool so = expect_.what == Expected::kTogether ? domains.size() == 1
                                                        : domains.size() == members().size();
    return if_so(runs() && so, how_it_is());
  }

  ScenarioWorld& world_;
  const Expect& expect_;
  const std::size_t index_;
  const ScenarioJob& known_;
  const model::Job& job_;
};

Checked check_amount(const ScenarioWorld& world, const Expect& expect) {
  const auto counts = [&](std::string_view node) {
    return expect.names.empty() || expect.names.front() == node;
  };
  std::uint64_t held = 0;
  for (std::size_t i = 0; i < world.jobs.size(); ++i) {
    if (world.jobs[i].held_share == 0) continue;
    for (const JobMember& member : world.job(i).members) {
      if (counts(member.node)) held += jobs::held_by({&member, 1}).share;
    }
  }
  std::uint64_t all = 0;
  for (const place::NodeSpec& node : world.scenario.nodes) {
    if (counts(node.name)) all += node.devices.size() * Share::kWhole;
  }
  const std::uint64_t amount = expect.what == Expected::kFree ? all - held : held;
  return if_so(amount == expect.amount.thousandths(),
               fmt::format("{} GPUs are {}", gpus_text(amount),
                           expect.what == Expected::kFree ? "free" : "held"));
}

Checked check_queue(ScenarioWorld& world, const Expect& expect) {
  for (const jobs::QueueReport& report : world.queue().queues()) {
    if (report.path != expect.names.front()) continue;
    if (expect.what == Expected::kQueueWaits) {
      return if_so(report.waiting == static_cast<std::uint64_t>(expect.number),
                   fmt::format("{} of its jobs wait", report.waiting));
    }
    const bool holds = expect.what == Expected::kQueueHolds;
    const std::uint64_t amount = holds ? report.held.share : report.borrowed;
    return if_so(amount == expect.amount.thousandths(),
                 fmt::format("it {} {} GPUs", holds ? "holds" : "borrows", gpus_text(amount)));
  }
  return failed("there is no such queue");
}

Checked check_user(ScenarioWorld& world, const Expect& expect) {
  std::uint64_t held = 0;
  for (const jobs::UserReport& report : world.queue().users()) {
    if (report.name == expect.names.front()) held = report.held.share;
  }
  return if_so(held == expect.amount.thousandths(),
               fmt::format("{} holds {} GPUs", expect.names.front(), gpus_text(held)));
}

}  // namespace

Checked check_expectation(ScenarioWorld& world, const Expect& expect) {
  switch (expect.what) {
    case Expected::kFree:
    case Expected::kHeld:
      return check_amount(world, expect);
    case Expected::kQueueHolds:
    case Expected::kQueueBorrows:
    case Expected::kQueueWaits:
      return check_queue(world, expect);
    case Expected::kUserHolds:
      return check_user(world, expect);
    default:
      return OfJob(world, expect).check();
  }
}

}  // namespace divvy::sim
