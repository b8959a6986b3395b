// Virtual memory management: addresses, mappings and access. Physical memory and its handles are
// in cuda_vmm_handle.cc.
#include <sys/mman.h>

#include <algorithm>

#include "simgpu/memory.h"
#include "simgpu/topology.h"
#include "simgpu/vmm.h"

namespace divvy::simgpu {
namespace {

bool whole_slabs(uint64_t value) { return value % kSlabBytes == 0; }

// The reservation that holds all of a range.
bool reserved(const VirtualMemory& vmm, uint64_t start, uint64_t size) {
  auto it = vmm.reservations.upper_bound(start);
  if (it == vmm.reservations.begin()) return false;
  --it;
  return start - it->first < it->second && size <= it->first + it->second - start;
}

using Mappings = std::map<uint64_t, Mapping>;

// The mappings that begin in a range. False when one lies across its edge.
bool mappings_in(VirtualMemory& vmm, uint64_t start, uint64_t size, Mappings::iterator* first,
                 Mappings::iterator* last) {
  *first = vmm.mappings.lower_bound(start);
  *last = vmm.mappings.lower_bound(start + size);
  const auto crosses = [&](Mappings::iterator it, uint64_t edge) {
    if (it == vmm.mappings.begin()) return false;
    --it;
    return it->first < edge && it->first + it->second.size > edge;
  };
  return !crosses(*first, start) && !crosses(*last, start + size);
}

// The memory map shows a mapping as reserved, so that no work may touch it, until somebody is
// given access.
void show(Driver& driver, uint64_t start, const Mapping& mapping) {
  const bool open = std::any_of(mapping.access.begin(), mapping.access.end(), [](const auto& one) {
    return one.second != CU_MEM_ACCESS_FLAGS_PROT_NONE;
  });
  const CUmemLocation& location = mapping.handle->physical->prop.location;
  Allocation* known = driver.map().find(start);
  if (known == nullptr) {
    Allocation allocation;
    allocation.base = start;
    allocation.size = mapping.size;
    allocation.device = location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : -1;
    known = &driver.map().insert(allocation);
  }
  known->kind = open ? MemoryKind::kMapped : MemoryKind::kReserved;
}

void* at(uint64_t address) { return reinterpret_cast<void*>(address); }

}  // namespace

SIMGPU_EXPORT CUresult cuMemAddressReserve(CUdeviceptr* out, size_t size, size_t alignment,
                                           CUdeviceptr wish, unsigned long long flags) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr || size == 0 || !whole_slabs(size) || flags != 0 ||
      (alignment & (alignment - 1)) != 0 || !whole_slabs(wish)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const uint64_t unit = std::max<uint64_t>(alignment, kSlabBytes);
  void* got = MAP_FAILED;
  if (wish != 0 && wish % unit == 0) {
    // A wish that cannot be granted is no error: the addresses are then somewhere else.
    got = mmap(at(wish), size, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != MAP_FAILED && got != at(wish)) {
      munmap(got, size);
      got = MAP_FAILED;
    }
  }
  if (got == MAP_FAILED) got = map_aligned(size, unit, -1, 0);
  if (got == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = reinterpret_cast<uint64_t>(got);
  call.driver.memory().virtual_memory->reservations[*out] = size;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  VirtualMemory& vmm = *call.driver.memory().virtual_memory;
  const auto it = vmm.reservations.find(address);
  if (it == vmm.reservations.end() || it->second != size) return CUDA_ERROR_INVALID_VALUE;
  Mappings::iterator first;
  Mappings::iterator last;
  mappings_in(vmm, address, size, &first, &last);
  if (first != last) return CUDA_ERROR_INVALID_VALUE;
  munmap(at(address), size);
  vmm.reservations.erase(it);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                                CUmemGenericAllocationHandle handle, unsigned long long flags) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  VirtualMemory& vmm = *call.driver.memory().virtual_memory;
  const auto found = vmm.handles.find(handle);
  if (flags != 0 || size == 0 || found == vmm.handles.end()) return CUDA_ERROR_INVALID_VALUE;
  const Physical& physical = *found->second->physical;
  // An allocation is mapped whole or not at all.
  if (offset != 0 || size != physical.size) return CUDA_ERROR_NOT_SUPPORTED;
  if (!whole_slabs(address) || !reserved(vmm, address, size)) return CUDA_ERROR_INVALID_VALUE;
  Mappings::iterator first;
  Mappings::iterator last;
  if (!mappings_in(vmm, address, size, &first, &last) || first != last) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Backing backing{physical.fd, 0};
  if (physical.fd < 0) {
    const int device =
        physical.prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE ? physical.prop.location.id : 0;
    const auto where = device_memory(call.driver, device).arena.backing(physical.arena_address);
    if (!where) return CUDA_ERROR_INVALID_VALUE;
    backing = *where;
  }
  if (mmap(at(address), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
           backing.fd, static_cast<off_t>(backing.offset)) == MAP_FAILED) {
    return CUDA_ERROR_MAP_FAILED;
  }
  madvise(at(address), size, MADV_DONTDUMP);
  Mapping& mapping = vmm.mappings[address];
  mapping.size = size;
  mapping.handle = found->second;
  show(call.driver, address, mapping);
  return CUDA_SUCCESS;
}

