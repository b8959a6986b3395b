// Contexts: where most of a process's overhead comes from, and what takes memory down with it.
#include <pthread.h>

#include "shim/charge.h"
#include "shim/export.h"
#include "shim/gate.h"
#include "shim/locked.h"
#include "shim/lost_memory.h"
#include "shim/overhead.h"
#include "shim/session.h"

using divvy::shim::charged_slice;
using divvy::shim::charged_slice_of;
using divvy::shim::g_cuda;
using divvy::shim::Locked;
using divvy::shim::Reservation;
using divvy::shim::standing;
using divvy::shim::Standing;

namespace {

constexpr int kMaxDevices = 64;

// The primary context of each device while it lives.
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
CUcontext g_primary[kMaxDevices];

bool known(CUdevice device) { return device >= 0 && device < kMaxDevices; }

// A device that exists and of which the tenant has no slice. CUDA_VISIBLE_DEVICES keeps programs
// from seeing one; this is for those that initialised CUDA in another way.
bool forbidden(CUdevice device) {
  int count = 0;
  return standing() == Standing::kTenant && divvy::shim::slice_of_device(device) < 0 &&
         g_cuda.cuDeviceGetCount(&count) == CUDA_SUCCESS && device >= 0 && device < count;
}

// Counts a context that was just made. False when the slice has no room for what it came to; the
// caller then takes it down again. `room` was taken beforehand, for what it was expected to cost.
bool fits(int slice, Reservation& room) {
  divvy::shim::context_added(slice);
  divvy::shim::measure_overhead(slice, room.bytes());
  room.give_back();
  if (!divvy::shim::slice_overfull(slice)) return true;
  divvy::shim::context_removed(slice);
  return false;
}

void gone(CUcontext context, int slice) {
  if (slice < 0) return;
  divvy::shim::gate_context_gone(context);
  divvy::shim::drop_lost_memory(context, slice);
  divvy::shim::context_removed(slice);
  divvy::shim::measure_overhead(slice);
}

template <typename Create>
CUresult create(CUcontext* out, CUdevice device, Create real) {
  if (forbidden(device)) return CUDA_ERROR_NOT_PERMITTED;
  const int slice = charged_slice_of(device);
  Reservation room(slice, divvy::shim::expected_context_bytes(slice));
  if (room.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = real();
  if (result != CUDA_SUCCESS || out == nullptr || slice < 0) return result;
  if (!fits(slice, room)) {
    g_cuda.cuCtxDestroy_v2(*out);
    *out = nullptr;
    divvy::shim::measure_overhead(slice);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  divvy::shim::gate_context_created(*out);
  return result;
}

template <typename Destroy>
CUresult destroy(CUcontext context, Destroy real) {
  const int slice = standing() == Standing::kTenant ? divvy::shim::slice_of_context(context) : -1;
  if (slice >= 0) divvy::shim::gate_context_may_go(context);
  const CUresult result = real(context);
  if (result == CUDA_SUCCESS) {
    gone(context, slice);
  } else if (slice >= 0) {
    divvy::shim::gate_context_stayed(context);
  }
  return result;
}

bool primary_lives(CUdevice device) {
  unsigned int flags = 0;
  int active = 0;
  return g_cuda.cuDevicePrimaryCtxGetState == nullptr ||
         (g_cuda.cuDevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS &&
          active != 0);
}

// Around a release or a reset, which may take the context down.
template <typename Real>
CUresult end_primary(CUdevice device, Real real) {
  CUcontext context = nullptr;
  if (known(device)) {
    const Locked locked(g_lock);
    context = g_primary[device];
  }
  if (context == nullptr) return real(device);
  divvy::shim::gate_context_may_go(context);
  const CUresult result = real(device);
  if (result != CUDA_SUCCESS || primary_lives(device)) {
    divvy::shim::gate_context_stayed(context);
    return result;
  }
  {
    const Locked locked(g_lock);
    if (g_primary[device] != context) return result;
    g_primary[device] = nullptr;
  }
  gone(context, charged_slice_of(device));
  return result;
}

}  // namespace

DIVVY_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext* out, CUdevice device) {
  DIVVY_NEED(cuDevicePrimaryCtxRetain);
  if (standing() != Standing::kTenant) return g_cuda.cuDevicePrimaryCtxRetain(out, device);
  if (forbidden(device)) return CUDA_ERROR_NOT_PERMITTED;
  if (!known(device)) return g_cuda.cuDevicePrimaryCtxRetain(out, device);
  bool first = false;
  {
    const Locked locked(g_lock);
    first = g_primary[device] == nullptr;
  }
  const int slice = charged_slice_of(device);
  Reservation room(slice, first ? divvy::shim::expected_context_bytes(slice) : 0);
  if (room.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = g_cuda.cuDevicePrimaryCtxRetain(out, device);
  if (result != CUDA_SUCCESS || out == nullptr) return result;
  {
    const Locked locked(g_lock);
    // Another thread may have been the one that made it.
    first = g_primary[device] == nullptr;
    g_primary[device] = *out;
  }
  if (!first) return result;
  if (!fits(slice, room)) {
    {
      const Locked locked(g_lock);
      g_primary[device] = nullptr;
    }
    g_cuda.cuDevicePrimaryCtxRelease_v2(device);
    *out = nullptr;
    divvy::shim::measure_overhead(slice);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  divvy::shim::gate_context_created(*out);
  return result;
}

DIVVY_EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device) {
  DIVVY_NEED(cuDevicePrimaryCtxRelease);
  return end_primary(device, g_cuda.cuDevicePrimaryCtxRelease);
}
DIVVY_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  DIVVY_NEED(cuDevicePrimaryCtxRelease_v2);
  return end_primary(device, g_cuda.cuDevicePrimaryCtxRelease_v2);
}
DIVVY_EXPORT CUresult cuDevicePrimaryCtxReset(CUdevice device) {
  DIVVY_NEED(cuDevicePrimaryCtxReset);
  return end_primary(device, g_cuda.cuDevicePrimaryCtxReset);
}
DIVVY_EXPORT CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
  DIVVY_NEED(cuDevicePrimaryCtxReset_v2);
  return end_primary(device, g_cuda.cuDevicePrimaryCtxReset_v2);
}

