#include "kubelet/node_view.h"

#include <algorithm>

namespace divvy::kubelet {

NodeView::Snapshot NodeView::now() const {
  const std::lock_guard lock(mutex_);
  return snapshot_;
}

void NodeView::set_state(agent::MachineState state) {
  state.node = node_;
  const std::lock_guard lock(mutex_);
  if (snapshot_.state == state) return;
  snapshot_.state = std::move(state);
  ++snapshot_.version;
  changed_.notify_all();
}

void NodeView::set_first_state(agent::MachineState state) {
  if (now().state == agent::MachineState{}) set_state(std::move(state));
}

void NodeView::set_claims(std::map<std::string, ClaimRecord> claims) {
  const std::lock_guard lock(mutex_);
  if (snapshot_.claims == claims) return;
  snapshot_.claims = std::move(claims);
  ++snapshot_.version;
  changed_.notify_all();
}

void NodeView::hear(const agent::News& news) {
  if (const auto* const changed = std::get_if<agent::StateChanged>(&news)) {
    set_state(changed->state);
  }
}

void NodeView::await_change(std::uint64_t seen, std::chrono::milliseconds most) const {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, most, [&] { return stopped_ || snapshot_.version != seen; });
}

void NodeView::stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

bool NodeView::is_stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

std::vector<DeviceHealth> health_of(const NodeView::Snapshot& snapshot) {
  std::vector<DeviceHealth> all;
  for (const auto& [uid, record] : snapshot.claims) {
    if (record.by_slots) continue;  // the kubelet knows no devices of its own of it
    for (const kube::AllocatedSlice& one : record.slices) {
      DeviceHealth health{one.device, true, ""};
      const auto gpu =
          std::ranges::find(snapshot.state.gpus, one.slice.gpu(), &agent::MachineGpu::uuid);
      if (gpu == snapshot.state.gpus.end()) {
        health = {one.device, false, fmt::format("GPU {} is gone", one.slice.gpu().str())};
      } else if (gpu->lost) {
        health = {one.device, false, fmt::format("GPU {} {}", gpu->index, gpu->resting)};
      }
      all.push_back(std::move(health));
    }
  }
  return all;
}

}  // namespace divvy::kubelet
