// Memory that the driver keeps in reserve: stream-ordered pools, and the memory of graphs.
//
// A pool takes memory from the GPU in large pieces and keeps what is freed until it is trimmed, so
// it is charged what it has reserved and not what was allocated from it. The driver is asked for
// that figure after every allocation, when the program has waited for something after a free, when
// it asks how much memory there is, and before anything is refused. Any thread.
#pragma once

#include <atomic>

#include "abi/cuda.h"
#include "shim/allocations.h"

namespace divvy::shim {

// In what steps the driver takes memory for pools and graphs.
constexpr uint64_t kPoolStepBytes = uint64_t{32} << 20U;

// Index into the shim's list of pools; 0 is none.
using PoolIndex = uint16_t;

// A pool was made or handed out that lives at this place.
void pool_known(CUmemoryPool handle, const CUmemLocation& place);
// The list's entry for a pool that allocates on this device; 0 when the list is full.
PoolIndex pool_index(CUmemoryPool handle, CUdevice device);
// The device's memory for graphs.
PoolIndex graph_pool_index(CUdevice device);

// -1: it lives in the host's memory, or its GPU is none of the tenant's.
int pool_slice(PoolIndex index);

// What it has reserved and not in use.
uint64_t pool_idle(PoolIndex index);

// Charges what the pool has reserved now. True when that is more than it was.
bool pool_settle(PoolIndex index);

// An allocation of the pool came to be; its pointer's entry carries the index. Charges what the
// pool has reserved now.
void pool_allocated(PoolIndex index);
// An allocation was freed, or its free was put into a stream.
void pool_freed(PoolIndex index);

// Before the program's destruction of a pool, and after it. What is still allocated from it keeps
// its memory until it is freed.
PoolIndex pool_going(CUmemoryPool handle);
void pool_gone(PoolIndex index);

// Charges all pools of a slice anew.
void pools_refresh(int slice);
// Makes the pools of a slice let go of what they only keep in reserve. True when the slice has more
// room now than it had.
bool pools_give_up(int slice);

// Something was freed to a pool since the last look: the driver may give it back when the program
// waits.
extern constinit std::atomic<bool> g_pools_stale;
void pools_look_again();
// After every call in which the program waited for the GPU. One load when there is nothing to do.
inline void pools_after_wait() {
  if (__builtin_expect(g_pools_stale.load(std::memory_order_relaxed), 0)) pools_look_again();
}

void forget_pools_of_parent();

}  // namespace divvy::shim
