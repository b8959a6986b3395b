// Hooks of what makes a stream wait without using the GPU's multiprocessors: for an event, a value
// in memory, a semaphore, the host, or a copy to or from it. Such a wait goes between two batches:
// what it waits for may itself stand at the gate, and what has passed must not depend on that. Nor
// is it GPU time of the tenant. Events are followed from their record to the wait (event_order.h).
#include "shim/event_order.h"
#include "shim/export.h"
#include "shim/gate.h"

using divvy::shim::g_cuda;
using divvy::shim::gated;
using divvy::shim::leave_batch;

namespace {

template <typename Real, typename... Flags>
CUresult record(CUevent event, CUstream stream, bool per_thread, Real real, Flags... flags) {
  if (!gated()) return real(event, stream, flags...);
  const divvy::shim::StreamPlace place = divvy::shim::end_of_stream(stream, per_thread);
  const CUresult result = real(event, stream, flags...);
  if (result == CUDA_SUCCESS) divvy::shim::event_recorded(event, place);
  return result;
}

}  // namespace

// `declared` and `passed`: the parameters and the arguments, in parentheses; one is `stream`.
#define DIVVY_BETWEEN_BATCHES(symbol, per_thread, declared, passed) \
  DIVVY_EXPORT CUresult symbol declared {                           \
    DIVVY_NEED(symbol);                                             \
    leave_batch(stream, per_thread);                                \
    return g_cuda.symbol passed;                                    \
  }

#define DIVVY_WAIT_VALUE(bits, suffix, per_thread)                                        \
  DIVVY_BETWEEN_BATCHES(                                                                  \
      cuStreamWaitValue##bits##suffix, per_thread,                                        \
      (CUstream stream, CUdeviceptr address, cuuint##bits##_t value, unsigned int flags), \
      (stream, address, value, flags))

#define DIVVY_MEMORY_OPERATIONS(suffix, per_thread)                                                \
  DIVVY_BETWEEN_BATCHES(                                                                           \
      cuStreamBatchMemOp##suffix, per_thread,                                                      \
      (CUstream stream, unsigned int count, CUstreamBatchMemOpParams* params, unsigned int flags), \
      (stream, count, params, flags))                                                              \
  DIVVY_WAIT_VALUE(32, suffix, per_thread)                                                         \
  DIVVY_WAIT_VALUE(64, suffix, per_thread)

DIVVY_MEMORY_OPERATIONS(, false)
DIVVY_MEMORY_OPERATIONS(_ptsz, true)
DIVVY_MEMORY_OPERATIONS(_v2, false)
DIVVY_MEMORY_OPERATIONS(_v2_ptsz, true)

#define DIVVY_STREAM_ORDER_HOOKS(suffix, per_thread)                                        \
  DIVVY_EXPORT CUresult cuEventRecord##suffix(CUevent event, CUstream stream) {             \
    DIVVY_NEED(cuEventRecord##suffix);                                                      \
    return record(event, stream, per_thread, g_cuda.cuEventRecord##suffix);                 \
  }                                                                                         \
  DIVVY_EXPORT CUresult cuEventRecordWithFlags##suffix(CUevent event, CUstream stream,      \
                                                       unsigned int flags) {                \
    DIVVY_NEED(cuEventRecordWithFlags##suffix);                                             \
    return record(event, stream, per_thread, g_cuda.cuEventRecordWithFlags##suffix, flags); \
  }                                                                                         \
  /* A stream that waits for an event of a captured one is captured from here on. */        \
  DIVVY_EXPORT CUresult cuStreamWaitEvent##suffix(CUstream stream, CUevent event,           \
                                                  unsigned int flags) {                     \
    DIVVY_NEED(cuStreamWaitEvent##suffix);                                                  \
    leave_batch(stream, per_thread);                                                        \
    if (gated()) divvy::shim::wait_for_batch_of(event, stream, per_thread);                 \
    const divvy::shim::MayJoinCapture join;                                                 \
    return g_cuda.cuStreamWaitEvent##suffix(stream, event, flags);                          \
  }                                                                                         \
  DIVVY_BETWEEN_BATCHES(                                                                    \
      cuWaitExternalSemaphoresAsync##suffix, per_thread,                                    \
      (const void* semaphores, const void* values, unsigned int count, CUstream stream),    \
      (semaphores, values, count, stream))                                                  \
  DIVVY_BETWEEN_BATCHES(cuLaunchHostFunc##suffix, per_thread,                               \
                        (CUstream stream, CUhostFn function, void* data),                   \
                        (stream, function, data))                                           \
  DIVVY_BETWEEN_BATCHES(                                                                    \
      cuStreamAddCallback##suffix, per_thread,                                              \
      (CUstream stream, CUstreamCallback callback, void* data, unsigned int flags),         \
      (stream, callback, data, flags))                                                      \
  DIVVY_BETWEEN_BATCHES(cuMemcpyHtoDAsync_v2##suffix, per_thread,                           \
                        (CUdeviceptr to, const void* from, size_t bytes, CUstream stream),  \
                        (to, from, bytes, stream))                                          \
  DIVVY_BETWEEN_BATCHES(cuMemcpyDtoHAsync_v2##suffix, per_thread,                           \
                        (void* to, CUdeviceptr from, size_t bytes, CUstream stream),        \
                        (to, from, bytes, stream))                                          \
  DIVVY_BETWEEN_BATCHES(cuMemcpyAsync##suffix, per_thread,                                  \
                        (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),  \
                        (to, from, bytes, stream))                                          \
  DIVVY_BETWEEN_BATCHES(cuMemcpy2DAsync_v2##suffix, per_thread,                             \
                        (const CUDA_MEMCPY2D* copy, CUstream stream), (copy, stream))       \
  DIVVY_BETWEEN_BATCHES(cuMemcpy3DAsync_v2##suffix, per_thread,                             \
                        (const CUDA_MEMCPY3D* copy, CUstream stream), (copy, stream))

DIVVY_STREAM_ORDER_HOOKS(, false)
DIVVY_STREAM_ORDER_HOOKS(_ptsz, true)

#define DIVVY_EVENT_DESTROY(symbol)                \
  DIVVY_EXPORT CUresult symbol(CUevent event) {    \
    DIVVY_NEED(symbol);                            \
    if (gated()) divvy::shim::forget_event(event); \
    return g_cuda.symbol(event);                   \
  }

DIVVY_EVENT_DESTROY(cuEventDestroy)
DIVVY_EVENT_DESTROY(cuEventDestroy_v2)
