#include "shim/allocations.h"

#include <sched.h>
#include <sys/mman.h>

namespace divvy::shim {

void AllocationTable::Lock::wait(Shard& shard) {
  for (unsigned spins = 0; shard.locked.exchange(1, std::memory_order_acquire) != 0; ++spins) {
    // The holder may have been taken off its processor.
    if (spins % 64 == 63) sched_yield();
  }
}

AllocationTable::Entry* AllocationTable::older_entry_of(Shard& shard, uint64_t key) {
  for (size_t i = place(shard, key);; i = (i + 1) & (shard.capacity - 1)) {
    Entry& entry = shard.entries[i];
    if (entry.key == key) return &entry;
    if (entry.key == 0) return nullptr;
  }
}

// Entries behind the gap move up until one is where it belongs, so that no search stops short.
void AllocationTable::erase_older(Shard& shard, Entry* entry) {
  const size_t mask = shard.capacity - 1;
  auto gap = static_cast<size_t>(entry - shard.entries);
  for (size_t i = (gap + 1) & mask; shard.entries[i].key != 0; i = (i + 1) & mask) {
    const size_t home = place(shard, shard.entries[i].key);
    const bool reaches_gap = ((i - home) & mask) >= ((i - gap) & mask);
    if (!reaches_gap) continue;
    shard.entries[gap] = shard.entries[i];
    gap = i;
  }
  shard.entries[gap].key = 0;
  --shard.count;
}

bool AllocationTable::grow(Shard& shard) {
  const size_t capacity = shard.capacity == 0 ? 64 : shard.capacity * 2;
  void* memory = mmap(nullptr, capacity * sizeof(Entry), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  Shard bigger{};
  bigger.entries = static_cast<Entry*>(memory);
  bigger.capacity = capacity;
  for (size_t i = 0; i < shard.capacity; ++i) {
    const Entry& entry = shard.entries[i];
    if (entry.key == 0) continue;
    size_t at = place(bigger, entry.key);
    while (bigger.entries[at].key != 0) at = (at + 1) & (capacity - 1);
    bigger.entries[at] = entry;
  }
  if (shard.entries != nullptr) munmap(shard.entries, shard.capacity * sizeof(Entry));
  shard.entries = bigger.entries;
  shard.capacity = capacity;
  return true;
}

bool AllocationTable::insert_beside(Shard& shard, uint64_t key, Allocation allocation) {
  if (Entry* entry = entry_of(shard, key)) {
    entry->allocation = allocation;
    return true;
  }
  if (shard.newest.key != 0 && !put_away_newest(shard)) return false;
  shard.newest = {key, allocation};
  return true;
}

bool AllocationTable::put_away_newest(Shard& shard) {
  if (size_t{shard.count} * 2 >= shard.capacity && !grow(shard)) return false;
  size_t at = place(shard, shard.newest.key);
  while (shard.entries[at].key != 0) at = (at + 1) & (shard.capacity - 1);
  shard.entries[at] = shard.newest;
  ++shard.count;
  return true;
}

void AllocationTable::clear() {
  for (Shard& shard : shards_) {
    if (shard.entries != nullptr) munmap(shard.entries, shard.capacity * sizeof(Entry));
    shard.entries = nullptr;
    shard.capacity = 0;
    shard.count = 0;
    shard.newest.key = 0;
    shard.locked.store(0, std::memory_order_relaxed);
  }
}

}  // namespace divvy::shim
