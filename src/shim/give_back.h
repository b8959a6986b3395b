// Freeing device memory: what is undone when the driver has freed an allocation.
#pragma once

#include "shim/charge.h"
#include "shim/graph_memory.h"
#include "shim/pools.h"

namespace divvy::shim {

inline void give_back(const Allocation& held) {
  if (held.family == Family::kPool && held.pool != 0) {
    pool_freed(held.pool);
  } else {
    uncharge_slice(held.slice, held.bytes);
  }
}

// Frees by `real`. The entry goes before the memory: once the driver has freed it, another thread
// may be given the same address.
template <typename Real>
CUresult release_pointer(CUdeviceptr pointer, Real real) {
  Allocation held;
  const bool known = g_pointers.remove(pointer, &held);
  const CUresult result = real();
  if (__builtin_expect(result != CUDA_SUCCESS, 0)) {
    if (known) g_pointers.insert(pointer, held);
  } else if (__builtin_expect(known, 1)) {
    give_back(held);
  } else {
    unknown_memory_freed();
  }
  return result;
}

}  // namespace divvy::shim