// Takes whole mappings away; a range that has none is left as it is.
SIMGPU_EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  VirtualMemory& vmm = *call.driver.memory().virtual_memory;
  Mappings::iterator first;
  Mappings::iterator last;
  if (size == 0 || !whole_slabs(address) || !whole_slabs(size) || !reserved(vmm, address, size) ||
      !mappings_in(vmm, address, size, &first, &last)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Work that is queued may still use the memory, and the simulated GPU must not fault.
  if (!context_stack().empty() && call.driver.live(context_stack().back())) {
    call.driver.synchronize(call.lock, *context_stack().back());
    if (!mappings_in(vmm, address, size, &first, &last)) return CUDA_ERROR_INVALID_VALUE;
  }
  for (auto it = first; it != last; it = vmm.mappings.erase(it)) {
    if (mmap(at(it->first), it->second.size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED) {
      return CUDA_ERROR_UNMAP_FAILED;
    }
    call.driver.map().erase(it->first);
  }
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc* list,
                                      size_t count) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  VirtualMemory& vmm = *driver.memory().virtual_memory;
  Mappings::iterator first;
  Mappings::iterator last;
  if (list == nullptr || count == 0 || size == 0 || !whole_slabs(address) || !whole_slabs(size) ||
      !mappings_in(vmm, address, size, &first, &last) || first == last) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  uint64_t covered = 0;
  for (auto it = first; it != last; ++it) covered += it->second.size;
  if (covered != size) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const CUmemAccessDesc& entry = list[i];
    const bool on_device = entry.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (entry.location.type == CU_MEM_LOCATION_TYPE_INVALID ||
        (on_device && !driver.valid_device(entry.location.id)) ||
        (entry.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
         entry.flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
         entry.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    for (auto it = first; on_device && it != last; ++it) {
      const CUmemLocation& where = it->second.handle->physical->prop.location;
      if (where.type == CU_MEM_LOCATION_TYPE_DEVICE && where.id != entry.location.id &&
          !peers(driver.shared(), driver.gpu_of(where.id), driver.gpu_of(entry.location.id))) {
        return CUDA_ERROR_INVALID_DEVICE;
      }
    }
  }
  for (auto it = first; it != last; ++it) {
    for (size_t i = 0; i < count; ++i) {
      const bool on_device = list[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE;
      it->second.access[on_device ? list[i].location.id : CU_DEVICE_CPU] = list[i].flags;
    }
    show(driver, it->first, it->second);
  }
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location,
                                      CUdeviceptr address) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  VirtualMemory& vmm = *call.driver.memory().virtual_memory;
  if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto it = vmm.mappings.upper_bound(address);
  if (it == vmm.mappings.begin()) return CUDA_ERROR_INVALID_VALUE;
  --it;
  if (address - it->first >= it->second.size) return CUDA_ERROR_INVALID_VALUE;
  const bool on_device = location->type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (on_device && !call.driver.valid_device(location->id)) return CUDA_ERROR_INVALID_VALUE;
  const auto found = it->second.access.find(on_device ? location->id : CU_DEVICE_CPU);
  *flags = found == it->second.access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : found->second;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* out,
                                                   void* pointer) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  VirtualMemory& vmm = *call.driver.memory().virtual_memory;
  const auto address = reinterpret_cast<uint64_t>(pointer);
  auto it = vmm.mappings.upper_bound(address);
  if (out == nullptr || it == vmm.mappings.begin()) return CUDA_ERROR_INVALID_VALUE;
  --it;
  if (address - it->first >= it->second.size) return CUDA_ERROR_INVALID_VALUE;
  const auto& handle = it->second.handle;
  ++handle->references;
  *out = reinterpret_cast<uint64_t>(handle.get());
  vmm.handles[*out] = handle;
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
