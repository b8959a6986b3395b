#include "simgpu/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "simgpu/array.h"
#include "simgpu/managed.h"
#include "simgpu/pool.h"
#include "simgpu/shared_files.h"
#include "simgpu/vmm.h"

namespace divvy::simgpu {
namespace {

void trim_graph_memory_of(Driver& driver, int device, DeviceMemory& memory) {
  const uint64_t keep = round_up(memory.graph_live, kPoolChunkBytes);
  if (memory.graph_reserved <= keep) return;
  driver.refund(device, memory.graph_reserved - keep);
  memory.graph_reserved = keep;
  for (const auto& [address, node] : driver.memory().graph.nodes) {
    if (node.device == device && !node.live) memory.arena.discard(address, node.bytes);
  }
}

void unmap_import(Memory& memory, uint64_t address) {
  const auto it = memory.imports.find(address);
  if (it == memory.imports.end()) return;
  munmap(reinterpret_cast<void*>(it->second.mapped), it->second.mapped_bytes);
  memory.imports.erase(it);
}

}  // namespace

DeviceMemory::DeviceMemory(Driver& driver, int device)
    : arena((kArenaFilePrefix + std::to_string(driver.gpu_of(device))).c_str(),
            [&driver, device](uint64_t bytes) { return charge_hard(driver, device, bytes); },
            [&driver, device](uint64_t bytes) { driver.refund(device, bytes); }) {}

DeviceMemory::~DeviceMemory() = default;

Memory::Memory()
    : managed(std::make_unique<ManagedRanges>()),
      virtual_memory(std::make_unique<VirtualMemory>()) {}

Memory::~Memory() = default;

DeviceMemory& device_memory(Driver& driver, int device) {
  auto& devices = driver.memory().devices;
  if (devices.size() <= static_cast<size_t>(device)) {
    devices.resize(static_cast<size_t>(driver.device_count()));
  }
  auto& found = devices[static_cast<size_t>(device)];
  if (found == nullptr) found = std::make_unique<DeviceMemory>(driver, device);
  return *found;
}

bool charge_trimming(Driver& driver, int device, uint64_t bytes) {
  if (driver.charge(device, bytes)) return true;
  DeviceMemory& memory = device_memory(driver, device);
  if (memory.default_pool != nullptr) memory.default_pool->trim(0);
  for (const auto& [key, pool] : driver.memory().pools) {
    if (pool->device == device) pool->trim(0);
  }
  trim_graph_memory_of(driver, device, memory);
  return driver.charge(device, bytes);
}

bool charge_hard(Driver& driver, int device, uint64_t bytes) {
  if (charge_trimming(driver, device, bytes)) return true;
  driver.engine().advance();
  return charge_trimming(driver, device, bytes);
}

uint64_t alloc_device(Driver& driver, Context& context, size_t bytes, MemoryKind kind,
                      size_t alignment) {
  DeviceMemory& memory = device_memory(driver, context.device);
  const uint64_t address = memory.arena.allocate(bytes, Arena::Family::kLinear, alignment);
  if (address == 0) return 0;
  Allocation allocation;
  allocation.base = address;
  allocation.size = bytes;
  allocation.kind = kind;
  allocation.device = context.device;
  allocation.context = &context;
  driver.map().insert(allocation);
  return address;
}

void free_device(Driver& driver, uint64_t address) {
  Allocation* allocation = driver.map().find(address);
  if (allocation != nullptr && allocation->base == address) free_any(driver, *allocation);
}

bool program_may_free(const Allocation& allocation) {
  switch (allocation.kind) {
    case MemoryKind::kDevice:
    case MemoryKind::kManaged:
    case MemoryKind::kPool:
    case MemoryKind::kGraph:
      return true;
    default:
      return false;
  }
}

void free_any(Driver& driver, const Allocation& allocation) {
  const Allocation gone = allocation;
  driver.map().erase(gone.base);
  release_memory(driver, gone);
}

void release_memory(Driver& driver, const Allocation& gone) {
  Memory& memory = driver.memory();
  memory.async_copies.erase(gone.base);
  switch (gone.kind) {
    case MemoryKind::kGraph:
      release_graph_memory(driver, gone.base);
      break;
    case MemoryKind::kDevice:
    case MemoryKind::kGlobal:
      device_memory(driver, gone.device).arena.free(gone.base, gone.size);
      break;
    case MemoryKind::kManaged:
      memory.managed->remove(driver, gone.base, gone.size);
      device_memory(driver, gone.device).arena.unreserve(gone.base, gone.size);
      break;
    case MemoryKind::kPool: {
      auto* pool = static_cast<Pool*>(gone.owner);
      if (pool->imported_fd >= 0) {
        unmap_import(memory, gone.base);
        --pool->imported_pointers;
      } else {
        pool->free_now(gone.base, gone.size);
      }
      drop_if_unused(driver, *pool);
      break;
    }
    case MemoryKind::kIpc:
      unmap_import(memory, gone.base);
      break;
    case MemoryKind::kHost:
      munmap(reinterpret_cast<void*>(gone.base),
             round_up(gone.size, static_cast<uint64_t>(sysconf(_SC_PAGESIZE))));
      break;
    default:
      break;
  }
}

void free_context_memory(Driver& driver, Context& context) {
  Memory& memory = driver.memory();
  std::vector<uint64_t> owned;
  for (const auto& [base, allocation] : driver.map().all()) {
    if (allocation.context == &context) owned.push_back(base);
  }
  for (const uint64_t base : owned) free_any(driver, *driver.map().find(base));

  const auto of_context = [&](const auto& entry) { return entry.second->context == &context; };
  for (const auto& [key, array] : memory.arrays) {
    if (array->context != &context || array->level) continue;
    Arena& arena = device_memory(driver, array->device).arena;
    if (array->charged) {
      arena.free(array->address, array->bytes,
                 array->height == 0 ? Arena::Family::kLinear : Arena::Family::kTiled);
    } else {
      arena.unreserve(array->address, array->bytes);
    }
  }
  for (const auto& [key, mipmap] : memory.mipmaps) {
    if (mipmap->context != &context) continue;
    Arena& arena = device_memory(driver, mipmap->device).arena;
    if (mipmap->charged) {
      arena.free(mipmap->address, mipmap->bytes, Arena::Family::kTiled);
    } else {
      arena.unreserve(mipmap->address, mipmap->bytes);
    }
  }
  std::erase_if(memory.arrays, of_context);
  std::erase_if(memory.mipmaps, of_context);

  // A context that failed is destroyed with work queued; its frees are as good as done.
  for (const auto& device : memory.devices) {
    if (device != nullptr && device->default_pool != nullptr) {
      device->default_pool->finish_frees_of(context);
    }
  }
  std::vector<Pool*> unused;
  for (const auto& [key, pool] : memory.pools) {
    pool->finish_frees_of(context);
    if (pool->destroyed && pool->empty()) unused.push_back(pool.get());
  }
  for (Pool* pool : unused) drop_if_unused(driver, *pool);
  trim_pools_after_wait(driver);
}

void trim_pools_after_wait(Driver& driver) {
  Memory& memory = driver.memory();
  for (const auto& device : memory.devices) {
    if (device != nullptr && device->default_pool != nullptr) {
      device->default_pool->trim_to_threshold();
    }
  }
  for (const auto& [key, pool] : memory.pools) pool->trim_to_threshold();
}

CUresult reserve_graph_memory(Driver& driver, int device, size_t bytes, CUdeviceptr* out) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  const uint64_t address = device_memory(driver, device).arena.reserve(bytes);
  if (address == 0) return CUDA_ERROR_OUT_OF_MEMORY;
  driver.memory().graph.nodes[address] = {bytes, device, false, false};
  *out = address;
  return CUDA_SUCCESS;
}

