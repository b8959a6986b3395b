#include "shim/lane_table.h"

#include <stddef.h>

#include "shim/link.h"
#include "shim/real.h"
#include "shim/thread_exit.h"

namespace divvy::shim {
namespace {

constexpr uint32_t kSlots = 2048;  // a power of two, well above kMaxLanes
constexpr uint64_t kRemoved = 1;
constexpr uint32_t kProbes = 64;

struct TableSlot {
  std::atomic<uint64_t> key;  // 0: never used; kRemoved: used before
  std::atomic<uint32_t> lane;
};

constinit GatedLane g_lanes[wire::kMaxLanes] = {};
std::atomic<int> g_lane_high{0};
TableSlot g_table[kSlots];
SpinLock g_lock;
std::atomic<uint64_t> g_threads{0};
thread_local uint64_t t_thread __attribute__((tls_model("initial-exec"))) = 0;

uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdull;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ull;
  return x ^ (x >> 33);
}

struct Named {
  uint64_t key;
  CUstream stream;    // as memory operations name it
  CUcontext context;  // of the two special streams; null otherwise
};

// A handle names one stream of the process, except that the legacy stream is one per context and
// the per-thread stream one per context and thread.
Named name_of(CUstream stream, bool per_thread) {
  CUstream named = stream;
  if (named == nullptr) named = per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (named != CU_STREAM_LEGACY && named != CU_STREAM_PER_THREAD) {
    return {mix(reinterpret_cast<uint64_t>(named)) | 2, named, nullptr};
  }
  CUcontext context = nullptr;
  g_cuda.cuCtxGetCurrent(&context);
  uint64_t salt = 0;
  if (named == CU_STREAM_PER_THREAD) salt = this_thread();
  return {mix(reinterpret_cast<uint64_t>(context) * 31 + salt) | 2, named, context};
}

GatedLane* look_up(uint64_t key) {
  for (uint32_t probe = 0; probe < kProbes; ++probe) {
    const TableSlot& slot = g_table[(key + probe * 2654435761u) & (kSlots - 1)];
    const uint64_t found = slot.key.load(std::memory_order_acquire);
    if (found == 0) return nullptr;
    if (found == key) return &g_lanes[slot.lane.load(std::memory_order_relaxed)];
  }
  return nullptr;
}

// Under the lock.
bool enter(uint64_t key, uint32_t lane) {
  for (uint32_t probe = 0; probe < kProbes; ++probe) {
    TableSlot& slot = g_table[(key + probe * 2654435761u) & (kSlots - 1)];
    if (slot.key.load() > kRemoved) continue;
    slot.lane.store(lane, std::memory_order_relaxed);
    slot.key.store(key, std::memory_order_release);
    return true;
  }
  return false;
}

void remove(uint64_t key) {
  for (uint32_t probe = 0; probe < kProbes; ++probe) {
    TableSlot& slot = g_table[(key + probe * 2654435761u) & (kSlots - 1)];
    if (slot.key.load() == 0) return;
    if (slot.key.load() == key) {
      slot.key.store(kRemoved);
      return;
    }
  }
}

// A dead lane whose last batch did come to its end can be used again too; until then the GPU may
// still write into it.
bool reusable(const wire::Lane& lane) {
  const auto state = static_cast<wire::LaneState>(lane.state.load());
  if (state == wire::LaneState::kFree) return true;
  return state != wire::LaneState::kLive && lane.done.load() == lane.inserted.load();
}

// Under the lock. With `busy` held; -1 when all are taken.
int take_free_lane(wire::LanesPage& page) {
  const int high = g_lane_high.load();
  for (int i = 0; i < high; ++i) {
    if (g_lanes[i].key.load() == 0 && reusable(page.lane[i]) && g_lanes[i].busy.try_lock()) {
      return i;
    }
  }
  if (high == wire::kMaxLanes || !g_lanes[high].busy.try_lock()) return -1;
  return high;
}

bool is_blocking(CUstream stream) {
  if (stream == CU_STREAM_LEGACY) return false;
  if (stream == CU_STREAM_PER_THREAD) return true;
  unsigned int flags = 0;
  return g_cuda.cuStreamGetFlags == nullptr ||
         g_cuda.cuStreamGetFlags(stream, &flags) != CUDA_SUCCESS ||
         (flags & CU_STREAM_NON_BLOCKING) == 0;
}

GatedLane* make(const Named& named) {
  CUcontext context = named.context;
  if (context == nullptr && g_cuda.cuStreamGetCtx(named.stream, &context) != CUDA_SUCCESS) {
    g_cuda.cuCtxGetCurrent(&context);
  }
  GateContext* gate = find_gate_context(context, true);
  if (gate == nullptr || !gate->usable) return nullptr;
  const bool blocking = is_blocking(named.stream);
  if (named.stream == CU_STREAM_PER_THREAD) tell_thread_exit();

  const SpinLocked locked(g_lock);
  wire::LanesPage* page = nullptr;
  const uint64_t address = page_of(*gate, &page);
  if (address == 0) return nullptr;
  if (GatedLane* made = look_up(named.key)) return made;
  const int index = take_free_lane(*page);
  if (index < 0) return nullptr;
  wire::Lane& shared = page->lane[index];
  GatedLane& lane = g_lanes[index];
  lane.lane.store(&shared);
  lane.address =
      address + offsetof(wire::LanesPage, lane) + static_cast<uint64_t>(index) * sizeof(wire::Lane);
  lane.context.store(gate);
  lane.stream.store(named.stream);
  lane.blocking.store(blocking);
  lane.thread.store(named.stream == CU_STREAM_PER_THREAD ? this_thread() : 0);
  lane.batch.store(shared.inserted.load());
  lane.open.store(false);
  lane.close_asked.store(false);
  lane.unmeasured = false;
  lane.filled_ns = 0;
  shared.gpu.store(static_cast<uint32_t>(gate->slice));
  shared.cost_ns.store(0);
  shared.begun_cost_ns.store(0);
  const bool entered = enter(named.key, static_cast<uint32_t>(index));
  if (entered) {
    lane.key.store(named.key);
    shared.state.store(static_cast<uint32_t>(wire::LaneState::kLive), std::memory_order_release);
  }
  const uint32_t high = static_cast<uint32_t>(index) + 1;
  if (index >= g_lane_high.load()) g_lane_high.store(index + 1);
  if (page->lane_high.load() < high) page->lane_high.store(high, std::memory_order_release);
  lane.busy.unlock();
  return entered ? &lane : nullptr;
}

}  // namespace

