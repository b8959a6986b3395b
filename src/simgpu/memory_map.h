// Every address that the driver of this process knows: device, managed, pinned and registered
// memory. A device address is an address of this process, backed by memory that costs nothing
// until it is written.
//
// Guarded by the driver's mutex.
#pragma once

#include <cstdint>
#include <map>

#include "abi/cuda_types.h"

namespace divvy::simgpu {

struct Context;

enum class MemoryKind : uint8_t {
  kDevice,  // cuMemAlloc, cuMemAllocPitch
  kManaged,
  kPool,        // stream-ordered
  kGraph,       // memory nodes
  kReserved,    // an address range with nothing mapped yet (cuMemAddressReserve)
  kMapped,      // VMM memory mapped into such a range
  kIpc,         // opened from another process
  kHost,        // cuMemAllocHost, cuMemHostAlloc
  kRegistered,  // cuMemHostRegister
  kGlobal,      // a module's variable
};

struct Allocation {
  uint64_t base = 0;
  uint64_t size = 0;
  MemoryKind kind = MemoryKind::kDevice;
  int device = -1;  // -1: host
  Context* context = nullptr;
  unsigned flags = 0;      // as given by the program (host memory, managed)
  bool read_only = false;  // registered with CU_MEMHOSTREGISTER_READ_ONLY
  uint64_t id = 0;         // CU_POINTER_ATTRIBUTE_BUFFER_ID
  uint64_t charged = 0;    // bytes of GPU memory taken for it alone
  void* owner = nullptr;   // the pool, the VMM handle or the import behind it
};

class MemoryMap {
 public:
  Allocation& insert(const Allocation& allocation) {
    Allocation& stored = by_base_[allocation.base] = allocation;
    stored.id = ++last_id_;
    return stored;
  }
  void erase(uint64_t base) { by_base_.erase(base); }

  // The allocation that `address` lies in, if any.
  Allocation* find(uint64_t address) {
    auto it = by_base_.upper_bound(address);
    if (it == by_base_.begin()) return nullptr;
    --it;
    return address - it->second.base < it->second.size ? &it->second : nullptr;
  }
  // The same, if all `size` bytes lie in it.
  Allocation* find_range(uint64_t address, uint64_t size) {
    Allocation* found = find(address);
    if (found == nullptr || size > found->base + found->size - address) return nullptr;
    return found;
  }
  std::map<uint64_t, Allocation>& all() { return by_base_; }

 private:
  std::map<uint64_t, Allocation> by_base_;
  uint64_t last_id_ = 0;
};

}  // namespace divvy::simgpu
