// Pointer attributes: what the driver knows about an address.
#include <string.h>

#include "simgpu/memory.h"
#include "simgpu/pool.h"
#include "simgpu/vmm.h"

namespace divvy::simgpu {
namespace {

// Answers of the widths that the attributes have.
class Answer {
 public:
  explicit Answer(void* data) : data_(data) {}
  CUresult wide(uint64_t value) const { return write(&value, sizeof(value)); }
  CUresult narrow(uint32_t value) const { return write(&value, sizeof(value)); }

 private:
  CUresult write(const void* value, size_t size) const {
    memcpy(data_, value, size);
    return CUDA_SUCCESS;
  }
  void* data_;
};

bool on_host(MemoryKind kind) {
  return kind == MemoryKind::kHost || kind == MemoryKind::kRegistered;
}

bool virtual_kind(MemoryKind kind) {
  return kind == MemoryKind::kMapped || kind == MemoryKind::kReserved;
}

// The stretch that was mapped for an allocation, which is larger than what was asked for.
FreeRanges::Range mapping_of(const Allocation& found) {
  uint64_t unit = kSlabBytes;
  if (found.kind == MemoryKind::kRegistered) unit = 4096;
  if (found.kind == MemoryKind::kPool) unit = kPoolChunkBytes;
  const uint64_t begin = found.base / unit * unit;
  return {begin, round_up(found.base + found.size, unit) - begin};
}

// Virtual memory tells of the reservation that a mapping lies in.
FreeRanges::Range range_of(Driver& driver, const Allocation& found) {
  if (virtual_kind(found.kind)) {
    const auto& reservations = driver.memory().virtual_memory->reservations;
    auto it = reservations.upper_bound(found.base);
    if (it != reservations.begin()) {
      --it;
      return {it->first, it->second};
    }
  }
  return {found.base, found.size};
}

uint64_t handle_types(Driver& driver, const Allocation& found) {
  if (found.kind == MemoryKind::kPool) return static_cast<Pool*>(found.owner)->props.handleTypes;
  if (!virtual_kind(found.kind)) return CU_MEM_HANDLE_TYPE_NONE;
  const auto& mappings = driver.memory().virtual_memory->mappings;
  const auto it = mappings.find(found.base);
  if (it == mappings.end()) return CU_MEM_HANDLE_TYPE_NONE;
  return it->second.handle->physical->prop.requestedHandleTypes;
}

CUresult attribute_of(Driver& driver, const Allocation& found, CUdeviceptr address,
                      CUpointer_attribute attribute, void* data) {
  const Answer answer(data);
  const bool host = on_host(found.kind);
  const bool managed = found.kind == MemoryKind::kManaged;
  const bool plain = found.kind == MemoryKind::kDevice;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return answer.wide(reinterpret_cast<uint64_t>(handle_of(found.context)));
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return answer.narrow(host || found.device < 0 ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return answer.wide(address);
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      answer.wide(host || managed ? address : 0);
      return host || managed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      memset(data, 0, sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS));
      return host ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return answer.narrow(!host && !driver.memory().async_copies.contains(found.base) ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return answer.wide(found.id);
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return answer.narrow(managed ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL: {
      const int device = found.context != nullptr ? found.context->device : found.device;
      return answer.narrow(static_cast<uint32_t>(device < 0 ? 0 : device));
    }
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return answer.narrow(plain ? 1 : 0);
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return answer.wide(range_of(driver, found).start);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return answer.wide(range_of(driver, found).size);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return answer.narrow(1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return answer.wide(handle_types(driver, found));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      if (found.kind == MemoryKind::kReserved) {
        return answer.narrow(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
      }
      return answer.narrow(found.read_only ? CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ
                                           : CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return answer.wide(found.kind == MemoryKind::kPool ? reinterpret_cast<uint64_t>(found.owner)
                                                         : 0);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return answer.wide(mapping_of(found).size);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return answer.wide(mapping_of(found).start);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

// What cuPointerGetAttributes says of memory that CUDA knows nothing about.
void answer_unknown(CUpointer_attribute attribute, void* data) {
  const Answer answer(data);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      answer.narrow(static_cast<uint32_t>(CU_DEVICE_INVALID));
      break;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      memset(data, 0, sizeof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS));
      break;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      answer.wide(0);
      break;
    default:
      answer.narrow(0);
      break;
  }
}

bool known(CUpointer_attribute attribute) {
  return attribute >= CU_POINTER_ATTRIBUTE_CONTEXT &&
         attribute <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE;
}

}  // namespace

SIMGPU_EXPORT CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute,
                                             CUdeviceptr address) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (data == nullptr || !known(attribute)) return CUDA_ERROR_INVALID_VALUE;
  const Allocation* found = call.driver.map().find(address);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return attribute_of(call.driver, *found, address, attribute, data);
}

SIMGPU_EXPORT CUresult cuPointerGetAttributes(unsigned int count, CUpointer_attribute* attributes,
                                              void** data, CUdeviceptr address) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (count == 0 || attributes == nullptr || data == nullptr) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i) {
    if (data[i] == nullptr || !known(attributes[i])) return CUDA_ERROR_INVALID_VALUE;
  }
  const Allocation* found = call.driver.map().find(address);
  for (unsigned i = 0; i < count; ++i) {
    if (found == nullptr) {
      answer_unknown(attributes[i], data[i]);
    } else {
      // What does not apply to the pointer reads as zero, and is no error here.
      attribute_of(call.driver, *found, address, attributes[i], data[i]);
    }
  }
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute,
                                             CUdeviceptr address) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (value == nullptr || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const Allocation* found = call.driver.map().find(address);
  if (found == nullptr) return CUDA_ERROR_INVALID_VALUE;
  unsigned on = 0;
  memcpy(&on, value, sizeof(on));
  auto& off = call.driver.memory().async_copies;
  if (on != 0) {
    off.erase(found->base);
  } else {
    off.insert(found->base);
  }
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
