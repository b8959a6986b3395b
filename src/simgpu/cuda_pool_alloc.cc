// Stream-ordered allocation, and pools shared between processes.
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "simgpu/memory.h"
#include "simgpu/pool.h"
#include "simgpu/shared_files.h"
#include "simgpu/work.h"

namespace divvy::simgpu {
namespace {

// While its stream is captured an allocation becomes a node, with its address fixed now.
CUresult capture_alloc(Call& call, Stream& stream, int device, size_t bytes, CUdeviceptr* out) {
  CUdeviceptr address = 0;
  if (CUresult bad = reserve_graph_memory(call.driver, device, bytes, &address)) return bad;
  const CUresult result = capture_work(call, stream, AllocWork{address, bytes, device});
  if (result != CUDA_SUCCESS) {
    forget_graph_memory(call.driver, address);
    return result;
  }
  *out = address;
  return CUDA_SUCCESS;
}

CUresult allocate(CUdeviceptr* out, size_t bytes, bool named, CUmemoryPool handle,
                  CUstream stream_handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Stream* stream = nullptr;
  if (CUresult bad = driver.resolve_stream(stream_handle, call.context, &stream)) return bad;
  Pool* pool =
      named ? resolve_pool(driver, handle) : &current_pool(driver, stream->context->device);
  if (pool == nullptr || pool->imported_fd >= 0) return CUDA_ERROR_INVALID_VALUE;
  if (stream->capture != nullptr) return capture_alloc(call, *stream, pool->device, bytes, out);
  if (CUresult refused = refuse_while_capturing(driver)) return refused;
  if (bytes == 0) {
    *out = 0;
    return CUDA_SUCCESS;
  }
  uint64_t address = 0;
  Pool::Follow follow;
  if (CUresult bad = pool->allocate(bytes, *stream, &address, &follow)) return bad;
  Allocation allocation;
  allocation.base = address;
  allocation.size = bytes;
  allocation.kind = MemoryKind::kPool;
  allocation.device = pool->host ? -1 : pool->device;
  allocation.owner = pool;
  driver.map().insert(allocation);
  *out = address;
  if (follow.stream != nullptr) {
    Op wait;
    wait.kind = OpKind::kWaitStream;
    wait.stream = follow.stream;
    wait.number = follow.submitted;
    ++follow.stream->references;
    driver.enqueue(call.lock, *stream, std::move(wait));
  }
  return CUDA_SUCCESS;
}

CUresult free_async(CUdeviceptr address, CUstream stream_handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Driver& driver = call.driver;
  Stream* stream = nullptr;
  if (CUresult bad = driver.resolve_stream(stream_handle, call.context, &stream)) return bad;
  if (stream->capture == nullptr) {
    if (CUresult refused = refuse_while_capturing(driver)) return refused;
  }
  if (address == 0) return CUDA_SUCCESS;
  if (stream->capture != nullptr) {
    // A graph can only free what a graph allocates.
    if (!is_graph_memory(driver, address)) return CUDA_ERROR_INVALID_VALUE;
    return capture_work(call, *stream, FreeWork{address});
  }
  if (stream->is_legacy) {
    if (CUresult refused = refuse_legacy_while_capturing(driver, *stream->context)) return refused;
  }
  const Allocation* found = driver.map().find(address);
  if (found == nullptr || found->base != address || !program_may_free(*found)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  // Gone for the program from here on; the memory itself follows when the stream gets there.
  const Allocation gone = *found;
  driver.map().erase(address);
  Op op;
  auto* pool = gone.kind == MemoryKind::kPool ? static_cast<Pool*>(gone.owner) : nullptr;
  if (pool == nullptr || pool->imported_fd >= 0) {
    op.action = std::make_shared<Action>([&driver, gone] { release_memory(driver, gone); });
    driver.enqueue(call.lock, *stream, std::move(op));
    return CUDA_SUCCESS;
  }
  const uint64_t number = pool->next_free();
  op.action = std::make_shared<Action>([&driver, pool, number] {
    pool->finish_free(number);
    drop_if_unused(driver, *pool);
  });
  driver.enqueue(call.lock, *stream, std::move(op));
  driver.memory().async_copies.erase(address);
  pool->free_later(number, address, gone.size, *stream);
  return CUDA_SUCCESS;
}

// What CUmemPoolPtrExportData holds.
struct PointerExport {
  uint64_t magic;
  uint64_t offset;  // in the file that the pool's handle opens
  uint64_t size;
};
constexpr uint64_t kPointerMagic = 0x706f6f6c2d707472;
static_assert(sizeof(PointerExport) <= sizeof(CUmemPoolPtrExportData));

}  // namespace

SIMGPU_EXPORT CUresult cuMemAllocAsync(CUdeviceptr* out, size_t bytes, CUstream stream) {
  return allocate(out, bytes, false, nullptr, stream);
}
SIMGPU_EXPORT CUresult cuMemAllocAsync_ptsz(CUdeviceptr* out, size_t bytes, CUstream stream) {
  return allocate(out, bytes, false, nullptr, per_thread(stream));
}
SIMGPU_EXPORT CUresult cuMemAllocFromPoolAsync(CUdeviceptr* out, size_t bytes, CUmemoryPool pool,
                                               CUstream stream) {
  return allocate(out, bytes, true, pool, stream);
}
SIMGPU_EXPORT CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* out, size_t bytes,
                                                    CUmemoryPool pool, CUstream stream) {
  return allocate(out, bytes, true, pool, per_thread(stream));
}
SIMGPU_EXPORT CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return free_async(address, stream);
}
SIMGPU_EXPORT CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  return free_async(address, per_thread(stream));
}

