// Streams and host functions.
#include <memory>

#include "simgpu/capture.h"
#include "simgpu/driver.h"
#include "simgpu/work.h"

namespace divvy::simgpu {
namespace {

constexpr unsigned kKnownFlags = CU_STREAM_NON_BLOCKING;

CUresult create(CUstream* out, unsigned flags, int priority) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  *out = handle_of(call.driver.create_stream(*call.context, flags, priority));
  return CUDA_SUCCESS;
}

// A call on one stream: the common beginning of everything below.
struct StreamCall : Call {
  explicit StreamCall(CUstream handle) : Call(kContext) {
    if (error == CUDA_SUCCESS) error = driver.resolve_stream(handle, context, &stream);
  }
  Stream* stream = nullptr;
};

}  // namespace

SIMGPU_EXPORT CUresult cuStreamCreate(CUstream* stream, unsigned int flags) {
  return create(stream, flags, 0);
}
SIMGPU_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned int flags,
                                                  int priority) {
  return create(stream, flags, priority);
}

SIMGPU_EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (reinterpret_cast<uintptr_t>(handle) <= 2) return CUDA_ERROR_INVALID_HANDLE;
  Stream* stream = nullptr;
  if (CUresult bad = call.driver.resolve_stream(handle, call.context, &stream)) return bad;
  forget_captured_stream(*stream);
  call.driver.destroy_stream(*stream);
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuStreamDestroy(CUstream handle) { return cuStreamDestroy_v2(handle); }

