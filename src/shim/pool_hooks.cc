// Stream-ordered memory and pools.
#include "shim/charge.h"
#include "shim/export.h"
#include "shim/gate.h"
#include "shim/give_back.h"
#include "shim/graph_memory.h"
#include "shim/pools.h"

using divvy::shim::Allocation;
using divvy::shim::Family;
using divvy::shim::g_cuda;
using divvy::shim::g_pointers;
using divvy::shim::PoolIndex;
using divvy::shim::Reservation;
using divvy::shim::standing;
using divvy::shim::Standing;

namespace {

uint64_t in_steps(uint64_t bytes) {
  constexpr uint64_t kStep = divvy::shim::kPoolStepBytes;
  return bytes > UINT64_MAX - kStep ? UINT64_MAX / 2 : (bytes + kStep - 1) / kStep * kStep;
}

bool capturing(CUstream stream, bool per_thread) {
  if (!divvy::shim::anything_captured()) return false;
  const auto ask = per_thread ? g_cuda.cuStreamIsCapturing_ptsz : g_cuda.cuStreamIsCapturing;
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return ask != nullptr && ask(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

// The device that a stream belongs to; the null streams are the current context's.
CUdevice device_of(CUstream stream) {
  if (divvy::shim::one_slice()) return 0;
  CUdevice device = CU_DEVICE_INVALID;
  const bool own =
      stream != nullptr && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
  if (own && g_cuda.cuStreamGetDevice != nullptr &&
      g_cuda.cuStreamGetDevice(stream, &device) == CUDA_SUCCESS) {
    return device;
  }
  CUcontext context = nullptr;
  CUcontext popped = nullptr;
  if (own && g_cuda.cuStreamGetCtx != nullptr &&
      g_cuda.cuStreamGetCtx(stream, &context) == CUDA_SUCCESS &&
      g_cuda.cuCtxPushCurrent_v2(context) == CUDA_SUCCESS) {
    g_cuda.cuCtxGetDevice(&device);
    g_cuda.cuCtxPopCurrent_v2(&popped);
    return device;
  }
  g_cuda.cuCtxGetDevice(&device);
  return device;
}

void remember(CUdeviceptr pointer, uint64_t bytes, int slice, PoolIndex pool) {
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.slice = static_cast<int8_t>(slice);
  allocation.family = Family::kPool;
  allocation.pool = pool;
  divvy::shim::pool_allocated(pool);
  if (!g_pointers.insert(pointer, allocation)) divvy::shim::pool_freed(pool);
}

// `real` allocates, `undo` frees again what it has allocated.
template <typename Real, typename Undo>
CUresult allocate_from(PoolIndex pool, const CUdeviceptr* out, size_t bytes, Real real, Undo undo) {
  const int slice = divvy::shim::pool_slice(pool);
  if (slice < 0) return real();
  {
    // As if all of it had to come from the GPU.
    const Reservation room(slice, in_steps(bytes));
    if (!room.refused()) {
      const CUresult result = real();
      if (result != CUDA_SUCCESS) return result;
      remember(*out, bytes, slice, pool);
      return result;
    }
  }
  // What the pool has idle may do, if the driver finds it in one piece and free of other streams'
  // work. It does not say beforehand, so when it took more after all, that goes back.
  const uint64_t idle = divvy::shim::pool_idle(pool);
  bool grew = false;
  {
    const Reservation room(slice, in_steps(bytes > idle ? bytes - idle : 0));
    if (room.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
    const CUresult result = real();
    if (result != CUDA_SUCCESS) return result;
    grew = divvy::shim::pool_settle(pool);
  }
  if (grew && divvy::shim::slice_overfull(slice)) {
    undo(*out);
    divvy::shim::g_pools_stale.store(true, std::memory_order_relaxed);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  remember(*out, bytes, slice, pool);
  return CUDA_SUCCESS;
}

template <typename Real, typename Undo>
CUresult allocate(CUdeviceptr* out, size_t bytes, CUmemoryPool named, CUstream stream,
                  bool per_thread, Real real, Undo undo) {
  if (standing() != Standing::kTenant || out == nullptr || bytes == 0) return real();
  // In a capture it becomes a node: memory is taken when the graph is launched.
  if (capturing(stream, per_thread)) {
    divvy::shim::graph_memory_seen();
    return real();
  }
  const CUdevice device = device_of(stream);
  CUmemoryPool pool = named;
  if (pool == nullptr && g_cuda.cuDeviceGetMemPool(&pool, device) != CUDA_SUCCESS) return real();
  return allocate_from(divvy::shim::pool_index(pool, device), out, bytes, real, undo);
}

}  // namespace

#define DIVVY_POOL_HOOKS(suffix, per_thread)                                                       \
  DIVVY_EXPORT CUresult cuMemAllocAsync##suffix(CUdeviceptr* out, size_t bytes, CUstream stream) { \
    DIVVY_NEED(cuMemAllocAsync##suffix);                                                           \
    return allocate(                                                                               \
        out, bytes, nullptr, stream, per_thread,                                                   \
        [&] { return g_cuda.cuMemAllocAsync##suffix(out, bytes, stream); },                        \
        [&](CUdeviceptr made) { g_cuda.cuMemFreeAsync##suffix(made, stream); });                   \
  }                                                                                                \
  DIVVY_EXPORT CUresult cuMemAllocFromPoolAsync##suffix(CUdeviceptr* out, size_t bytes,            \
                                                        CUmemoryPool pool, CUstream stream) {      \
    DIVVY_NEED(cuMemAllocFromPoolAsync##suffix);                                                   \
    const auto real = [&] {                                                                        \
      return g_cuda.cuMemAllocFromPoolAsync##suffix(out, bytes, pool, stream);                     \
    };                                                                                             \
    if (pool == nullptr) return real();                                                            \
    return allocate(out, bytes, pool, stream, per_thread, real,                                    \
                    [&](CUdeviceptr made) { g_cuda.cuMemFreeAsync##suffix(made, stream); });       \
  }                                                                                                \
  DIVVY_EXPORT CUresult cuMemFreeAsync##suffix(CUdeviceptr pointer, CUstream stream) {             \
    DIVVY_NEED(cuMemFreeAsync##suffix);                                                            \
    return divvy::shim::release_pointer(                                                           \
        pointer, [&] { return g_cuda.cuMemFreeAsync##suffix(pointer, stream); });                  \
  }

DIVVY_POOL_HOOKS(, false)
DIVVY_POOL_HOOKS(_ptsz, true)

DIVVY_EXPORT CUresult cuMemPoolCreate(CUmemoryPool* out, const CUmemPoolProps* props) {
  DIVVY_NEED(cuMemPoolCreate);
  const CUresult result = g_cuda.cuMemPoolCreate(out, props);
  if (result == CUDA_SUCCESS && out != nullptr && props != nullptr) {
    divvy::shim::pool_known(*out, props->location);
  }
  return result;
}

DIVVY_EXPORT CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  DIVVY_NEED(cuMemPoolDestroy);
  const PoolIndex index = divvy::shim::pool_going(pool);
  const CUresult result = g_cuda.cuMemPoolDestroy(pool);
  if (result == CUDA_SUCCESS) divvy::shim::pool_gone(index);
  return result;
}

DIVVY_EXPORT CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  DIVVY_NEED(cuMemPoolTrimTo);
  const CUresult result = g_cuda.cuMemPoolTrimTo(pool, keep);
  divvy::shim::g_pools_stale.store(true, std::memory_order_relaxed);
  divvy::shim::pools_look_again();
  return result;
}

DIVVY_EXPORT CUresult cuMemGetDefaultMemPool(CUmemoryPool* out, CUmemLocation* place,
                                             CUmemAllocationType type) {
  DIVVY_NEED(cuMemGetDefaultMemPool);
  const CUresult result = g_cuda.cuMemGetDefaultMemPool(out, place, type);
  if (result == CUDA_SUCCESS && out != nullptr && place != nullptr) {
    divvy::shim::pool_known(*out, *place);
  }
  return result;
}

DIVVY_EXPORT CUresult cuMemGetMemPool(CUmemoryPool* out, CUmemLocation* place,
                                      CUmemAllocationType type) {
  DIVVY_NEED(cuMemGetMemPool);
  const CUresult result = g_cuda.cuMemGetMemPool(out, place, type);
  if (result == CUDA_SUCCESS && out != nullptr && place != nullptr) {
    divvy::shim::pool_known(*out, *place);
  }
  return result;
}
