#include "shim/charge.h"

#include "shim/overhead.h"
#include "shim/pools.h"

namespace divvy::shim {

constinit AllocationTable g_pointers;

void Reservation::give_back() {
  // The process may have another slot by now.
  if (taken_) uncharge_slice(slice_, bytes_);
  taken_ = false;
}

void Reservation::look_closer(SliceAccount account, uint64_t in_use) {
  if (!taken_) taken_ = pools_give_up(slice_) && take(account, bytes_, &in_use);
  if (!taken_) taken_ = measure_overhead_lazily(slice_) && take(account, bytes_, &in_use);
  // Small pieces come out of what the driver has already taken.
  const std::atomic<uint64_t>& limit = account.limit->memory_limit;
  if (!taken_ || bytes_ < kLarge || in_use + kEdge <= limit.load(std::memory_order_relaxed)) return;
  measure_overhead_at_the_edge(slice_, bytes_);
  if (bytes_in_use(account) > limit.load(std::memory_order_relaxed)) give_back();
}

void charge_slice(int slice, uint64_t bytes) {
  SliceAccount found;
  if (bytes != 0 && account_of(slice, &found)) charge(found, bytes);
}

void recharge_slice(int slice, uint64_t before, uint64_t now) {
  if (now > before) charge_slice(slice, now - before);
  if (now < before) uncharge_slice(slice, before - now);
}

bool slice_overfull(int slice) {
  SliceAccount found;
  return account_of(slice, &found) &&
         bytes_in_use(found) > found.limit->memory_limit.load(std::memory_order_relaxed);
}

bool slice_memory(int slice, SliceMemory* memory) {
  SliceAccount found;
  if (!account_of(slice, &found)) return false;
  memory->total = found.limit->memory_limit.load(std::memory_order_relaxed);
  memory->used = bytes_in_use(found);
  // A limit that was lowered below what is in use: full, and not more than full.
  if (memory->used > memory->total) memory->used = memory->total;
  memory->free = memory->total - memory->used;
  return true;
}

}  // namespace divvy::shim
