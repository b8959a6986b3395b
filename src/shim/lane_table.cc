#include "shim/lane_table.h"

#include <stddef.h>

#include "shim/link.h"
#include "shim/real.h"

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

class Locked {
 public:
  Locked() { g_lock.lock(); }
  ~Locked() { g_lock.unlock(); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
};

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
  if (named == CU_STREAM_PER_THREAD) {
    if (t_thread == 0) t_thread = g_threads.fetch_add(1) + 1;
    salt = t_thread;
  }
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

bool reusable(const wire::Lane& lane) {
  const auto state = static_cast<wire::LaneState>(lane.state.load());
  return state == wire::LaneState::kFree ||
         (state == wire::LaneState::kRetiring && lane.done.load() == lane.inserted.load());
}

// Under the lock. -1 when all are taken.
int free_lane(wire::LanesPage& page) {
  const int high = g_lane_high.load();
  for (int i = 0; i < high; ++i) {
    if (g_lanes[i].key.load() == 0 && reusable(page.lane[i])) return i;
  }
  if (high == wire::kMaxLanes) return -1;
  return high;
}

GatedLane* make(const Named& named) {
  wire::LanesPage* page = lanes();
  CUcontext context = named.context;
  if (context == nullptr && g_cuda.cuStreamGetCtx(named.stream, &context) != CUDA_SUCCESS) {
    g_cuda.cuCtxGetCurrent(&context);
  }
  GateContext* gate = find_gate_context(context, true);
  if (page == nullptr || gate == nullptr || !gate->usable) return nullptr;

  const Locked locked;
  if (GatedLane* made = look_up(named.key)) return made;
  const int index = free_lane(*page);
  if (index < 0) return nullptr;
  wire::Lane& shared = page->lane[index];
  GatedLane& lane = g_lanes[index];
  lane.lane = &shared;
  lane.context = gate;
  lane.stream = named.stream;
  lane.batch = shared.inserted.load();
  lane.open.store(false);
  lane.filled_ns = 0;
  shared.gpu.store(static_cast<uint32_t>(gate->slice));
  if (!enter(named.key, static_cast<uint32_t>(index))) return nullptr;
  lane.key.store(named.key);
  shared.state.store(static_cast<uint32_t>(wire::LaneState::kLive), std::memory_order_release);
  if (index >= g_lane_high.load()) {
    g_lane_high.store(index + 1);
    page->lane_high.store(static_cast<uint32_t>(index + 1), std::memory_order_release);
  }
  return &lane;
}

}  // namespace

GatedLane* existing_lane(CUstream stream, bool per_thread) {
  return look_up(name_of(stream, per_thread).key);
}

GatedLane* lane_of(CUstream stream, bool per_thread) {
  const Named named = name_of(stream, per_thread);
  GatedLane* found = look_up(named.key);
  return found != nullptr ? found : make(named);
}

void retire_lane(GatedLane& lane) {
  const Locked locked;
  remove(lane.key.load());
  lane.key.store(0);
  lane.lane->state.store(static_cast<uint32_t>(wire::LaneState::kRetiring));
}

void free_lanes_of(const GateContext& context) {
  const Locked locked;
  for (int i = 0; i < g_lane_high.load(); ++i) {
    GatedLane& lane = g_lanes[i];
    if (lane.context != &context) continue;
    if (lane.key.load() != 0) remove(lane.key.load());
    lane.key.store(0);
    lane.open.store(false);
    lane.context = nullptr;
    const uint32_t last = lane.lane->inserted.load();
    lane.lane->closed.store(last);
    lane.lane->passed.store(last);
    lane.lane->done.store(last);
    lane.lane->state.store(static_cast<uint32_t>(wire::LaneState::kFree));
  }
}

int lane_high() { return g_lane_high.load(std::memory_order_acquire); }
GatedLane& lane_at(int index) { return g_lanes[index]; }

void lanes_forget_after_fork() {
  for (TableSlot& slot : g_table) slot.key.store(0);
  for (int i = 0; i < g_lane_high.load(); ++i) {
    g_lanes[i].key.store(0);
    g_lanes[i].open.store(false);
    g_lanes[i].context = nullptr;
    g_lanes[i].busy.unlock();
  }
  g_lane_high.store(0);
  g_lock.unlock();
}

}  // namespace divvy::shim
