// Pools: making, asking, trimming and sharing them. Allocation is in cuda_pool_alloc.cc.
#include <string.h>

#include <algorithm>

#include "simgpu/memory.h"
#include "simgpu/pool.h"
#include "simgpu/topology.h"

namespace divvy::simgpu {

Pool& default_pool(Driver& driver, int device) {
  DeviceMemory& memory = device_memory(driver, device);
  if (memory.default_pool == nullptr) {
    memory.default_pool = std::make_unique<Pool>(driver, device);
    Pool& pool = *memory.default_pool;
    pool.is_default = true;
    pool.props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    pool.props.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  }
  return *memory.default_pool;
}

Pool& current_pool(Driver& driver, int device) {
  DeviceMemory& memory = device_memory(driver, device);
  if (memory.current_pool == nullptr) memory.current_pool = &default_pool(driver, device);
  return *memory.current_pool;
}

namespace {

CUresult get_attribute(const Pool& pool, CUmemPool_attribute attribute, void* value) {
  const auto number = [&](uint64_t answer) {
    memcpy(value, &answer, sizeof(answer));
    return CUDA_SUCCESS;
  };
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      memcpy(value, &pool.reuse[attribute - 1], sizeof(int));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      return number(pool.threshold);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
      return number(pool.reserved);
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
      return number(pool.reserved_high);
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      return number(pool.used);
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      return number(pool.used_high);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult set_attribute(Pool& pool, CUmemPool_attribute attribute, const void* value) {
  uint64_t number = 0;
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      memcpy(&pool.reuse[attribute - 1], value, sizeof(int));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      memcpy(&pool.threshold, value, sizeof(pool.threshold));
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      // A high-water mark can only be reset.
      memcpy(&number, value, sizeof(number));
      if (number != 0) return CUDA_ERROR_INVALID_VALUE;
      if (attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH) {
        pool.used_high = pool.used;
      } else {
        pool.reserved_high = pool.reserved;
      }
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult check_props(Driver& driver, const CUmemPoolProps& props, bool* host) {
  if (props.allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (props.handleTypes != CU_MEM_HANDLE_TYPE_NONE &&
      props.handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return props.handleTypes == CU_MEM_HANDLE_TYPE_FABRIC ? CUDA_ERROR_NOT_PERMITTED
                                                          : CUDA_ERROR_INVALID_VALUE;
  }
  *host = false;
  switch (props.location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return driver.valid_device(props.location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      *host = true;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// Which of a device's two pools a program asks for.
CUresult device_pool(CUmemoryPool* out, CUdevice device, Pool& (*which)(Driver&, int)) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.driver.valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  *out = handle_of(&which(call.driver, device));
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_EXPORT CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* out, CUdevice device) {
  return device_pool(out, device, default_pool);
}

SIMGPU_EXPORT CUresult cuDeviceGetMemPool(CUmemoryPool* out, CUdevice device) {
  return device_pool(out, device, current_pool);
}

SIMGPU_EXPORT CUresult cuDeviceSetMemPool(CUdevice device, CUmemoryPool handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (!call.driver.valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  Pool* pool = resolve_pool(call.driver, handle);
  if (pool == nullptr || pool->imported_fd >= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!pool->host && pool->device != device) return CUDA_ERROR_INVALID_DEVICE;
  device_memory(call.driver, device).current_pool = pool;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* props) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (CUresult refused = refuse_while_capturing(call.driver)) return refused;
  if (out == nullptr || props == nullptr) return CUDA_ERROR_INVALID_VALUE;
  bool host = false;
  if (CUresult bad = check_props(call.driver, *props, &host)) return bad;
  auto pool = std::make_unique<Pool>(call.driver, host ? 0 : props->location.id);
  pool->props = *props;
  pool->host = host;
  pool->max_bytes = props->maxSize;
  *out = handle_of(pool.get());
  Pool* key = pool.get();
  call.driver.memory().pools.emplace(key, std::move(pool));
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  Pool* pool = resolve_pool(call.driver, handle);
  if (pool == nullptr || pool->is_default) return CUDA_ERROR_INVALID_VALUE;
  // What was allocated from it stays valid; the pool goes with the last of it.
  pool->destroyed = true;
  pool->threshold = 0;
  for (const auto& device : call.driver.memory().devices) {
    if (device != nullptr && device->current_pool == pool) device->current_pool = nullptr;
  }
  pool->trim(0);
  drop_if_unused(call.driver, *pool);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t keep) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (CUresult refused = refuse_while_capturing(call.driver)) return refused;
  Pool* pool = resolve_pool(call.driver, handle);
  if (pool == nullptr) return CUDA_ERROR_INVALID_VALUE;
  call.driver.engine().advance();
  pool->trim(keep);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                             void* value) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Pool* pool = resolve_pool(call.driver, handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return get_attribute(*pool, attribute, value);
}

SIMGPU_EXPORT CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute,
                                             void* value) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  Pool* pool = resolve_pool(call.driver, handle);
  if (pool == nullptr || value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return set_attribute(*pool, attribute, value);
}

SIMGPU_EXPORT CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc* list,
                                          size_t count) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  Pool* pool = resolve_pool(call.driver, handle);
  if (pool == nullptr || (list == nullptr && count > 0)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; ++i) {
    const CUmemAccessDesc& entry = list[i];
    if (entry.location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
      if (entry.location.type == CU_MEM_LOCATION_TYPE_INVALID) return CUDA_ERROR_INVALID_VALUE;
      continue;
    }
    const int device = entry.location.id;
    if (!call.driver.valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (entry.flags == CU_MEM_ACCESS_FLAGS_PROT_READ) return CUDA_ERROR_NOT_SUPPORTED;
    const bool own = !pool->host && device == pool->device;
    // A device cannot be kept from its own memory.
    if (own && entry.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) return CUDA_ERROR_INVALID_DEVICE;
    if (own || pool->host) continue;
    if (!peers(call.driver.shared(), call.driver.gpu_of(device),
               call.driver.gpu_of(pool->device))) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
  }
  for (size_t i = 0; i < count; ++i) pool->access[list[i].location.id] = list[i].flags;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool handle,
                                          CUmemLocation* location) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Pool* pool = resolve_pool(call.driver, handle);
  if (pool == nullptr || flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (location->type == CU_MEM_LOCATION_TYPE_DEVICE && !call.driver.valid_device(location->id)) {
    return CUDA_ERROR_INVALID_DEVICE;
  }
  const bool own = location->type == CU_MEM_LOCATION_TYPE_DEVICE
                       ? !pool->host && location->id == pool->device
                       : pool->host;
  const auto it = pool->access.find(location->id);
  if (own) {
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  } else {
    *flags = it == pool->access.end() ? CU_MEM_ACCESS_FLAGS_PROT_NONE : it->second;
  }
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
