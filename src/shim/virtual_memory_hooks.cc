// Virtual memory management: memory by handle, mapped where the program likes.
//
// Memory lives while it has a handle or a mapping. Programs commonly let go of the handle as soon
// as the memory is mapped, so both are counted, and it is uncharged with the last.
#include "shim/virtual_memory.h"

#include "shim/charge.h"
#include "shim/export.h"
#include "shim/overhead.h"

namespace divvy::shim {

constinit AllocationTable g_handles;
constinit AllocationTable g_mappings;

namespace {

constexpr uint64_t kGranularity = uint64_t{2} << 20U;

// An entry of g_handles that says with `owner` which handle of the same memory came first.
uint64_t first_handle(uint64_t handle) {
  Allocation found;
  return g_handles.find(handle, &found) && found.owner != 0 ? found.owner : handle;
}

bool add_hold(uint64_t handle) {
  return g_handles.update(handle, [](Allocation& memory) {
    ++memory.count;
    return true;
  });
}

// What a hold that is dropped leaves to uncharge: nothing until it was the last.
struct Dropped {
  uint64_t bytes = 0;
  int slice = -1;
};
Dropped drop_hold(uint64_t handle) {
  Dropped dropped;
  g_handles.update(handle, [&](Allocation& memory) {
    if (--memory.count > 0) return true;
    dropped = {memory.bytes, memory.slice};
    return false;
  });
  return dropped;
}

void remember(uint64_t handle, uint64_t bytes, int slice) {
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.slice = static_cast<int8_t>(slice);
  allocation.family = Family::kVirtual;
  allocation.count = 1;
  g_handles.insert(handle, allocation);
}

// The handle of the mapping that an address lies in, or 0.
uint64_t handle_at(uint64_t address) {
  uint64_t handle = 0;
  g_mappings.remove_if([&](uint64_t start, const Allocation& mapping) {
    if (address >= start && address - start < mapping.bytes) handle = mapping.owner;
    return false;
  });
  return handle;
}

}  // namespace
}  // namespace divvy::shim

using divvy::shim::Allocation;
using divvy::shim::charged_slice_of;
using divvy::shim::g_cuda;
using divvy::shim::g_handles;
using divvy::shim::g_mappings;
using divvy::shim::Reservation;
namespace shim = divvy::shim;

DIVVY_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t bytes,
                                  const CUmemAllocationProp* prop, unsigned long long flags) {
  DIVVY_NEED(cuMemCreate);
  const bool on_device = prop != nullptr && prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const int slice = on_device && out != nullptr ? charged_slice_of(prop->location.id) : -1;
  if (slice < 0) return g_cuda.cuMemCreate(out, bytes, prop, flags);
  Reservation room(slice, shim::allocation_bytes(bytes));
  if (room.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = g_cuda.cuMemCreate(out, bytes, prop, flags);
  if (result != CUDA_SUCCESS) return result;
  shim::remember(*out, room.bytes(), slice);
  room.keep();
  return result;
}

// Dropped before the call, because after it another thread may be given the same handle.
DIVVY_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  DIVVY_NEED(cuMemRelease);
  Allocation before;
  if (!g_handles.find(handle, &before)) return g_cuda.cuMemRelease(handle);
  const uint64_t first = before.owner != 0 ? before.owner : handle;
  if (before.owner != 0) shim::drop_hold(handle);
  const shim::Dropped dropped = shim::drop_hold(first);
  const CUresult result = g_cuda.cuMemRelease(handle);
  if (result == CUDA_SUCCESS) {
    shim::uncharge_slice(dropped.slice, dropped.bytes);
    return result;
  }
  if (!shim::add_hold(first)) shim::remember(first, dropped.bytes, dropped.slice);
  if (before.owner != 0 && !shim::add_hold(handle)) g_handles.insert(handle, before);
  return result;
}

DIVVY_EXPORT CUresult cuMemMap(CUdeviceptr pointer, size_t bytes, size_t offset,
                               CUmemGenericAllocationHandle handle, unsigned long long flags) {
  DIVVY_NEED(cuMemMap);
  const uint64_t first = shim::first_handle(handle);
  const bool known = shim::add_hold(first);
  const CUresult result = g_cuda.cuMemMap(pointer, bytes, offset, handle, flags);
  if (!known) return result;
  if (result != CUDA_SUCCESS) {
    shim::drop_hold(first);
    return result;
  }
  Allocation mapping;
  mapping.bytes = bytes;
  mapping.owner = first;
  g_mappings.insert(pointer, mapping);
  return result;
}

// Takes whole mappings, one or several side by side.
DIVVY_EXPORT CUresult cuMemUnmap(CUdeviceptr pointer, size_t bytes) {
  DIVVY_NEED(cuMemUnmap);
  const CUresult result = g_cuda.cuMemUnmap(pointer, bytes);
  if (result != CUDA_SUCCESS) return result;
  for (uint64_t done = 0; done < bytes;) {
    Allocation mapping;
    if (!g_mappings.remove(pointer + done, &mapping)) {
      done += shim::kGranularity;
      continue;
    }
    done += mapping.bytes;
    const shim::Dropped dropped = shim::drop_hold(mapping.owner);
    shim::uncharge_slice(dropped.slice, dropped.bytes);
  }
  return result;
}

DIVVY_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out,
                                                  void* address) {
  DIVVY_NEED(cuMemRetainAllocationHandle);
  const CUresult result = g_cuda.cuMemRetainAllocationHandle(out, address);
  if (result != CUDA_SUCCESS || out == nullptr) return result;
  const uint64_t first = shim::handle_at(reinterpret_cast<uint64_t>(address));
  if (first == 0 || !shim::add_hold(first) || *out == first || shim::add_hold(*out)) return result;
  Allocation other;
  other.owner = first;
  other.count = 1;
  g_handles.insert(*out, other);
  return result;
}

// Memory of another process is that process's, and NVML counts it there. When its maker ends, the
// driver lays it to who still holds it, which the measurement finds. Our own memory, imported back,
// has one hold more.
DIVVY_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out,
                                                     void* shared, CUmemAllocationHandleType type) {
  DIVVY_NEED(cuMemImportFromShareableHandle);
  const CUresult result = g_cuda.cuMemImportFromShareableHandle(out, shared, type);
  if (result != CUDA_SUCCESS || out == nullptr) return result;
  if (shim::add_hold(shim::first_handle(*out))) return result;
  CUmemAllocationProp prop{};
  if (g_cuda.cuMemGetAllocationPropertiesFromHandle != nullptr &&
      g_cuda.cuMemGetAllocationPropertiesFromHandle(&prop, *out) == CUDA_SUCCESS &&
      prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE) {
    shim::measure_overhead(charged_slice_of(prop.location.id));
  }
  return result;
}
