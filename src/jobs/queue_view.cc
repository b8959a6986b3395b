#include "jobs/queue_view.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "base/text.h"
#include "model/service_label.h"

namespace divvy::jobs {

using model::JobState;

place::Instant instant(WallTime time) {
  return std::chrono::ceil<Seconds>(time).time_since_epoch().count();
}

std::optional<Seconds> longest(const model::JobSpec& spec) {
  return spec.expected ? spec.expected : spec.time_limit;
}

place::Request QueueView::request_for(const Entry& entry) const {
  place::Request request = shapes[entry.shape].request;
  request.name = name_of(entry.job);
  request.tenant = entry.job.owner;
  request.priority = entry.job.spec.priority;
  request.preemptible = entry.job.spec.preemptible;
  const model::GpuMode mode = entry.job.spec.mode.value_or(model::GpuMode::kTimeslice);
  const std::set<std::string> others = holdings.gpus_not_in(mode);
  if (others.empty()) return request;
  if (request.devices.empty()) request.devices = all_gpus();
  std::erase_if(request.devices, [&](const std::string& uuid) { return others.contains(uuid); });
  // None must not turn into any.
  if (request.devices.empty()) request.devices = {fmt::format("a GPU in mode {}", to_string(mode))};
  return request;
}

std::optional<place::Request> QueueView::apart_from_siblings(const Entry& entry,
                                                             place::Request request) const {
  const model::Job& job = entry.job;
  const auto service = job.spec.labels.find(model::kServiceLabel);
  const place::Member& member = request.member;
  const bool wants_gpu = member.whole_gpus > 0 || member.part != Share() || member.memory;
  if (service == job.spec.labels.end() || !wants_gpu) return {};
  std::set<std::string> taken;
  for (const auto& [id, other] : holdings.jobs()) {
    const auto its = other.job().spec.labels.find(model::kServiceLabel);
    if (its == other.job().spec.labels.end() || its->second != service->second) continue;
    if (other.job().owner != job.owner) continue;
    for (const model::JobMember& sibling : other.job().members) {
      for (const model::Slice& slice : sibling.slices) taken.insert(slice.gpu().str());
    }
  }
  if (taken.empty()) return {};
  if (request.devices.empty()) request.devices = all_gpus();
  std::erase_if(request.devices, [&](const std::string& uuid) { return taken.contains(uuid); });
  if (request.devices.empty()) return {};
  return request;
}

std::vector<std::string> QueueView::all_gpus() const {
  std::vector<std::string> all;
  for (const FleetNode& node : fleet.fleet().nodes) {
    all.reserve(all.size() + node.gpus.size());
    for (const FleetGpu& gpu : node.gpus) all.push_back(gpu.uuid.str());
  }
  return all;
}

Held QueueView::held_at(const Entry& entry, std::span<const place::Spot> spots) const {
  const std::optional<Bytes> limit = entry.job.spec.request.memory();
  Held held{0, 0, 1};
  for (const place::Spot& spot : spots) {
    held.share += spot.share();
    held.memory += spot.part_memory;
    const auto& gpus = fleet.fleet().nodes[spot.node.value()].gpus;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
      if ((spot.whole >> i & 1) != 0) held.memory += limit.value_or(gpus[i].device.memory).count();
    }
  }
  return held;
}

std::uint32_t QueueView::members_allowed(const Entry& entry,
                                         const std::optional<QueueTree>& ahead) const {
  const auto allowed = [&](std::uint32_t members) {
    const Held held = least(entry, members);
    return !tree.obstacle(entry.queue, entry.user, held) &&
           !(ahead && ahead->obstacle(entry.queue, entry.user, held));
  };
  std::uint32_t low = entry.job.spec.least();
  std::uint32_t high = entry.job.spec.members();
  if (!allowed(low)) return 0;
  if (allowed(high)) return high;
  while (high - low > 1) {
    const std::uint32_t middle = low + (high - low) / 2;
    (allowed(middle) ? low : high) = middle;
  }
  return low;
}

std::optional<QueueTree> QueueView::tree_after_claims() const {
  if (reservations.claims().empty()) return std::nullopt;
  QueueTree ahead = tree;
  std::set<model::JobId> gone;
  for (const auto& [id, claim] : reservations.claims()) {
    const Entry& entry = book.at(id);
    ahead.take(entry.queue, entry.user, held_at(entry, claim.spots));
    for (const model::JobId victim : claim.victims) {
      const Holding* const holding = holdings.find(victim);
      if (holding == nullptr || holding->job().state != JobState::kStopping) continue;
      if (!gone.insert(victim).second) continue;
      ahead.give_back(holding->entry->queue, holding->entry->user, holding->held);
    }
  }
  return ahead;
}

place::Outlook QueueView::outlook(WallTime now) const {
  place::Outlook outlook;
  outlook.now = instant(now);
  for (const auto& [id, holding] : holdings.jobs()) {
    const model::JobSpec& spec = holding.job().spec;
    std::optional<WallTime> end = holding.stop_by;
    if (!end) {
      const WallTime started = holding.job().started.value_or(now);
      const auto known = longest(spec);
      if (known) end = started + *known;
      // A guess that has come out wrong says nothing any more.
      if (end && *end <= now && spec.expected) {
        end.reset();
        if (spec.time_limit) end = started + *spec.time_limit;
      }
    }
    if (!end) continue;
    for (const place::HoldingId place : holding.places) {
      outlook.endings.push_back({place, instant(*end)});
    }
  }
  return outlook;
}

place::Reservation QueueView::kept_for(const Entry& entry, const Claim& claim, WallTime now) const {
  place::Instant gone = instant(now) + 1;
  for (const model::JobId victim : claim.victims) {
    const Holding* const holding = holdings.find(victim);
    if (holding == nullptr || !holding->stop_by) continue;
    gone = std::max(gone, instant(*holding->stop_by));
  }
  return {name_of(entry.job), kAboveAll, gone, claim.spots, true};
}

std::vector<model::JobId> QueueView::order() const {
  std::vector<model::JobId> ids;
  ids.reserve(book.line().size());
  // As if each found its place at once, because whoever starts goes back behind the others.
  QueueTree ahead = tree;
  Turn turn(book.line(), ahead, shares);
  while (const auto id = turn.next()) {
    ids.push_back(*id);
    const Entry& entry = book.at(*id);
    ahead.take(entry.queue, entry.user, least(entry, entry.job.spec.members()));
    turn.started();
  }
  return ids;
}

}  // namespace divvy::jobs
