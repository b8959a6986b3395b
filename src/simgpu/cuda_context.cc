// Contexts: primary and explicit, the stack of current ones, limits and flags.
#include "simgpu/capture.h"
#include "simgpu/driver.h"

namespace divvy::simgpu {
namespace {

constexpr unsigned kKnownFlags = CU_CTX_FLAGS_MASK;

CUresult create(CUcontext* out, unsigned flags, CUdevice device) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr || (flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  if (!call.driver.valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  Context* context = nullptr;
  const CUresult made = call.driver.create_context(device, flags, false, &context);
  if (made != CUDA_SUCCESS) return made;
  context_stack().push_back(context);
  *out = handle_of(context);
  return CUDA_SUCCESS;
}

// A context given by handle, or the current one for NULL where the call allows that.
CUresult resolve(Call& call, CUcontext handle, Context** out) {
  if (handle == nullptr) {
    auto& stack = context_stack();
    if (stack.empty() || stack.back() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
    *out = stack.back();
  } else {
    *out = context_of(handle);
  }
  return call.driver.live(*out) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

void drop_from_stack(const Context* context) {
  auto& stack = context_stack();
  if (!stack.empty() && stack.back() == context) stack.pop_back();
}

}  // namespace

SIMGPU_EXPORT CUresult cuCtxCreate_v2(CUcontext* context, unsigned int flags, CUdevice device) {
  return create(context, flags, device);
}
SIMGPU_EXPORT CUresult cuCtxCreate(CUcontext* context, unsigned int flags, CUdevice device) {
  return create(context, flags, device);
}
SIMGPU_EXPORT CUresult cuCtxCreate_v3(CUcontext* context, CUexecAffinityParam*, int count,
                                      unsigned int flags, CUdevice device) {
  // Execution affinity needs MPS, which is not simulated.
  if (count != 0) return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  return create(context, flags, device);
}
SIMGPU_EXPORT CUresult cuCtxCreate_v4(CUcontext* context, CUctxCreateParams* params,
                                      unsigned int flags, CUdevice device) {
  if (params != nullptr && params->numExecAffinityParams != 0) {
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
  }
  return create(context, flags, device);
}

SIMGPU_EXPORT CUresult cuCtxDestroy_v2(CUcontext handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = context_of(handle);
  if (!call.driver.live(context) || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  drop_from_stack(context);
  call.driver.destroy_context(call.lock, context);
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuCtxDestroy(CUcontext handle) { return cuCtxDestroy_v2(handle); }

SIMGPU_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.driver.live(context_of(handle))) return CUDA_ERROR_INVALID_CONTEXT;
  context_stack().push_back(context_of(handle));
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuCtxPushCurrent(CUcontext handle) { return cuCtxPushCurrent_v2(handle); }

SIMGPU_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext* out) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  auto& stack = context_stack();
  if (stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  if (out != nullptr) *out = handle_of(stack.back());
  stack.pop_back();
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuCtxPopCurrent(CUcontext* out) { return cuCtxPopCurrent_v2(out); }

SIMGPU_EXPORT CUresult cuCtxSetCurrent(CUcontext handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  auto& stack = context_stack();
  if (handle == nullptr) {
    if (!stack.empty()) stack.pop_back();
    return CUDA_SUCCESS;
  }
  if (!call.driver.live(context_of(handle))) return CUDA_ERROR_INVALID_CONTEXT;
  if (stack.empty()) {
    stack.push_back(context_of(handle));
  } else {
    stack.back() = context_of(handle);
  }
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxGetCurrent(CUcontext* out) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  auto& stack = context_stack();
  *out = stack.empty() ? nullptr : handle_of(stack.back());
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxGetDevice(CUdevice* device) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *device = call.context->device;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuCtxGetDevice_v2(CUdevice* device, CUcontext handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (device == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  if (CUresult bad = resolve(call, handle, &context)) return bad;
  *device = context->device;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxSynchronize() {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (CUresult refused = refuse_capturing_context(call.driver, *call.context)) return refused;
  call.driver.synchronize(call.lock, *call.context);
  return call.context->sticky;
}
SIMGPU_EXPORT CUresult cuCtxSynchronize_v2(CUcontext handle) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  Context* context = nullptr;
  if (CUresult bad = resolve(call, handle, &context)) return bad;
  if (CUresult refused = refuse_capturing_context(call.driver, *context)) return refused;
  call.driver.synchronize(call.lock, *context);
  return context->sticky;
}

SIMGPU_EXPORT CUresult cuCtxGetFlags(unsigned int* flags) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (flags == nullptr) return CUDA_ERROR_INVALID_VALUE;
  // Mapping of host memory is always on.
  *flags = call.context->flags | CU_CTX_MAP_HOST;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuCtxSetFlags(unsigned int flags) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if ((flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  call.context->flags = flags;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuCtxGetId(CUcontext handle, unsigned long long* id) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (id == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  if (CUresult bad = resolve(call, handle, &context)) return bad;
  *id = context->id;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuCtxGetApiVersion(CUcontext handle, unsigned int* version) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (version == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Context* context = nullptr;
  if (CUresult bad = resolve(call, handle, &context)) return bad;
  *version = context->version;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuCtxGetLimit(size_t* value, CUlimit limit) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (static_cast<unsigned>(limit) >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (static_cast<unsigned>(limit) > CU_LIMIT_PERSISTING_L2_CACHE_SIZE) {
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
  *value = call.context->limits[limit];
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (CUresult refused = refuse_while_capturing(call.driver)) return refused;
  if (static_cast<unsigned>(limit) >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (static_cast<unsigned>(limit) > CU_LIMIT_PERSISTING_L2_CACHE_SIZE) {
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
  call.context->limits[limit] = value;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuCtxGetCacheConfig(CUfunc_cache* config) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  *config = call.context->cache_config;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  call.context->cache_config = config;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.driver.valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  PrimaryContext& primary = call.driver.primary(device);
  if (primary.context == nullptr) {
    const CUresult made = call.driver.create_context(device, primary.flags, true, &primary.context);
    if (made != CUDA_SUCCESS) return made;
  }
  ++primary.references;
  *out = handle_of(primary.context);
  return CUDA_SUCCESS;
}

SIMGPU_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (!call.driver.valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  PrimaryContext& primary = call.driver.primary(device);
  if (primary.references == 0) return CUDA_ERROR_INVALID_CONTEXT;
  if (--primary.references == 0) {
    Context* context = primary.context;
    primary.context = nullptr;
    call.driver.destroy_context(call.lock, context);
  }
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  return cuDevicePrimaryCtxRelease_v2(device);
}

SIMGPU_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (!call.driver.valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  PrimaryContext& primary = call.driver.primary(device);
  if (Context* context = primary.context; context != nullptr) {
    primary.context = nullptr;
    primary.references = 0;
    call.driver.destroy_context(call.lock, context);
  }
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  return cuDevicePrimaryCtxReset_v2(device);
}

SIMGPU_EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (!call.driver.valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  if ((flags & ~kKnownFlags) != 0) return CUDA_ERROR_INVALID_VALUE;
  PrimaryContext& primary = call.driver.primary(device);
  primary.flags = flags;
  if (primary.context != nullptr) primary.context->flags = flags;
  return CUDA_SUCCESS;
}
SIMGPU_EXPORT CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags) {
  return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

SIMGPU_EXPORT CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int* flags,
                                                  int* active) {
  Call call(Call::kInit);
  if (call.error != CUDA_SUCCESS) return call.error;
  if (flags == nullptr || active == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!call.driver.valid_device(device)) return CUDA_ERROR_INVALID_DEVICE;
  const PrimaryContext& primary = call.driver.primary(device);
  *flags = primary.flags;
  *active = primary.context != nullptr ? 1 : 0;
  return CUDA_SUCCESS;
}

}  // namespace divvy::simgpu
