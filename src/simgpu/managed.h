// What the program said about managed memory: where it was last prefetched to, and its advice.
// Kept in pieces, as a range may be advised in parts.
//
// Guarded by the driver's mutex.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "abi/cuda_types.h"

namespace divvy::simgpu {

class Driver;

struct ManagedPiece {
  uint64_t size = 0;
  bool read_mostly = false;
  CUmemLocation preferred{CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
  CUmemLocation last_prefetch{CU_MEM_LOCATION_TYPE_INVALID, CU_DEVICE_INVALID};
  std::set<int> accessed_by;  // devices, CU_DEVICE_CPU among them
  int resident = -1;          // the device that is charged for it; -1: host
  uint64_t charged = 0;
};

struct ManagedRanges {
  using Pieces = std::map<uint64_t, ManagedPiece>;
  Pieces pieces;

  void add(uint64_t start, uint64_t size) { pieces[start].size = size; }
  // Makes a piece begin at `at`, if it lies in one.
  void split(uint64_t at);
  void remove(Driver& driver, uint64_t start, uint64_t size);
};

// Moves a piece to a device (or -1, the host) and charges what it takes there. A GPU that is full
// takes nothing: the pages stay where they are, as they would be evicted at once.
void move_piece(Driver& driver, ManagedPiece& piece, int device);

}  // namespace divvy::simgpu