GatedLane* existing_lane(CUstream stream, bool per_thread) {
  return look_up(name_of(stream, per_thread).key);
}

GatedLane* hold_existing_lane(CUstream stream, bool per_thread) {
  const Named named = name_of(stream, per_thread);
  GatedLane* lane = look_up(named.key);
  if (lane == nullptr) return nullptr;
  lane->busy.lock();
  if (lane->key.load(std::memory_order_relaxed) == named.key) return lane;
  lane->busy.unlock();
  return nullptr;
}

GatedLane* hold_lane(CUstream stream, bool per_thread) {
  const Named named = name_of(stream, per_thread);
  // It is retired under our hands only when the lanes page is replaced, which happens once.
  for (int tries = 0; tries < 2; ++tries) {
    GatedLane* lane = look_up(named.key);
    if (lane == nullptr) lane = make(named);
    if (lane == nullptr) return nullptr;
    lane->busy.lock();
    if (lane->key.load(std::memory_order_relaxed) == named.key) return lane;
    lane->busy.unlock();
  }
  return nullptr;
}

void retire_lane(GatedLane& lane) {
  const SpinLocked locked(g_lock);
  if (lane.key.load() == 0) return;
  remove(lane.key.load());
  lane.key.store(0);
  lane.close_asked.store(false);
  // A dead lane stays dead: its last batch may never end.
  uint32_t live = static_cast<uint32_t>(wire::LaneState::kLive);
  lane.lane.load()->state.compare_exchange_strong(
      live, static_cast<uint32_t>(wire::LaneState::kRetiring));
}

void free_lane(GatedLane& lane) {
  const SpinLocked locked(g_lock);
  if (lane.key.load() != 0) remove(lane.key.load());
  lane.key.store(0);
  lane.close_asked.store(false);
  lane.context.store(nullptr);
  wire::Lane& shared = *lane.lane.load();
  const uint32_t last = shared.inserted.load();
  shared.closed.store(last);
  shared.passed.store(last);
  shared.done.store(last);
  shared.state.store(static_cast<uint32_t>(wire::LaneState::kFree));
}

int lane_high() { return g_lane_high.load(std::memory_order_acquire); }
GatedLane& lane_at(int index) { return g_lanes[index]; }

uint64_t this_thread() {
  if (t_thread == 0) t_thread = g_threads.fetch_add(1) + 1;
  return t_thread;
}

void lanes_forget_after_fork() {
  for (TableSlot& slot : g_table) slot.key.store(0);
  for (GatedLane& lane : g_lanes) {
    lane.key.store(0);
    lane.open.store(false);
    lane.context.store(nullptr);
    lane.busy.unlock();
  }
  g_lane_high.store(0);
  g_lock.unlock();
}

}  // namespace divvy::shim