SIMGPU_EXPORT CUresult cuStreamQuery(CUstream handle) {
  StreamCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (CUresult refused = refuse_capturing_stream(*call.stream)) return refused;
  if (!call.stream->is_legacy) {
    if (CUresult refused = refuse_while_capturing(call.driver)) return refused;
  }
  if (call.stream->is_legacy) {
    if (CUresult refused = refuse_legacy_while_capturing(call.driver, *call.context)) {
      return refused;
    }
  }
  call.driver.engine().advance();
  if (call.context->sticky != CUDA_SUCCESS) return call.context->sticky;
  return call.stream->idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
SIMGPU_EXPORT CUresult cuStreamQuery_ptsz(CUstream stream) {
  return cuStreamQuery(per_thread(stream));
}

SIMGPU_EXPORT CUresult cuStreamSynchronize(CUstream handle) {
  StreamCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (CUresult refused = refuse_capturing_stream(*call.stream)) return refused;
  if (!call.stream->is_legacy) {
    if (CUresult refused = refuse_while_capturing(call.driver)) return refused;
  }
  if (call.stream->is_legacy) {
    if (CUresult refused = refuse_legacy_while_capturing(call.driver, *call.context)) {
      return refused;
    }
    // The legacy stream is in order with every blocking stream.
    for (size_t i = 0; i < call.context->streams.size(); ++i) {
      Stream& other = *call.context->streams[i];
      if ((other.flags & CU_STREAM_NON_BLOCKING) == 0) call.driver.synchronize(call.lock, other);
    }
    return call.context->sticky;
  }
  call.driver.synchronize(call.lock, *call.stream);
  return call.context->sticky;
}
SIMGPU_EXPORT CUresult cuStreamSynchronize_ptsz(CUstream stream) {
  return cuStreamSynchronize(per_thread(stream));
}

SIMGPU_EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent event_handle,
                                         unsigned int flags) {
  StreamCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  if ((flags & ~1u) != 0) return CUDA_ERROR_INVALID_VALUE;
  Event* event = call.driver.resolve_event(event_handle);
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (call.stream->capture != nullptr || event->capture != nullptr) {
    return capture_wait_event(call, *call.stream, *event, flags);
  }
  if ((flags & CU_EVENT_WAIT_EXTERNAL) != 0) return CUDA_ERROR_ILLEGAL_STATE;
  if (call.stream->is_legacy) {
    if (CUresult refused = refuse_legacy_while_capturing(call.driver, *call.context)) {
      return refused;
    }
  }
  uint64_t version = event->recorded;
  if (event->ipc >= 0) version = call.driver.shared().ipc_event[event->ipc].recorded.load();
  if (version == 0) return CUDA_SUCCESS;  // never recorded: nothing to wait for
  Op op;
  op.kind = OpKind::kWaitEvent;
  op.event = event;
  op.number = version;
  ++event->references;
  call.driver.enqueue(call.lock, *call.stream, std::move(op));
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuStreamWaitEvent_ptsz(CUstream stream, CUevent event, unsigned int flags) {
  return cuStreamWaitEvent(per_thread(stream), event, flags);
}

SIMGPU_EXPORT CUresult cuLaunchHostFunc(CUstream handle, CUhostFn function, void* data) {
  StreamCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (function == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return submit_work(call, *call.stream, HostWork{function, data});
}
SIMGPU_EXPORT CUresult cuLaunchHostFunc_ptsz(CUstream stream, CUhostFn function, void* data) {
  return cuLaunchHostFunc(per_thread(stream), function, data);
}

SIMGPU_EXPORT CUresult cuStreamAddCallback(CUstream handle, CUstreamCallback callback, void* data,
                                           unsigned int flags) {
  StreamCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (callback == nullptr || flags != 0) return CUDA_ERROR_INVALID_VALUE;
  // Callbacks, unlike host functions, cannot become part of a graph.
  if (CUresult refused = refuse_capturing_stream(*call.stream)) return refused;
  Op op;
  op.kind = OpKind::kHost;
  op.action =
      std::make_shared<Action>([callback, handle, data] { callback(handle, CUDA_SUCCESS, data); });
  call.driver.enqueue(call.lock, *call.stream, std::move(op));
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuStreamAddCallback_ptsz(CUstream stream, CUstreamCallback callback,
                                                void* data, unsigned int flags) {
  return cuStreamAddCallback(per_thread(stream), callback, data, flags);
}

SIMGPU_EXPORT CUresult cuStreamGetPriority(CUstream handle, int* priority) {
  StreamCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (priority == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *priority = call.stream->priority;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuStreamGetPriority_ptsz(CUstream stream, int* priority) {
  return cuStreamGetPriority(per_thread(stream), priority);
}

SIMGPU_EXPORT CUresult cuStreamGetFlags(CUstream handle, unsigned int* flags) {
  StreamCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *flags = call.stream->flags;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuStreamGetFlags_ptsz(CUstream stream, unsigned int* flags) {
  return cuStreamGetFlags(per_thread(stream), flags);
}

SIMGPU_EXPORT CUresult cuStreamGetId(CUstream handle, unsigned long long* id) {
  StreamCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *id = call.stream->id;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuStreamGetId_ptsz(CUstream stream, unsigned long long* id) {
  return cuStreamGetId(per_thread(stream), id);
}

SIMGPU_EXPORT CUresult cuStreamGetDevice(CUstream handle, CUdevice* device) {
  StreamCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = call.stream->context->device;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuStreamGetDevice_ptsz(CUstream stream, CUdevice* device) {
  return cuStreamGetDevice(per_thread(stream), device);
}

SIMGPU_EXPORT CUresult cuStreamGetCtx_v2(CUstream handle, CUcontext* context, CUgreenCtx* green) {
  StreamCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *context = handle_of(call.stream->context);
  if (green != nullptr) *green = nullptr;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuStreamGetCtx_v2_ptsz(CUstream stream, CUcontext* context,
                                              CUgreenCtx* green) {
  return cuStreamGetCtx_v2(per_thread(stream), context, green);
}
SIMGPU_EXPORT CUresult cuStreamGetCtx(CUstream handle, CUcontext* context) {
  return cuStreamGetCtx_v2(handle, context, nullptr);
}
SIMGPU_EXPORT CUresult cuStreamGetCtx_ptsz(CUstream stream, CUcontext* context) {
  return cuStreamGetCtx_v2(per_thread(stream), context, nullptr);
}

SIMGPU_EXPORT CUresult cuStreamGetAttribute(CUstream handle, CUstreamAttrID attribute,
                                            CUstreamAttrValue* value) {
  StreamCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto set = call.stream->attributes.find(attribute);
  *value = set == call.stream->attributes.end() ? CUstreamAttrValue{} : set->second;
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) value->priority = call.stream->priority;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuStreamGetAttribute_ptsz(CUstream stream, CUstreamAttrID attribute,
                                                 CUstreamAttrValue* value) {
  return cuStreamGetAttribute(per_thread(stream), attribute, value);
}

SIMGPU_EXPORT CUresult cuStreamSetAttribute(CUstream handle, CUstreamAttrID attribute,
                                            const CUstreamAttrValue* value) {
  StreamCall call(handle);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  call.stream->attributes[attribute] = *value;
  if (attribute == CU_LAUNCH_ATTRIBUTE_PRIORITY) call.stream->priority = value->priority;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuStreamSetAttribute_ptsz(CUstream stream, CUstreamAttrID attribute,
                                                 const CUstreamAttrValue* value) {
  return cuStreamSetAttribute(per_thread(stream), attribute, value);
}

}  // namespace divvy::simgpu
