#include "simgpu/timeline.h"

#include <algorithm>

namespace divvy::simgpu {
namespace {

// More work than any window holds.
constexpr uint64_t kEndless = uint64_t{1} << 62;

}  // namespace

void repair_timeline(void* data) {
  Gpu& gpu = *static_cast<Gpu*>(data);
  // The dead process may have been between two writes. An owner that is no open channel and a
  // count beyond its array are the states from which others could not go on by themselves.
  if (gpu.owner >= kMaxChannels || (gpu.owner >= 0 && gpu.channel[gpu.owner].used == 0)) {
    gpu.owner = -1;
  }
  gpu.channel_high = std::min<uint32_t>(gpu.channel_high, kMaxChannels);
  for (uint32_t i = 0; i < gpu.channel_high; ++i) {
    gpu.channel[i].unread = std::min<uint32_t>(gpu.channel[i].unread, kMaxUnreadWindows);
  }
}

int Timeline::open_channel(int slot) {
  Locked lock(gpu().lock, repair_timeline, &gpu());
  for (int i = 0; i < kMaxChannels; ++i) {
    Channel& channel = gpu().channel[i];
    if (channel.used != 0) continue;
    channel.wants = 0;
    channel.unread = 0;
    channel.work_ns = 0;
    channel.consumed_ns = 0;
    channel.slot = static_cast<uint32_t>(slot);
    channel.used = 1;
    gpu().channel_high = std::max(gpu().channel_high, static_cast<uint32_t>(i + 1));
    return i;
  }
  return -1;
}

void Timeline::close_channel(int index, uint64_t now) {
  Locked lock(gpu().lock, repair_timeline, &gpu());
  Channel& channel = gpu().channel[index];
  channel.used = 0;
  channel.wants = 0;
  if (gpu().owner == index) give_up(now);
  settle(now);
}

// Lets the process of a channel look. This process is looking already.
void Timeline::wake(int index) {
  if (gpu().channel[index].slot == static_cast<uint32_t>(state_.own_slot())) return;
  ProcessSlot& slot = state_.shared().slot[gpu().channel[index].slot];
  slot.wake.fetch_add(1);
  futex_wake_all(slot.wake);
}

std::optional<uint64_t> Timeline::first_other_wish(int index) {
  std::optional<uint64_t> first;
  for (uint32_t i = 0; i < gpu().channel_high; ++i) {
    const Channel& other = gpu().channel[i];
    if (static_cast<int>(i) == index || other.used == 0 || other.wants == 0) continue;
    if (!first || other.wants_since_ns < *first) first = other.wants_since_ns;
  }
  return first;
}

// Until when the owner keeps the GPU: the end of its work, or of its slice if somebody waits by
// then. Slices that nobody contested are renewed silently.
uint64_t Timeline::owner_end() {
  Gpu& g = gpu();
  const Channel& owner = g.channel[g.owner];
  const uint64_t work_end = owner.window_start_ns + owner.work_ns.load(std::memory_order_relaxed);
  const auto wish = first_other_wish(g.owner);
  if (!wish) return work_end;
  if (*wish > g.slice_end_ns) {
    const uint64_t slice = state_.shared().slice_ns;
    g.slice_end_ns += (*wish - g.slice_end_ns + slice - 1) / slice * slice;
  }
  return std::min(work_end, std::max(g.slice_end_ns, owner.window_start_ns));
}

void Timeline::give_up(uint64_t at_ns) {
  gpu().free_since_ns = at_ns;
  gpu().last_owner = gpu().owner;
  gpu().owner = -1;
}

// The owner's window is over without its process having said so. The process finds it as unread.
void Timeline::end_window(uint64_t at_ns) {
  Gpu& g = gpu();
  Channel& owner = g.channel[g.owner];
  if (at_ns > owner.window_start_ns) {
    const GpuWindow window{owner.window_start_ns, at_ns};
    if (owner.unread > 0 && owner.window[owner.unread - 1].end_ns == window.start_ns) {
      owner.window[owner.unread - 1].end_ns = window.end_ns;
    } else {
      owner.window[owner.unread++] = window;
    }
    const uint64_t ran = at_ns - window.start_ns;
    const uint64_t work = owner.work_ns.load();
    owner.work_ns.fetch_sub(std::min(ran, work));
  }
  // With work left it queues again, unless its list is full: then it has been away for so long
  // that its turn waits for it to come back.
  if (owner.work_ns.load() > 0 && owner.unread < kMaxUnreadWindows) {
    owner.wants = 1;
    owner.wants_since_ns = at_ns;
  }
  wake(g.owner);
  give_up(at_ns);
}

// Gives the idle GPU to the channel that is next: among those that waited when it became free, in
// turn after the last owner; otherwise to the first that came.
bool Timeline::grant(uint64_t now) {
  Gpu& g = gpu();
  const int count = static_cast<int>(g.channel_high);
  int chosen = -1;
  for (int step = 1; step <= count; ++step) {
    const int index = (std::max(g.last_owner, 0) + step) % count;
    Channel& channel = g.channel[index];
    if (channel.used == 0 || channel.wants == 0 || channel.wants_since_ns > now) continue;
    if (!state_.alive(static_cast<int>(channel.slot))) {
      channel.used = channel.wants = 0;
      continue;
    }
    if (channel.wants_since_ns <= g.free_since_ns) {
      chosen = index;
      break;
    }
    if (chosen < 0 || channel.wants_since_ns < g.channel[chosen].wants_since_ns) chosen = index;
  }
  if (chosen < 0) return false;
  Channel& channel = g.channel[chosen];
  channel.wants = 0;
  channel.window_start_ns = std::max(g.free_since_ns, channel.wants_since_ns);
  g.owner = chosen;
  g.slice_end_ns = channel.window_start_ns + state_.shared().slice_ns;
  wake(chosen);
  return true;
}

// Works out who had the GPU up to now.
void Timeline::settle(uint64_t now) {
  Gpu& g = gpu();
  for (;;) {
    if (g.owner >= 0) {
      const uint64_t end = owner_end();
      if (end > now) return;
      end_window(end);
    }
    if (!grant(now)) return;
  }
}

Timeline::Turn Timeline::take_turn(int index, std::optional<uint64_t> ready_ns, uint64_t work_ns,
                                   uint64_t now, const FillWindow& fill) {
  Locked lock(gpu().lock, repair_timeline, &gpu());
  Gpu& g = gpu();
  Channel& channel = g.channel[index];
  if (ready_ns && g.owner != index && channel.wants == 0 && channel.unread == 0) {
    channel.wants = 1;
    channel.wants_since_ns = *ready_ns;
  }
  // Its windows are not cut short by an estimate: `fill` is about to find out exactly, gaps between
  // kernels included.
  if (ready_ns) channel.work_ns = kEndless;
  settle(now);
  Standing standing{0, ready_ns ? work_ns : 0};
  for (uint32_t i = 0; i < channel.unread; ++i) standing = fill(channel.window[i]);
  channel.unread = 0;
  if (g.owner == index) {
    standing = fill({channel.window_start_ns, now});
    channel.window_start_ns = std::max(channel.window_start_ns, standing.settled_ns);
  }
  channel.work_ns = standing.work_ns;
  if (standing.work_ns == 0) {
    channel.wants = 0;
    if (g.owner == index) {
      give_up(std::min(std::max(standing.settled_ns, channel.window_start_ns), now));
    }
  } else if (g.owner != index && channel.wants == 0) {
    channel.wants = 1;
    channel.wants_since_ns = std::max(standing.settled_ns, ready_ns.value_or(0));
  }
  settle(now);
  Turn turn;
  turn.owning = g.owner == index;
  turn.waiting = !turn.owning && channel.wants != 0;
  if (turn.waiting && g.owner >= 0) turn.turn_at_ns = owner_end();
  return turn;
}

bool Timeline::owns(int index) {
  Locked lock(gpu().lock, repair_timeline, &gpu());
  return gpu().owner == index;
}

void Timeline::account(int index, int slot, uint64_t start_ns, uint64_t end_ns) {
  if (end_ns <= start_ns) return;
  const uint64_t busy = end_ns - start_ns;
  Gpu& g = gpu();
  g.channel[index].consumed_ns.fetch_add(busy, std::memory_order_relaxed);
  g.busy_ns.fetch_add(busy, std::memory_order_relaxed);
  add_busy(g.buckets, start_ns, end_ns);
  ProcessOnGpu& on = state_.shared().slot[slot].gpu[gpu_];
  on.consumed_ns.fetch_add(busy, std::memory_order_relaxed);
  add_busy(on.buckets, start_ns, end_ns);
}

}  // namespace divvy::simgpu
