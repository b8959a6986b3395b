// cuInit, where a process becomes a tenant's, and how large a device says it is.
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "shim/charge.h"
#include "shim/export.h"
#include "shim/forget.h"
#include "shim/session.h"
#include "shim/visibility.h"

using divvy::shim::charged_slice_of;
using divvy::shim::g_cuda;
using divvy::shim::slice_memory;
using divvy::shim::SliceMemory;
using divvy::shim::Standing;

namespace {

// The driver reads the variable when it is initialised and never again in that process. The lock
// is for threads that initialise it at once: none may go on before the variable is set.
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
pid_t g_shown_to;

void show_granted_devices() {
  const divvy::wire::ControlPage* page = divvy::shim::control();
  if (page == nullptr || g_shown_to == getpid()) return;
  // A child of a fork holds nothing of what its parent held.
  divvy::shim::forget_memory_of_parent();
  char text[divvy::shim::kVisibleBytes];
  divvy::shim::visible_devices(*page, getenv("CUDA_VISIBLE_DEVICES"), text);
  setenv("CUDA_VISIBLE_DEVICES", text, 1);
  g_shown_to = getpid();
}

template <typename Size>
void show_slice(CUdevice device, Size* bytes) {
  SliceMemory memory;
  if (bytes == nullptr || !slice_memory(charged_slice_of(device), &memory)) return;
  if (memory.total < *bytes) *bytes = static_cast<Size>(memory.total);
}

}  // namespace

DIVVY_EXPORT CUresult cuInit(unsigned int flags) {
  DIVVY_NEED(cuInit);
  switch (divvy::shim::join()) {
    case Standing::kTenant:
      pthread_mutex_lock(&g_lock);
      show_granted_devices();
      pthread_mutex_unlock(&g_lock);
      break;
    case Standing::kRefused:
      return CUDA_ERROR_NOT_PERMITTED;
    case Standing::kUnreachable:
      return CUDA_ERROR_SYSTEM_NOT_READY;
    case Standing::kUnknown:
    case Standing::kNoTenant:
      return g_cuda.cuInit(flags);
  }
  const CUresult result = g_cuda.cuInit(flags);
  if (result == CUDA_SUCCESS) divvy::shim::devices_known();
  return result;
}

DIVVY_EXPORT CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  DIVVY_NEED(cuDeviceTotalMem_v2);
  const CUresult result = g_cuda.cuDeviceTotalMem_v2(bytes, device);
  if (result == CUDA_SUCCESS) show_slice(device, bytes);
  return result;
}

DIVVY_EXPORT CUresult cuDeviceTotalMem(unsigned int* bytes, CUdevice device) {
  DIVVY_NEED(cuDeviceTotalMem);
  const CUresult result = g_cuda.cuDeviceTotalMem(bytes, device);
  if (result == CUDA_SUCCESS) show_slice(device, bytes);
  return result;
}
