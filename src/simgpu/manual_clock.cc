#include "simgpu/manual_clock.h"

#include <time.h>

namespace divvy::simgpu {
namespace {

constexpr uint64_t kMs = 1'000'000;

uint64_t real_ns() {
  timespec ts{};
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return static_cast<uint64_t>(ts.tv_sec) * 1'000'000'000U + static_cast<uint64_t>(ts.tv_nsec);
}

bool claimed(const ProcessSlot& slot) {
  return slot.state.load() == static_cast<uint32_t>(SlotState::kClaimed);
}

// A process that has put nothing on a GPU yet has nobody to follow the clock, and says so by a
// time that is never reached.
bool settled(const ProcessSlot& slot, uint64_t target_ns) {
  if (slot.settled_at_ns.load() == UINT64_MAX) return true;
  return slot.settled_at_ns.load() >= target_ns && slot.seen_wake.load() == slot.wake.load();
}

// The first process that still has something to do up to `target_ns`.
ProcessSlot* first_unsettled(SharedState& state, uint32_t slots, uint64_t target_ns,
                             const std::function<bool(int)>& excused) {
  for (uint32_t i = 0; i < slots; ++i) {
    ProcessSlot& slot = state.shared().slot[i];
    if (!claimed(slot) || settled(slot, target_ns)) continue;
    if (excused && excused(slot.pid)) continue;
    return &slot;
  }
  return nullptr;
}

// What one process does may give another one more to do at the same time: it may hand over the GPU
// right after the other was looked at. All are settled when that is so twice over and nobody was
// woken in between.
bool all_settled(SharedState& state, uint32_t slots, uint64_t target_ns,
                 const std::function<bool(int)>& excused) {
  const auto woken = [&] {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < slots; ++i) sum += state.shared().slot[i].wake.load();
    return sum;
  };
  const uint64_t before = woken();
  return first_unsettled(state, slots, target_ns, excused) == nullptr &&
         first_unsettled(state, slots, target_ns, excused) == nullptr && woken() == before;
}

}  // namespace

bool advance_manual_clock(SharedState& state, uint64_t step_ns, std::string* error,
                          uint64_t patience_ms, const std::function<bool(int pid)>& excused) {
  Shared& shared = state.shared();
  if (shared.clock_mode != static_cast<uint32_t>(ClockMode::kManual)) {
    *error =
        "these simulated GPUs run on real time; start them with `clock: manual` in the "
        "configuration to move it by hand";
    return false;
  }
  const uint64_t target_ns = shared.manual_now_ns.fetch_add(step_ns) + step_ns;
  uint32_t slots = 0;
  {
    Locked lock(shared.table_lock);
    slots = shared.slot_high;
    for (uint32_t i = 0; i < slots; ++i) {
      ProcessSlot& slot = shared.slot[i];
      if (!claimed(slot)) continue;
      slot.wake.fetch_add(1);
      futex_wake_all(slot.wake);
    }
  }
  const uint64_t give_up_ns = real_ns() + patience_ms * kMs;
  while (!all_settled(state, slots, target_ns, excused)) {
    ProcessSlot* slot = first_unsettled(state, slots, target_ns, excused);
    if (slot == nullptr) continue;
    const uint32_t seen = slot->seen_wake.load();
    if (settled(*slot, target_ns)) continue;
    const uint64_t now = real_ns();
    if (now >= give_up_ns) {
      state.reap();
      if (!claimed(*slot)) continue;
      *error = "process " + std::to_string(slot->pid) + " (" + slot->name +
               ") did not follow the clock; it may be stopped";
      return false;
    }
    // A process wakes this word when it has settled. The short deadline is for one that dies
    // instead, which nobody announces.
    const uint64_t look_again_ns = now + 20 * kMs;
    futex_wait(slot->seen_wake, seen, &look_again_ns);
    if (real_ns() >= look_again_ns) state.reap();
  }
  return true;
}

}  // namespace divvy::simgpu
