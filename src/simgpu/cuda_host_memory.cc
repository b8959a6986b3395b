// Host memory that the GPU can reach: pinned allocations, and the program's own memory registered.
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "simgpu/memory.h"

namespace divvy::simgpu {
namespace {

constexpr unsigned kAllocFlags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned kRegisterFlags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                    CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

bool on_host(const Allocation& allocation) {
  return allocation.kind == MemoryKind::kHost || allocation.kind == MemoryKind::kRegistered;
}

// Whether every page of [start, start + size) is mapped with the rights that pinning it takes.
bool pages_allow(uint64_t start, uint64_t size, bool for_writing) {
  const std::unique_ptr<FILE, int (*)(FILE*)> maps(fopen("/proc/self/maps", "re"), fclose);
  if (maps == nullptr) return false;
  uint64_t next = start;  // everything before it is fine
  const uint64_t end = start + size;
  char line[512];
  while (next < end && fgets(line, sizeof(line), maps.get()) != nullptr) {
    unsigned long low = 0;
    unsigned long high = 0;
    char rights[8] = {};
    if (sscanf(line, "%lx-%lx %7s", &low, &high, rights) != 3) continue;
    if (high <= next) continue;
    if (low > next || rights[0] != 'r' || (for_writing && rights[1] != 'w')) return false;
    next = high;
  }
  return next >= end;
}

// Any allocation that shares a byte with the range.
const Allocation* overlapping(Driver& driver, uint64_t start, uint64_t size) {
  if (const Allocation* found = driver.map().find(start)) return found;
  auto& all = driver.map().all();
  const auto it = all.lower_bound(start);
  return it != all.end() && it->first < start + size ? &it->second : nullptr;
}

CUresult allocate(void** out, size_t bytes, unsigned flags) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (CUresult refused = refuse_while_capturing(call.driver)) return refused;
  if (out == nullptr || (flags & ~kAllocFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes == 0) {
    *out = nullptr;
    return CUDA_SUCCESS;
  }
  if (bytes > (size_t{1} << 46)) return CUDA_ERROR_OUT_OF_MEMORY;
  const size_t size = round_up(bytes, static_cast<uint64_t>(sysconf(_SC_PAGESIZE)));
  void* at = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (at == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation allocation;
  allocation.base = reinterpret_cast<uint64_t>(at);
  allocation.size = bytes;
  allocation.kind = MemoryKind::kHost;
  allocation.context = call.context;
  // Every GPU of today maps all pinned memory, asked or not.
  allocation.flags = flags | CU_MEMHOSTALLOC_DEVICEMAP;
  call.driver.map().insert(allocation);
  *out = at;
  return CUDA_SUCCESS;
}

CUresult register_memory(void* pointer, size_t bytes, unsigned flags) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  if (CUresult refused = refuse_while_capturing(driver)) return refused;
  const auto start = reinterpret_cast<uint64_t>(pointer);
  if (pointer == nullptr || bytes == 0 || (flags & ~kRegisterFlags) != 0 || start + bytes < start) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // There is no device whose registers a program could have mapped.
  if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (const Allocation* other = overlapping(driver, start, bytes)) {
    return other->kind == MemoryKind::kRegistered ? CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED
                                                  : CUDA_ERROR_INVALID_VALUE;
  }
  const bool read_only = (flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0;
  if (!pages_allow(start, bytes, !read_only)) return CUDA_ERROR_INVALID_VALUE;
  Allocation allocation;
  allocation.base = start;
  allocation.size = bytes;
  allocation.kind = MemoryKind::kRegistered;
  allocation.context = call.context;
  allocation.flags = (flags & CU_MEMHOSTREGISTER_PORTABLE) | CU_MEMHOSTREGISTER_DEVICEMAP;
  allocation.read_only = read_only;
  driver.map().insert(allocation);
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_EXPORT CUresult cuMemAllocHost_v2(void** out, size_t bytes) {
  return allocate(out, bytes, 0);
}

SIMGPU_EXPORT CUresult cuMemHostAlloc(void** out, size_t bytes, unsigned int flags) {
  return allocate(out, bytes, flags);
}

SIMGPU_EXPORT CUresult cuMemFreeHost(void* pointer) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  if (CUresult refused = refuse_while_capturing(driver)) return refused;
  if (pointer == nullptr) return CUDA_SUCCESS;
  const auto address = reinterpret_cast<uint64_t>(pointer);
  const auto find = [&]() -> const Allocation* {
    const Allocation* found = driver.map().find(address);
    const bool ours =
        found != nullptr && found->base == address && found->kind == MemoryKind::kHost;
    return ours ? found : nullptr;
  };
  const Allocation* found = find();
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Copies that are still queued read or write it.
  driver.synchronize(call.lock, *found->context);
  found = find();
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  free_any(driver, *found);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemHostRegister(void* pointer, size_t bytes, unsigned int flags) {
  return register_memory(pointer, bytes, flags);
}

SIMGPU_EXPORT CUresult cuMemHostRegister_v2(void* pointer, size_t bytes, unsigned int flags) {
  return register_memory(pointer, bytes, flags);
}

SIMGPU_EXPORT CUresult cuMemHostUnregister(void* pointer) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  if (CUresult refused = refuse_while_capturing(driver)) return refused;
  if (pointer == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto address = reinterpret_cast<uint64_t>(pointer);
  const Allocation* found = driver.map().find(address);
  if (found == nullptr) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  if (found->kind != MemoryKind::kRegistered || found->base != address) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  driver.synchronize(call.lock, *found->context);
  found = driver.map().find(address);
  if (found == nullptr || found->base != address) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  free_any(driver, *found);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* out, void* pointer,
                                                    unsigned int flags) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  const auto address = reinterpret_cast<uint64_t>(pointer);
  const Allocation* found = call.driver.map().find(address);
  if (out == nullptr || flags != 0 || found == nullptr || !on_host(*found)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = address;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemHostGetFlags(unsigned int* flags, void* pointer) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Allocation* found = call.driver.map().find(reinterpret_cast<uint64_t>(pointer));
  if (flags == nullptr || found == nullptr || !on_host(*found)) return CUDA_ERROR_INVALID_VALUE;
  *flags = found->flags;
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
