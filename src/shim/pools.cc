#include "shim/pools.h"

#include <pthread.h>

#include "shim/charge.h"
#include "shim/locked.h"
#include "shim/real.h"
#include "shim/session.h"

namespace divvy::shim {

constinit std::atomic<bool> g_pools_stale = false;

namespace {

constexpr PoolIndex kMaxPools = 512;

struct Pool {
  CUmemoryPool handle;  // null: a device's memory for graphs
  CUdevice device;
  int8_t slice;
  bool in_use;
  bool gone;         // destroyed by the program; ends with its last allocation
  uint32_t live;     // allocations
  uint64_t charged;  // reserved, when last asked
};

pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
Pool g_pool[kMaxPools];
std::atomic<PoolIndex> g_high = 1;  // entries from here on were never used

// Trimming on our own account must not count as the program's call while it captures a stream.
class Relaxed {
 public:
  Relaxed() {
    if (g_cuda.cuThreadExchangeStreamCaptureMode != nullptr) {
      g_cuda.cuThreadExchangeStreamCaptureMode(&mode_);
    }
  }
  ~Relaxed() {
    if (g_cuda.cuThreadExchangeStreamCaptureMode != nullptr) {
      g_cuda.cuThreadExchangeStreamCaptureMode(&mode_);
    }
  }
  Relaxed(const Relaxed&) = delete;
  Relaxed& operator=(const Relaxed&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

PoolIndex find(CUmemoryPool handle, CUdevice device) {
  for (PoolIndex i = 1; i < g_high; ++i) {
    const Pool& pool = g_pool[i];
    if (!pool.in_use || pool.gone || pool.handle != handle) continue;
    if (handle != nullptr || pool.device == device) return i;
  }
  return 0;
}

PoolIndex find_or_add(CUmemoryPool handle, CUdevice device, int slice) {
  if (const PoolIndex known = find(handle, device)) return known;
  PoolIndex index = 1;
  while (index < g_high && g_pool[index].in_use) ++index;
  if (index == kMaxPools) return 0;
  if (index == g_high) ++g_high;
  g_pool[index] = {handle, device, static_cast<int8_t>(slice), true, false, 0, 0};
  return index;
}

bool ask(const Pool& pool, CUmemPool_attribute of_pool, CUgraphMem_attribute of_graphs,
         uint64_t* bytes) {
  if (pool.gone) return false;
  cuuint64_t answer = 0;
  CUresult result = CUDA_ERROR_NOT_SUPPORTED;
  if (pool.handle != nullptr && g_cuda.cuMemPoolGetAttribute != nullptr) {
    result = g_cuda.cuMemPoolGetAttribute(pool.handle, of_pool, &answer);
  } else if (pool.handle == nullptr && g_cuda.cuDeviceGetGraphMemAttribute != nullptr) {
    result = g_cuda.cuDeviceGetGraphMemAttribute(pool.device, of_graphs, &answer);
  }
  *bytes = answer;
  return result == CUDA_SUCCESS;
}
bool ask_reserved(const Pool& pool, uint64_t* bytes) {
  return ask(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT,
             bytes);
}
bool ask_used(const Pool& pool, uint64_t* bytes) {
  return ask(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, bytes);
}

bool settle_locked(Pool& pool) {
  uint64_t reserved = 0;
  if (pool.slice < 0 || !ask_reserved(pool, &reserved)) return false;
  const uint64_t before = pool.charged;
  recharge_slice(pool.slice, before, reserved);
  pool.charged = reserved;
  return reserved > before;
}

}  // namespace

void pool_known(CUmemoryPool handle, const CUmemLocation& place) {
  const bool on_device = place.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const Locked locked(g_lock);
  find_or_add(handle, on_device ? place.id : CU_DEVICE_CPU,
              on_device ? charged_slice_of(place.id) : -1);
}

PoolIndex pool_index(CUmemoryPool handle, CUdevice device) {
  if (handle == nullptr) return 0;
  const Locked locked(g_lock);
  return find_or_add(handle, device, charged_slice_of(device));
}

PoolIndex graph_pool_index(CUdevice device) {
  const Locked locked(g_lock);
  return find_or_add(nullptr, device, charged_slice_of(device));
}

// Without the lock: it stays while anybody has the index.
int pool_slice(PoolIndex index) {
  return index != 0 ? __atomic_load_n(&g_pool[index].slice, __ATOMIC_RELAXED) : -1;
}

uint64_t pool_idle(PoolIndex index) {
  uint64_t reserved = 0;
  uint64_t used = 0;
  const Locked locked(g_lock);
  if (!ask_reserved(g_pool[index], &reserved) || !ask_used(g_pool[index], &used)) return 0;
  return reserved > used ? reserved - used : 0;
}

bool pool_settle(PoolIndex index) {
  const Locked locked(g_lock);
  return settle_locked(g_pool[index]);
}

void pool_allocated(PoolIndex index) {
  const Locked locked(g_lock);
  settle_locked(g_pool[index]);
  ++g_pool[index].live;
}

void pool_freed(PoolIndex index) {
  g_pools_stale.store(true, std::memory_order_relaxed);
  const Locked locked(g_lock);
  Pool& pool = g_pool[index];
  if (pool.live > 0) --pool.live;
  if (!pool.gone || pool.live > 0) return;
  uncharge_slice(pool.slice, pool.charged);
  pool = {};
}

PoolIndex pool_going(CUmemoryPool handle) {
  const Locked locked(g_lock);
  const PoolIndex index = handle != nullptr ? find(handle, 0) : PoolIndex{0};
  if (index != 0) settle_locked(g_pool[index]);
  return index;
}

void pool_gone(PoolIndex index) {
  if (index == 0) return;
  const Locked locked(g_lock);
  Pool& pool = g_pool[index];
  pool.gone = true;
  if (pool.live > 0) return;
  uncharge_slice(pool.slice, pool.charged);
  pool = {};
}

void pools_refresh(int slice) {
  if (slice < 0 || g_high == 1) return;
  const Locked locked(g_lock);
  for (PoolIndex i = 1; i < g_high; ++i) {
    if (g_pool[i].in_use && g_pool[i].slice == slice) settle_locked(g_pool[i]);
  }
}

bool pools_give_up(int slice) {
  if (slice < 0 || g_high == 1) return false;
  const Relaxed relaxed;
  const Locked locked(g_lock);
  uint64_t before = 0;
  uint64_t after = 0;
  for (PoolIndex i = 1; i < g_high; ++i) {
    Pool& pool = g_pool[i];
    if (!pool.in_use || pool.slice != slice || pool.gone) continue;
    before += pool.charged;
    settle_locked(pool);
    uint64_t used = 0;
    if (ask_used(pool, &used) && pool.charged > used) {
      if (pool.handle != nullptr && g_cuda.cuMemPoolTrimTo != nullptr) {
        g_cuda.cuMemPoolTrimTo(pool.handle, 0);
      } else if (pool.handle == nullptr && g_cuda.cuDeviceGraphMemTrim != nullptr) {
        g_cuda.cuDeviceGraphMemTrim(pool.device);
      }
      settle_locked(pool);
    }
    after += pool.charged;
  }
  return after < before;
}

void pools_look_again() {
  if (!g_pools_stale.exchange(false)) return;
  const Locked locked(g_lock);
  for (PoolIndex i = 1; i < g_high; ++i) {
    if (g_pool[i].in_use) settle_locked(g_pool[i]);
  }
}

void forget_pools_of_parent() {
  g_lock = PTHREAD_MUTEX_INITIALIZER;
  for (Pool& pool : g_pool) pool = {};
  g_high = 1;
  g_pools_stale.store(false);
}

}  // namespace divvy::shim
