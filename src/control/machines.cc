// What the agents of the machines say, and what they are asked now and then.
#include "base/log.h"
#include "control/dispatcher.h"
#include "control/user_names.h"

namespace divvy::control {
namespace {

jobs::FleetGpu fleet_gpu(const agent::MachineGpu& gpu) {
  jobs::FleetGpu one{.uuid = gpu.uuid};
  one.index = gpu.index;
  one.device.model = gpu.model;
  one.device.memory = gpu.memory;
  one.device.nvlink_island = gpu.nvlink_island;
  one.device.pcie_switch = gpu.pcie_switch;
  one.device.numa_node = gpu.numa_node;
  one.device.uuid = gpu.uuid.str();
  one.resting = gpu.resting;
  one.lost = gpu.lost;
  return one;
}

store::EventRow event_of(const std::string& node, const agent::GpuEvent& told) {
  store::EventRow event;
  event.at = told.at;
  event.kind = told.kind;
  event.object = told.uuid;
  event.state = told.state;
  event.reason = told.reason;
  event.node = node;
  event.gpu = told.gpu;
  event.tenant = told.tenant;
  return event;
}

}  // namespace

Dispatcher::Machine* Dispatcher::find_machine(const std::string& node) {
  const auto found = std::ranges::find(machines_, node, &Machine::node);
  return found == machines_.end() ? nullptr : &*found;
}

// A machine that does not answer gets no new work; what runs there is its own until it says more.
jobs::Fleet Dispatcher::fleet() const {
  jobs::Fleet fleet;
  for (const Machine& machine : machines_) {
    jobs::FleetNode node;
    node.name = machine.node;
    node.cpu_milli = machine.state.cpu_milli;
    node.ram = machine.state.ram;
    if (!machine.reachable) node.closed = "its agent does not answer";
    for (const agent::MachineGpu& gpu : machine.state.gpus) node.gpus.push_back(fleet_gpu(gpu));
    fleet.nodes.push_back(std::move(node));
    fleet.smallest_slice = std::max(fleet.smallest_slice, machine.state.smallest_slice);
  }
  return fleet;
}

// Members on one machine meet at its own address.
std::vector<std::string> Dispatcher::hosts_of(const model::Job& job) const {
  std::vector<std::string> hosts;
  for (const model::JobMember& member : job.members) {
    const auto found = std::ranges::find(machines_, member.node, &Machine::node);
    hosts.push_back(found == machines_.end() ? "127.0.0.1" : found->state.address);
  }
  return hosts;
}

void Dispatcher::hear(const std::string& node, agent::News news) {
  {
    const std::lock_guard lock(mutex_);
    Machine* const machine = find_machine(node);
    if (machine == nullptr) return;
    if (const auto* ended = std::get_if<agent::MemberEnded>(&news)) {
      const model::MemberReport& report = ended->report;
      const bool never_ran = report.phase == model::MemberPhase::kLost && !report.begun;
      if (const auto stray = strays_.find(report.key); stray != strays_.end()) {
        stray->second.due = {};
      } else if (report.end && !never_ran) {
        ended_.emplace(report.key, Ended{node, *report.end});
      }
    } else if (const auto* gone = std::get_if<agent::HolderGone>(&news)) {
      gone_.push_back(gone->key);
    } else if (auto* changed = std::get_if<agent::StateChanged>(&news)) {
      machine->state = std::move(changed->state);
    } else if (const auto* event = std::get_if<agent::GpuEvent>(&news)) {
      untold_events_.push_back(event_of(node, *event));
    } else if (const auto* reachable = std::get_if<agent::Reachable>(&news)) {
      log_info(reachable->yes ? "machine answers" : "machine does not answer", {{"node", node}});
      machine->is_new = reachable->yes;
      machine->reachable = reachable->yes;
    }
  }
  wake();
}

void Dispatcher::count_activity() {
  const WallTime now = parts_.clock.wall_now();
  counted_ = now;
  book_all(now);
  for (std::size_t i = 0; i < machines_.size(); ++i) {
    agent::Agent* const agent = parts_.agents.find(machines_[i].node);
    if (agent == nullptr || std::exchange(machines_[i].counts, true)) continue;
    const Duration passed = now - std::exchange(machines_[i].counted, now);
    replies_->expect();
    agent::ask(*agent, agent::ActivityOrder{},
               [this, i, now, passed, box = replies_](const Result<agent::Activity>& reply) {
                 box->deliver([&] {
                   machines_[i].counts = false;
                   if (reply) count_use(now, passed, reply->members);
                 });
               });
  }
}

void Dispatcher::compare_returned() {
  for (Machine& machine : machines_) {
    if (!std::exchange(machine.is_new, false)) continue;
    // In a line of its own: numbers of jobs begin with 1.
    lines_.add(model::JobId(), compare(machine.node));
  }
}

// A machine was away. What ended meanwhile is heard of now, and what nobody waits for is ended.
Task Dispatcher::compare(std::string node) {
  const auto listing = co_await ask(node, agent::ListOrder{});
  if (!listing) co_return;  // It is away again.
  if (Machine* const machine = find_machine(node)) machine->state = listing->state;
  const WallTime now = parts_.clock.wall_now();
  Members members;
  for (const model::MemberReport& report : listing->members) members.emplace(report.key, report);
  std::set<model::MemberKey> holding;
  for (const agent::HeldSlices& held : listing->held) holding.insert(held.key);
  std::set<model::MemberKey> expected;
  for (const auto& [id, account] : books_) {
    const model::Job* const job = queue_->find(id);
    if (job == nullptr || !model::is_active(job->state)) continue;
    for (const model::JobMember& member : job->members) {
      const model::MemberKey key{job->id, job->attempt, member.rank};
      if (member.end || parts_.agents.find(member.node) != parts_.agents.find(node)) continue;
      expected.insert(key);
      if (job->state == model::JobState::kStarting) continue;  // its start finds what there is
      if (job->spec.holder == model::Holder::kMembers) {
        find_member(*job, member, members, now);
      } else if (!holding.contains(key)) {
        gone_.push_back(key);
      }
    }
  }
  for (const auto& [key, report] : members) {
    const bool lives = report.phase == model::MemberPhase::kLiving;
    if (lives && !expected.contains(key)) add_stray(key, node, Folder::kKeep);
  }
  // Slices that nobody waits for go with what is left of their members.
  for (const model::MemberKey& key : holding) {
    if (!expected.contains(key) && !strays_.contains(key)) add_stray(key, node, Folder::kKeep);
  }
}

}  // namespace divvy::control
