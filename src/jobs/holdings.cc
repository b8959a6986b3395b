#include "jobs/holdings.h"

#include <algorithm>
#include <bit>

namespace divvy::jobs {
namespace {

model::GpuMode mode_of(const model::JobSpec& spec) {
  return spec.mode.value_or(model::GpuMode::kTimeslice);
}

unsigned devices_of(const place::Spot& spot) {
  return spot.part_device < 0 ? spot.whole : spot.whole | 1U << spot.part_device;
}

std::size_t gpus_of(const place::Spot& spot) {
  return static_cast<std::size_t>(std::popcount(spot.whole)) + (spot.part_device >= 0 ? 1U : 0U);
}

}  // namespace

void Holdings::add(const Entry& entry) {
  const model::Job& job = entry.job;
  Holding& holding = jobs_.try_emplace(job.id, entry).first->second;
  holding.held = held_by(job.members);
  tree_.take(entry.queue, entry.user, holding.held);
  if (job.task) ++arrays_[job.task->array];
  if (job.spec.mode == model::GpuMode::kMps) ++mps_;
  // Who ended had begun; after a restart nobody tells of that again.
  for (const model::JobMember& member : job.members) {
    if (member.end) holding.started.insert(member.rank);
  }
  take_places(holding);
}

void Holdings::remove(const Entry& entry) {
  const model::Job& job = entry.job;
  const auto found = jobs_.find(job.id);
  leave_places(found->second);
  tree_.give_back(entry.queue, entry.user, found->second.held);
  jobs_.erase(found);
  if (job.spec.mode == model::GpuMode::kMps) --mps_;
  if (!job.task) return;
  const auto running = arrays_.find(job.task->array);
  if (--running->second == 0) arrays_.erase(running);
}

void Holdings::take_places(Holding& holding) {
  const model::Job& job = holding.job();
  for (const model::JobMember& member : job.members) {
    if (member.slices.empty() && member.end) continue;
    const auto spot = fleet_.spot_of(member, job.spec);
    if (!spot) continue;
    // Who may be evicted depends on for whom; that is said when it is asked (room.cc).
    holding.places.push_back(fleet_.take(*spot, job.id.value(), job.spec.priority, false));
  }
}

void Holdings::leave_places(Holding& holding) {
  for (const place::HoldingId place : holding.places) fleet_.cluster().release(place);
  holding.places.clear();
}

void Holdings::take_places_anew(const Entry& entry) {
  const auto found = jobs_.find(entry.job.id);
  if (found == jobs_.end()) return;
  leave_places(found->second);
  take_places(found->second);
}

void Holdings::take_all_places() {
  for (auto& [id, holding] : jobs_) {
    holding.places.clear();
    take_places(holding);
  }
}

void Holdings::charge_all() {
  for (const auto& [id, holding] : jobs_) {
    tree_.take(holding.entry->queue, holding.entry->user, holding.held);
  }
}

bool Holdings::move(model::Job& job, const model::JobMember& to) {
  Holding& holding = jobs_.at(job.id);
  model::JobMember& member = job.members[to.rank];
  const auto spot = fleet_.spot_of(to, job.spec);
  // It leaves before it comes, and may use again what it had; the others of its job stay.
  leave_places(holding);
  const model::JobMember before = std::exchange(member, {member.rank, {}, {}, {}});
  take_places(holding);
  const bool free = spot && gpus_of(*spot) == to.slices.size() && fleet_.cluster().fits(*spot);
  leave_places(holding);
  member = before;
  if (free) {
    member.node = to.node;
    member.slices = to.slices;
  }
  take_places(holding);
  if (!free) return false;
  charge_anew(holding);
  return true;
}

void Holdings::charge_anew(Holding& holding) {
  const Entry& entry = *holding.entry;
  tree_.give_back(entry.queue, entry.user, holding.held);
  holding.held = held_by(holding.job().members);
  tree_.take(entry.queue, entry.user, holding.held);
}

void Holdings::drop_member(model::Job& job, std::uint32_t rank) {
  Holding& holding = jobs_.at(job.id);
  leave_places(holding);
  job.members[rank].slices.clear();
  take_places(holding);
  charge_anew(holding);
}

void Holdings::add_member(model::Job& job, model::JobMember member) {
  Holding& holding = jobs_.at(job.id);
  leave_places(holding);
  holding.started.insert(member.rank);
  job.members[member.rank] = std::move(member);
  take_places(holding);
  charge_anew(holding);
}

std::size_t Holdings::member_started(model::JobId job, std::uint32_t rank) {
  std::set<std::uint32_t>& started = jobs_.at(job).started;
  started.insert(rank);
  return started.size();
}

const Holding* Holdings::find(model::JobId job) const {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : &found->second;
}

bool Holdings::array_is_full(const model::Job& job) const {
  if (!job.task || job.task->at_once == 0) return false;
  const auto running = arrays_.find(job.task->array);
  return running != arrays_.end() && running->second >= job.task->at_once;
}

bool Holdings::rests(const Holding& holding) const {
  const place::Cluster& cluster = fleet_.cluster();
  return std::ranges::any_of(holding.places, [&cluster](place::HoldingId place) {
    const place::Spot& spot = cluster.holding(place).spot;
    return (devices_of(spot) & ~unsigned{cluster.state(spot.node).usable}) != 0;
  });
}

std::set<std::string> Holdings::gpus_not_in(model::GpuMode mode) const {
  std::set<std::string> gpus;
  if (mode == model::GpuMode::kTimeslice && mps_ == 0) return gpus;
  for (const auto& [id, holding] : jobs_) {
    if (mode_of(holding.job().spec) == mode) continue;
    for (const model::JobMember& member : holding.job().members) {
      for (const model::Slice& slice : member.slices) gpus.insert(slice.gpu().str());
    }
  }
  return gpus;
}

}  // namespace divvy::jobs
