// Virtual memory management: physical memory by handle, reserved addresses, and the mappings
// between them (cuda_vmm.cc).
//
// Guarded by the driver's mutex.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <unordered_map>

#include "abi/cuda_types.h"

namespace divvy::simgpu {

class Driver;

// Memory of a GPU, charged while a handle or a mapping needs it. Memory that may be exported has a
// memfd of its own; the rest lies in the device's arena, so that many handles need no descriptors.
struct Physical {
  explicit Physical(Driver& owner) : driver(owner) {}
  ~Physical();
  Physical(const Physical&) = delete;
  Physical& operator=(const Physical&) = delete;

  Driver& driver;
  CUmemAllocationProp prop{};
  uint64_t size = 0;
  uint64_t charged = 0;
  uint64_t arena_address = 0;
  int fd = -1;
  uint64_t file_id = 0;  // inode of `fd`: an import of our own export finds the same memory
};

struct PhysicalHandle {
  std::shared_ptr<Physical> physical;
  uint32_t references = 0;  // cuMemCreate, cuMemRetainAllocationHandle and imports
};

struct Mapping {
  uint64_t size = 0;
  std::shared_ptr<PhysicalHandle> handle;
  std::map<int, CUmemAccess_flags> access;  // by device
};

struct VirtualMemory {
  std::unordered_map<uint64_t, std::shared_ptr<PhysicalHandle>> handles;
  std::map<uint64_t, uint64_t> reservations;  // start to size
  std::map<uint64_t, Mapping> mappings;
};

}  // namespace divvy::simgpu