// A pool is shared by the file behind its device's memory; a pointer by its place in that file.
SIMGPU_EXPORT CUresult cuMemPoolExportToShareableHandle(void* out, CUmemoryPool handle,
                                                        CUmemAllocationHandleType type,
                                                        unsigned long long flags) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Pool* pool = resolve_pool(call.driver, handle);
  if (out == nullptr || pool == nullptr || flags != 0 ||
      type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || pool->props.handleTypes != type ||
      pool->imported_fd >= 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int fd =
      fcntl(device_memory(call.driver, pool->device).arena.descriptor(), F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  memcpy(out, &fd, sizeof(fd));
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* out, void* handle,
                                                          CUmemAllocationHandleType type,
                                                          unsigned long long flags) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr || flags != 0 || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int given = static_cast<int>(reinterpret_cast<intptr_t>(handle));
  const auto gpu = gpu_of_file(given, kArenaFilePrefix);
  const int device = gpu ? device_of_gpu(call.driver, *gpu) : -1;
  if (device < 0) return CUDA_ERROR_INVALID_VALUE;
  const int fd = fcntl(given, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  auto pool = std::make_unique<Pool>(call.driver, device);
  pool->imported_fd = fd;
  pool->props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  pool->props.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  Pool* key = pool.get();
  *out = handle_of(key);
  call.driver.memory().pools.emplace(key, std::move(pool));
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* out, CUdeviceptr address) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  const Allocation* found = call.driver.map().find(address);
  if (out == nullptr || found == nullptr || found->kind != MemoryKind::kPool) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto* pool = static_cast<const Pool*>(found->owner);
  if (pool->props.handleTypes != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto where = device_memory(call.driver, pool->device).arena.backing(found->base);
  if (!where) return CUDA_ERROR_INVALID_VALUE;
  const PointerExport data{kPointerMagic, where->offset, found->size};
  memset(out, 0, sizeof(*out));
  memcpy(out, &data, sizeof(data));
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuMemPoolImportPointer(CUdeviceptr* out, CUmemoryPool handle,
                                              CUmemPoolPtrExportData* exported) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  Pool* pool = resolve_pool(call.driver, handle);
  if (out == nullptr || exported == nullptr || pool == nullptr || pool->imported_fd < 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  PointerExport data{};
  memcpy(&data, exported, sizeof(data));
  if (data.magic != kPointerMagic || data.size == 0) return CUDA_ERROR_INVALID_VALUE;
  IpcImport import;
  const uint64_t address = map_shared_range(pool->imported_fd, data.offset, data.size, &import);
  if (address == 0) return CUDA_ERROR_MAP_FAILED;
  import.references = 1;
  call.driver.memory().imports.emplace(address, std::move(import));
  ++pool->imported_pointers;
  Allocation allocation;
  allocation.base = address;
  allocation.size = data.size;
  allocation.kind = MemoryKind::kPool;
  allocation.device = pool->device;
  allocation.owner = pool;
  call.driver.map().insert(allocation);
  *out = address;
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
