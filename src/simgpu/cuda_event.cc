// Events.
#include "simgpu/capture.h"
#include "simgpu/driver.h"
#include "simgpu/memory.h"
#include "simgpu/work.h"

namespace divvy::simgpu {
namespace {

constexpr unsigned kKnownFlags =
    CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS;

uint64_t completed(Driver& driver, const Event& event) {
  return event.ipc >= 0 ? driver.shared().ipc_event[event.ipc].completed.load() : event.completed;
}
uint64_t recorded(Driver& driver, const Event& event) {
  return event.ipc >= 0 ? driver.shared().ipc_event[event.ipc].recorded.load() : event.recorded;
}

CUresult record(CUevent event_handle, CUstream stream_handle, unsigned flags) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if ((flags & ~1u) != 0) return CUDA_ERROR_INVALID_VALUE;
  Event* event = call.driver.resolve_event(event_handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  Stream* stream = nullptr;
  if (CUresult bad = call.driver.resolve_stream(stream_handle, call.context, &stream)) return bad;
  // An event belongs to the context it was made in.
  if (event->context != stream->context) return CUDA_ERROR_INVALID_HANDLE;
  if (stream->capture != nullptr) return capture_record_event(call, *stream, *event, flags);
  if ((flags & CU_EVENT_RECORD_EXTERNAL) != 0) return CUDA_ERROR_ILLEGAL_STATE;
  if (stream->is_legacy) {
    if (CUresult refused = refuse_legacy_while_capturing(call.driver, *call.context)) {
      return refused;
    }
  }
  event->capture.reset();
  event->capture_nodes.clear();
  Op op;
  op.kind = OpKind::kRecord;
  op.event = event;
  op.number = ++event->recorded;
  if (event->ipc >= 0) {
    op.number = call.driver.shared().ipc_event[event->ipc].recorded.fetch_add(1) + 1;
    event->recorded = op.number;
  }
  ++event->references;
  call.driver.enqueue(call.lock, *stream, std::move(op));
  return CUDA_SUCCESS;
}

CUresult elapsed(float* milliseconds, CUevent start_handle, CUevent end_handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Event* start = call.driver.resolve_event(start_handle);
  Event* end = call.driver.resolve_event(end_handle);
  if (start == nullptr || end == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (Event* event : {start, end}) {
    if (CUresult refused = refuse_captured_event(*event, true)) return refused;
    if ((event->flags & CU_EVENT_DISABLE_TIMING) != 0 || event->recorded == 0) {
      return CUDA_ERROR_INVALID_HANDLE;
    }
  }
  call.driver.engine().advance();
  for (Event* event : {start, end}) {
    if (event->completed < event->recorded) return CUDA_ERROR_NOT_READY;
  }
  if (milliseconds == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  const auto difference =
      static_cast<int64_t>(end->completed_at_ns) - static_cast<int64_t>(start->completed_at_ns);
  *milliseconds = static_cast<float>(static_cast<double>(difference) / 1e6);
  return CUDA_SUCCESS;
}

}  // namespace

SIMGPU_EXPORT CUresult cuEventCreate(CUevent* out, unsigned int flags) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  // Times cannot be compared between processes.
  if ((flags & CU_EVENT_INTERPROCESS) != 0 && (flags & CU_EVENT_DISABLE_TIMING) == 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *out = handle_of(call.driver.create_event(*call.context, flags));
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuEventDestroy_v2(CUevent handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  Event* event = call.driver.resolve_event(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  release_ipc_event(call.driver, *event);
  call.driver.destroy_event(*event);
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuEventDestroy(CUevent handle) { return cuEventDestroy_v2(handle); }

SIMGPU_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  return record(event, stream, 0);
}
SIMGPU_EXPORT CUresult cuEventRecord_ptsz(CUevent event, CUstream stream) {
  return record(event, per_thread(stream), 0);
}
SIMGPU_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned int flags) {
  return record(event, stream, flags);
}
SIMGPU_EXPORT CUresult cuEventRecordWithFlags_ptsz(CUevent event, CUstream stream,
                                                   unsigned int flags) {
  return record(event, per_thread(stream), flags);
}

SIMGPU_EXPORT CUresult cuEventQuery(CUevent handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Event* event = call.driver.resolve_event(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult refused = refuse_captured_event(*event)) return refused;
  if (CUresult refused = refuse_while_capturing(call.driver)) return refused;
  call.driver.engine().advance();
  return completed(call.driver, *event) >= recorded(call.driver, *event) ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_NOT_READY;
}

SIMGPU_EXPORT CUresult cuEventSynchronize(CUevent handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Event* event = call.driver.resolve_event(handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult refused = refuse_captured_event(*event)) return refused;
  if (CUresult refused = refuse_while_capturing(call.driver)) return refused;
  const uint64_t target = recorded(call.driver, *event);
  Context* context = call.context;
  ++event->references;
  call.driver.engine().wait_for(
      call.lock,
      [&] { return completed(call.driver, *event) >= target || context->sticky != CUDA_SUCCESS; },
      event->ipc >= 0);
  unreference(*event);
  trim_pools_after_wait(call.driver);
  return context->sticky;
}

SIMGPU_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent start, CUevent end) {
  return elapsed(milliseconds, start, end);
}
SIMGPU_EXPORT CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent start, CUevent end) {
  return elapsed(milliseconds, start, end);
}

}  // namespace divvy::simgpu