void forget_graph_memory(Driver& driver, CUdeviceptr address) {
  auto& nodes = driver.memory().graph.nodes;
  const auto it = nodes.find(address);
  if (it == nodes.end()) return;
  if (it->second.live) {
    it->second.gone = true;
    return;
  }
  device_memory(driver, it->second.device).arena.unreserve(address, it->second.bytes);
  nodes.erase(it);
}

CUresult commit_graph_memory(Driver& driver, CUdeviceptr address) {
  auto& nodes = driver.memory().graph.nodes;
  const auto it = nodes.find(address);
  if (it == nodes.end() || it->second.live) return CUDA_ERROR_INVALID_VALUE;
  GraphMemory::Node& node = it->second;
  DeviceMemory& memory = device_memory(driver, node.device);
  const uint64_t live = memory.graph_live + round_up(node.bytes, kSlabBytes);
  if (live > memory.graph_reserved) {
    const uint64_t more = round_up(live - memory.graph_reserved, kPoolChunkBytes);
    if (!charge_trimming(driver, node.device, more)) return CUDA_ERROR_OUT_OF_MEMORY;
    memory.graph_reserved += more;
    memory.graph_high = std::max(memory.graph_high, memory.graph_reserved);
  }
  memory.graph_live = live;
  node.live = true;
  Allocation allocation;
  allocation.base = address;
  allocation.size = node.bytes;
  allocation.kind = MemoryKind::kGraph;
  allocation.device = node.device;
  driver.map().insert(allocation);
  return CUDA_SUCCESS;
}

void release_graph_memory(Driver& driver, CUdeviceptr address) {
  auto& nodes = driver.memory().graph.nodes;
  const auto it = nodes.find(address);
  if (it == nodes.end() || !it->second.live) return;
  GraphMemory::Node& node = it->second;
  driver.map().erase(address);
  device_memory(driver, node.device).graph_live -= round_up(node.bytes, kSlabBytes);
  node.live = false;
  if (node.gone) forget_graph_memory(driver, address);
}

bool is_graph_memory(Driver& driver, CUdeviceptr address) {
  return driver.memory().graph.nodes.contains(address);
}

bool graph_memory_live(Driver& driver, CUdeviceptr address) {
  const auto& nodes = driver.memory().graph.nodes;
  const auto it = nodes.find(address);
  return it != nodes.end() && it->second.live;
}

namespace {

// The graph memory of a device, as the attributes report it. The hardware driver counts memory that
// it keeps for the next run as used too.
CUresult graph_attribute(CUdevice device, CUgraphMem_attribute attribute, void* value, bool set) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (!call.driver.valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  DeviceMemory& memory = device_memory(call.driver, device);
  auto* number = static_cast<cuuint64_t*>(value);
  const bool high = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ||
                    attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
  if (attribute > CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH) return CUDA_ERROR_INVALID_VALUE;
  call.driver.engine().advance();
  if (set) {
    // A high-water mark can only be reset.
    if (!high || *number != 0) return CUDA_ERROR_INVALID_VALUE;
    memory.graph_high = memory.graph_reserved;
  } else {
    *number = high ? memory.graph_high : memory.graph_reserved;
  }
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                                    void* value) {
  return graph_attribute(device, attribute, value, false);
}

SIMGPU_EXPORT CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
                                                    void* value) {
  return graph_attribute(device, attribute, value, true);
}

SIMGPU_EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (!call.driver.valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  call.driver.engine().advance();
  trim_graph_memory_of(call.driver, device, device_memory(call.driver, device));
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
