// Physical memory by handle: making it, sharing it with other processes, letting it go.
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "simgpu/memory.h"
#include "simgpu/shared_files.h"
#include "simgpu/vmm.h"

namespace divvy::simgpu {

Physical::~Physical() {
  const bool on_device = prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (charged > 0) driver.refund(prop.location.id, charged);
  if (arena_address != 0) {
    device_memory(driver, on_device ? prop.location.id : 0).arena.unreserve(arena_address, size);
  }
  if (fd >= 0) close(fd);
}

namespace {

uint64_t file_id(int fd) {
  struct stat info{};
  return fstat(fd, &info) == 0 ? static_cast<uint64_t>(info.st_ino) : 0;
}

bool on_host(const CUmemLocation& location) {
  return location.type == CU_MEM_LOCATION_TYPE_HOST ||
         location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA ||
         location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
}

CUresult check_prop(const CUmemAllocationProp* prop) {
  if (prop == nullptr || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE && !on_host(prop->location)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  switch (prop->requestedHandleTypes) {
    case CU_MEM_HANDLE_TYPE_NONE:
    case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
      return CUDA_SUCCESS;
    // Needs a fabric that this machine does not have.
    case CU_MEM_HANDLE_TYPE_FABRIC:
      return CUDA_ERROR_NOT_PERMITTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Finds host memory to stand for the GPU's.
bool find_backing(Driver& driver, Physical& physical) {
  const bool on_device = physical.prop.location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  const int device = on_device ? physical.prop.location.id : 0;
  if (physical.prop.requestedHandleTypes == CU_MEM_HANDLE_TYPE_NONE) {
    physical.arena_address = device_memory(driver, device).arena.reserve(physical.size);
    return physical.arena_address != 0;
  }
  const std::string name = kPhysicalFilePrefix + std::to_string(driver.gpu_of(device));
  physical.fd = memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (physical.fd < 0 || ftruncate(physical.fd, static_cast<off_t>(physical.size)) != 0) {
    return false;
  }
  // Nobody who is given the descriptor may pull the memory from under the others.
  fcntl(physical.fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  physical.file_id = file_id(physical.fd);
  return true;
}

CUmemGenericAllocationHandle add_handle(VirtualMemory& vmm, std::shared_ptr<Physical> physical) {
  auto handle = std::make_shared<PhysicalHandle>();
  handle->physical = std::move(physical);
  handle->references = 1;
  const auto value = reinterpret_cast<uint64_t>(handle.get());
  vmm.handles[value] = std::move(handle);
  return value;
}

std::shared_ptr<Physical> physical_of_file(const VirtualMemory& vmm, uint64_t id) {
  for (const auto& [value, handle] : vmm.handles) {
    if (handle->physical->file_id == id) return handle->physical;
  }
  for (const auto& [start, mapping] : vmm.mappings) {
    if (mapping.handle->physical->file_id == id) return mapping.handle->physical;
  }
  return nullptr;
}

}  // namespace

SIMGPU_EXPORT CUresult cuMemGetAllocationGranularity(size_t* out, const CUmemAllocationProp* prop,
                                                     CUmemAllocationGranularity_flags option) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (CUresult bad = check_prop(prop)) return bad;
  *out = kSlabBytes;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle* out, size_t size,
                                   const CUmemAllocationProp* prop, unsigned long long flags) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  if (out == nullptr || size == 0 || size % kSlabBytes != 0 || flags != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (CUresult bad = check_prop(prop)) return bad;
  const bool on_device = prop->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
  if (on_device && !driver.valid_device(prop->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  auto physical = std::make_shared<Physical>(driver);
  physical->prop = *prop;
  physical->size = size;
  if (on_device) {
    if (!charge_hard(driver, prop->location.id, size)) return CUDA_ERROR_OUT_OF_MEMORY;
    physical->charged = size;
  }
  if (!find_backing(driver, *physical)) return CUDA_ERROR_OUT_OF_MEMORY;
  *out = add_handle(*driver.memory().virtual_memory, std::move(physical));
  return CUDA_SUCCESS;
}

// The memory stays while it is mapped.
SIMGPU_EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle value) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  VirtualMemory& vmm = *call.driver.memory().virtual_memory;
  const auto it = vmm.handles.find(value);
  if (it == vmm.handles.end()) return CUDA_ERROR_INVALID_VALUE;
  if (--it->second->references == 0) vmm.handles.erase(it);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* out,
                                                              CUmemGenericAllocationHandle value) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  VirtualMemory& vmm = *call.driver.memory().virtual_memory;
  const auto it = vmm.handles.find(value);
  if (out == nullptr || it == vmm.handles.end()) return CUDA_ERROR_INVALID_VALUE;
  *out = it->second->physical->prop;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle value,
                                                    CUmemAllocationHandleType type,
                                                    unsigned long long flags) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  VirtualMemory& vmm = *call.driver.memory().virtual_memory;
  const auto it = vmm.handles.find(value);
  if (out == nullptr || it == vmm.handles.end() || flags != 0 ||
      type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || it->second->physical->fd < 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int fd = fcntl(it->second->physical->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  memcpy(out, &fd, sizeof(fd));
  return CUDA_SUCCESS;
}

// Memory of another process is charged to that process, and not again here.
SIMGPU_EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* out,
                                                      void* handle,
                                                      CUmemAllocationHandleType type) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int given = static_cast<int>(reinterpret_cast<intptr_t>(handle));
  const auto gpu = gpu_of_file(given, kPhysicalFilePrefix);
  if (!gpu) return CUDA_ERROR_UNKNOWN;
  const int device = device_of_gpu(call.driver, *gpu);
  if (device < 0) return CUDA_ERROR_INVALID_DEVICE;
  VirtualMemory& vmm = *call.driver.memory().virtual_memory;
  if (auto own = physical_of_file(vmm, file_id(given))) {
    *out = add_handle(vmm, std::move(own));
    return CUDA_SUCCESS;
  }
  auto physical = std::make_shared<Physical>(call.driver);
  physical->fd = fcntl(given, F_DUPFD_CLOEXEC, 0);
  struct stat info{};
  if (physical->fd < 0 || fstat(physical->fd, &info) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
  physical->size = static_cast<uint64_t>(info.st_size);
  physical->file_id = static_cast<uint64_t>(info.st_ino);
  physical->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  physical->prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  physical->prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  *out = add_handle(vmm, std::move(physical));
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
