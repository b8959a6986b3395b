#include "shim/lost_memory.h"

#include "shim/array_bytes.h"
#include "shim/charge.h"
#include "shim/forget.h"
#include "shim/graph_memory.h"
#include "shim/overhead.h"
#include "shim/pools.h"
#include "shim/real.h"
#include "shim/virtual_memory.h"

namespace divvy::shim {

void drop_lost_memory(CUcontext context, int slice) {
  // The driver itself is asked which pointers are left: an address need not belong to the context
  // that was current when it was allocated.
  g_pointers.remove_if([&](uint64_t pointer, const Allocation& held) {
    // Pools belong to the device and outlive contexts.
    if (held.slice != slice || held.family == Family::kPool) return false;
    CUmemorytype type{};
    if (g_cuda.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pointer) ==
        CUDA_SUCCESS) {
      return false;
    }
    uncharge_slice(held.slice, held.bytes);
    return true;
  });
  g_arrays.remove_if([&](uint64_t, const Allocation& held) {
    if (held.owner != reinterpret_cast<uint64_t>(context)) return false;
    uncharge_slice(held.slice, held.bytes);
    return true;
  });
  pools_refresh(slice);
}

void forget_memory_of_parent() {
  g_pointers.clear();
  g_arrays.clear();
  forget_overhead_of_parent();
  forget_contexts_of_parent();
  forget_pools_of_parent();
  forget_graphs_of_parent();
  g_handles.clear();
  g_mappings.clear();
}

}  // namespace divvy::shim
