#include "shim/charge.h"

#include "shim/overhead.h"
#include "shim/pools.h"

namespace divvy::shim {

constinit AllocationTable g_pointers;

bool Reservation::take_at_last(int slice, uint64_t* in_use) {
  if (pools_give_up(slice) && take(account_, bytes_, in_use)) return true;
  return measure_overhead_lazily(slice) && take(account_, bytes_, in_use);
}

bool Reservation::still_fits(int slice) {
  measure_overhead_at_the_edge(slice, bytes_);
  return bytes_in_use(account_) <= account_.limit->memory_limit.load(std::memory_order_relaxed);
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