DIVVY_EXPORT CUresult cuCtxCreate(CUcontext* out, unsigned int flags, CUdevice device) {
  DIVVY_NEED(cuCtxCreate);
  return create(out, device, [&] { return g_cuda.cuCtxCreate(out, flags, device); });
}
DIVVY_EXPORT CUresult cuCtxCreate_v2(CUcontext* out, unsigned int flags, CUdevice device) {
  DIVVY_NEED(cuCtxCreate_v2);
  return create(out, device, [&] { return g_cuda.cuCtxCreate_v2(out, flags, device); });
}
DIVVY_EXPORT CUresult cuCtxCreate_v3(CUcontext* out, CUexecAffinityParam* affinity, int count,
                                     unsigned int flags, CUdevice device) {
  DIVVY_NEED(cuCtxCreate_v3);
  return create(out, device,
                [&] { return g_cuda.cuCtxCreate_v3(out, affinity, count, flags, device); });
}
DIVVY_EXPORT CUresult cuCtxCreate_v4(CUcontext* out, CUctxCreateParams* params, unsigned int flags,
                                     CUdevice device) {
  DIVVY_NEED(cuCtxCreate_v4);
  return create(out, device, [&] { return g_cuda.cuCtxCreate_v4(out, params, flags, device); });
}

DIVVY_EXPORT CUresult cuCtxDestroy(CUcontext context) {
  DIVVY_NEED(cuCtxDestroy);
  return destroy(context, g_cuda.cuCtxDestroy);
}
DIVVY_EXPORT CUresult cuCtxDestroy_v2(CUcontext context) {
  DIVVY_NEED(cuCtxDestroy_v2);
  return destroy(context, g_cuda.cuCtxDestroy_v2);
}

// Stacks, heaps and buffers of a context grow.
DIVVY_EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  DIVVY_NEED(cuCtxSetLimit);
  const CUresult result = g_cuda.cuCtxSetLimit(limit, value);
  if (result == CUDA_SUCCESS) divvy::shim::measure_overhead(charged_slice());
  return result;
}

// A green context is a part of the primary one: no memory dies with it.
DIVVY_EXPORT CUresult cuGreenCtxCreate(CUgreenCtx* out, void* resources, CUdevice device,
                                       unsigned int flags) {
  DIVVY_NEED(cuGreenCtxCreate);
  if (forbidden(device)) return CUDA_ERROR_NOT_PERMITTED;
  const CUresult result = g_cuda.cuGreenCtxCreate(out, resources, device, flags);
  if (result == CUDA_SUCCESS) divvy::shim::measure_overhead(charged_slice_of(device));
  return result;
}
DIVVY_EXPORT CUresult cuGreenCtxDestroy(CUgreenCtx context) {
  DIVVY_NEED(cuGreenCtxDestroy);
  return g_cuda.cuGreenCtxDestroy(context);
}

namespace divvy::shim {

void forget_contexts_of_parent() {
  g_lock = PTHREAD_MUTEX_INITIALIZER;
  for (CUcontext& primary : g_primary) primary = nullptr;
}

}  // namespace divvy::shim
