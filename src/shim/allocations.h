// What this process holds of the driver, by pointer or handle: how much was charged for it, where.
//
// A hash table in shards, each with its own short lock, in memory straight from the kernel: the
// hooks run inside the program's own calls, also from allocators and fork handlers, and must not
// call malloc. The newest entry of a shard lies beside its lock, in the same cache line: what was
// allocated last is often freed first. Any thread. A table is a global that needs no constructor to
// run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace divvy::shim {

enum class Family : uint8_t { kPlain, kManaged, kPool, kGraph, kArray, kVirtual, kImport };

struct Allocation {
  uint64_t bytes = 0;  // as charged
  uint64_t owner = 0;  // what it goes down with, where the driver cannot be asked (arrays: context)
  int8_t slice = -1;   // -1: charged nowhere
  Family family = Family::kPlain;
  uint16_t pool = 0;   // kPool: which (pools.h)
  uint32_t count = 0;  // for who keeps count
};

class AllocationTable {
 public:
  // An entry of the same key is replaced. False when the kernel gives no memory; what was charged
  // then stays charged until the process ends.
  bool insert(uint64_t key, Allocation allocation) {
    if (key == 0) return false;
    Shard& shard = shard_of(key);
    const Lock lock(shard);
    const bool empty = shard.newest.key == 0 && shard.count == 0;
    if (__builtin_expect(!empty, 0)) return insert_beside(shard, key, allocation);
    shard.newest = {key, allocation};
    return true;
  }
  // Takes an entry out. False when there is none.
  bool remove(uint64_t key, Allocation* removed) {
    return update(key, [removed](Allocation& allocation) {
      *removed = allocation;
      return false;
    });
  }
  bool find(uint64_t key, Allocation* found) {
    return update(key, [found](Allocation& allocation) {
      *found = allocation;
      return true;
    });
  }

  // Changes an entry in place while its shard is locked; `change` answers whether it stays.
  template <typename Change>
  bool update(uint64_t key, Change change) {
    if (key == 0) return false;
    Shard& shard = shard_of(key);
    const Lock lock(shard);
    Entry* entry = entry_of(shard, key);
    if (entry == nullptr) return false;
    if (!change(entry->allocation)) erase(shard, entry);
    return true;
  }

  // Takes out every entry for which `wanted(key, allocation)` is true. Not while it runs for the
  // same table in `wanted` itself.
  template <typename Wanted>
  void remove_if(Wanted wanted) {
    for (Shard& shard : shards_) {
      const Lock lock(shard);
      Entry& newest = shard.newest;
      if (newest.key != 0 && wanted(newest.key, newest.allocation)) newest.key = 0;
      for (size_t i = 0; i < shard.capacity;) {
        Entry& entry = shard.entries[i];
        // What is moved into the gap is looked at again.
        if (entry.key != 0 && wanted(entry.key, entry.allocation)) {
          erase_older(shard, &entry);
        } else {
          ++i;
        }
      }
    }
  }

  // In a forked child, where no other thread lives: forgets everything.
  void clear();

 private:
  struct Entry {
    uint64_t key;  // 0: free
    Allocation allocation;
  };
  struct alignas(64) Shard {
    std::atomic<uint32_t> locked = 0;
    uint32_t count = 0;  // of `entries`
    Entry* entries = nullptr;
    size_t capacity = 0;                                    // a power of two
    Entry newest = {.key = 0, .allocation = {.slice = 0}};  // all zero, as globals should be
  };
  class Lock {
   public:
    explicit Lock(Shard& shard) : shard_(shard) {
      if (shard_.locked.exchange(1, std::memory_order_acquire) != 0) wait(shard_);
    }
    ~Lock() { shard_.locked.store(0, std::memory_order_release); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;

   private:
    static void wait(Shard& shard);

    Shard& shard_;
  };
  static constexpr size_t kShards = 32;

  static uint64_t hash(uint64_t key) { return key * 0x9e3779b97f4a7c15ULL; }
  Shard& shard_of(uint64_t key) { return shards_[hash(key) >> 59U]; }
  static size_t place(const Shard& shard, uint64_t key) {
    return static_cast<size_t>(hash(key) >> 16U) & (shard.capacity - 1);
  }
  static Entry* entry_of(Shard& shard, uint64_t key) {
    if (__builtin_expect(shard.newest.key == key, 1)) return &shard.newest;
    return shard.count == 0 ? nullptr : older_entry_of(shard, key);
  }
  static void erase(Shard& shard, Entry* entry) {
    if (entry == &shard.newest) {
      entry->key = 0;
    } else {
      erase_older(shard, entry);
    }
  }
  static Entry* older_entry_of(Shard& shard, uint64_t key);
  static void erase_older(Shard& shard, Entry* entry);
  // Where the shard has entries.
  static bool insert_beside(Shard& shard, uint64_t key, Allocation allocation);
  // Into `entries`. False when the kernel gives no memory.
  static bool put_away_newest(Shard& shard);
  static bool grow(Shard& shard);

  static_assert(sizeof(Shard) == 64);

  Shard shards_[kShards] = {};
};

}  // namespace divvy::shim
