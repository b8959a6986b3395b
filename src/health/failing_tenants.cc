#include "health/failing_tenants.h"

#include <signal.h>

#include <algorithm>
#include <utility>

namespace divvy::health {

std::string resting_text(const GpuHealth& health) {
  if (health.state != HealthState::kHealthy) {
    return fmt::format("is {}: {}", to_string(health.state), health.reason);
  }
  if (!health.cordoned) return {};
  std::string text = health.draining ? "is being drained" : "is cordoned";
  if (!health.cordon_reason.empty()) text += ": " + health.cordon_reason;
  return text;
}

void FailingTenants::gpu_changed(model::GpuIndex index, const GpuHealth& health) {
  const std::lock_guard lock(mutex_);
  Known& known = gpus_[health.uuid];
  const Known before = known;
  known.index = index;
  known.quarantined = health.state == HealthState::kQuarantined;
  known.draining = health.draining;
  known.reason = known.quarantined ? health.reason : health.cordon_reason;
  if (!known.draining) {
    known.drained = false;
    known.deadline.reset();
  }
  known.tell_failed = known.quarantined && (known.tell_failed || !before.quarantined);
  known.tell_drains = known.draining && (known.tell_drains || !before.draining);
  parts_.rest(health.uuid, resting_text(health), known.quarantined);
}

void FailingTenants::tell_holders(const model::GpuUuid& gpu, Known& known) {
  const bool failed = std::exchange(known.tell_failed, false);
  const bool drains = std::exchange(known.tell_drains, false);
  if (!failed && !drains) return;
  const std::string because = known.reason.empty() ? "" : ": " + known.reason;
  for (const HolderName& holder : parts_.holders(gpu)) {
    if (failed) {
      tell(gpu, known, holder, fmt::format("its GPU {} is quarantined{}", known.index, because));
      if (parts_.on_failure == OnFailure::kEnd) end(gpu, known, holder);
    } else {
      tell(gpu, known, holder,
           fmt::format("its GPU {} is being drained{}; end it when you can", known.index, because));
    }
  }
}

void FailingTenants::end_at(const model::GpuUuid& gpu, TimePoint deadline) {
  const std::lock_guard lock(mutex_);
  const auto found = gpus_.find(gpu);
  if (found != gpus_.end() && found->second.draining) found->second.deadline = deadline;
}

void FailingTenants::tell(const model::GpuUuid& gpu, const Known& known, const HolderName& holder,
                          const std::string& words) {
  Event event;
  event.kind = EventKind::kTenant;
  event.gpu = known.index;
  event.uuid = gpu;
  event.tenant = holder.name;
  event.reason = words;
  parts_.events.add(std::move(event));
}

void FailingTenants::end(const model::GpuUuid& gpu, const Known& known, const HolderName& holder) {
  if (endings_.contains(holder.id)) return;
  tell(gpu, known, holder, "it is being ended (SIGTERM)");
  parts_.signal(holder.id, SIGTERM);
  endings_.emplace(holder.id, Ending{parts_.clock.now() + parts_.grace_time, gpu, holder.name});
}

TimePoint FailingTenants::tick() {
  const std::lock_guard lock(mutex_);
  const TimePoint now = parts_.clock.now();
  TimePoint next = TimePoint::max();
  for (auto& [uuid, known] : gpus_) {
    tell_holders(uuid, known);
    if (!known.draining || known.drained) continue;
    const auto holders = parts_.holders(uuid);
    if (holders.empty()) {
      known.drained = true;
      Event event;
      event.kind = EventKind::kDrained;
      event.gpu = known.index;
      event.uuid = uuid;
      event.reason = "nobody is on it any more";
      parts_.events.add(std::move(event));
      continue;
    }
    if (!known.deadline) continue;
    if (now < *known.deadline) {
      next = std::min(next, *known.deadline);
      continue;
    }
    for (const HolderName& holder : holders) end(uuid, known, holder);
  }
  for (auto ending = endings_.begin(); ending != endings_.end();) {
    const auto holders = parts_.holders(ending->second.gpu);
    const bool there = std::ranges::find(holders, ending->first, &HolderName::id) != holders.end();
    if (there && now >= ending->second.kill_at) {
      tell(ending->second.gpu, gpus_[ending->second.gpu], {ending->first, ending->second.name},
           "it did not end by itself (SIGKILL)");
      parts_.signal(ending->first, SIGKILL);
      // Whoever comes into being meanwhile is found again.
      ending->second.kill_at = now + parts_.grace_time;
    }
    if (there) next = std::min(next, ending->second.kill_at);
    ending = there ? std::next(ending) : endings_.erase(ending);
  }
  return next;
}

}  // namespace divvy::health
