// Memory that others have made and this process opens.
//
// What CUDA shares between processes belongs to the process that made it: there it was charged, and
// there NVML counts it. So opening it costs the opener what the driver then holds for it more,
// which is measured; that is nothing while the maker lives, and all of it when the maker has ended.
// Where nobody can measure, it is charged in full. Memory of other interfaces (Vulkan, OpenGL) was
// made past our hooks and is charged in full.
#include "shim/charge.h"
#include "shim/export.h"
#include "shim/overhead.h"

using divvy::shim::Allocation;
using divvy::shim::charged_slice;
using divvy::shim::Family;
using divvy::shim::g_cuda;
using divvy::shim::g_pointers;
using divvy::shim::Reservation;

namespace divvy::shim {
namespace {

// External memory by its object.
constinit AllocationTable g_external;

CUdevice device_of(CUdeviceptr pointer) {
  int device = CU_DEVICE_INVALID;
  if (g_cuda.cuPointerGetAttribute == nullptr ||
      g_cuda.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, pointer) !=
          CUDA_SUCCESS) {
    g_cuda.cuCtxGetDevice(&device);
  }
  return device;
}

// Opening the same memory again gives the same address.
bool opened_again(CUdeviceptr pointer) {
  return g_pointers.update(pointer, [](Allocation& held) {
    ++held.count;
    return true;
  });
}

CUresult opened(CUdeviceptr pointer) {
  if (opened_again(pointer)) return CUDA_SUCCESS;
  const int slice = charged_slice_of(device_of(pointer));
  if (slice < 0) return CUDA_SUCCESS;
  Allocation held;
  held.family = Family::kImport;
  held.slice = static_cast<int8_t>(slice);
  held.count = 1;
  if (!measure_overhead(slice)) {
    CUdeviceptr base = 0;
    size_t bytes = 0;
    g_cuda.cuMemGetAddressRange_v2(&base, &bytes, pointer);
    Reservation room(slice, allocation_bytes(bytes));
    if (room.refused()) {
      g_cuda.cuIpcCloseMemHandle(pointer);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    held.bytes = room.bytes();
    room.keep();
  }
  g_pointers.insert(pointer, held);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace divvy::shim

DIVVY_EXPORT CUresult cuIpcOpenMemHandle(CUdeviceptr* out, CUipcMemHandle handle,
                                         unsigned int flags) {
  DIVVY_NEED(cuIpcOpenMemHandle);
  const CUresult result = g_cuda.cuIpcOpenMemHandle(out, handle, flags);
  return result == CUDA_SUCCESS && out != nullptr ? divvy::shim::opened(*out) : result;
}

DIVVY_EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* out, CUipcMemHandle handle,
                                            unsigned int flags) {
  DIVVY_NEED(cuIpcOpenMemHandle_v2);
  const CUresult result = g_cuda.cuIpcOpenMemHandle_v2(out, handle, flags);
  return result == CUDA_SUCCESS && out != nullptr ? divvy::shim::opened(*out) : result;
}

DIVVY_EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr pointer) {
  DIVVY_NEED(cuIpcCloseMemHandle);
  const CUresult result = g_cuda.cuIpcCloseMemHandle(pointer);
  if (result != CUDA_SUCCESS) return result;
  Allocation last;
  bool ended = false;
  g_pointers.update(pointer, [&](Allocation& held) {
    ended = held.family == Family::kImport && --held.count == 0;
    if (ended) last = held;
    return !ended;
  });
  if (ended) divvy::shim::uncharge_slice(last.slice, last.bytes);
  return result;
}

DIVVY_EXPORT CUresult cuImportExternalMemory(CUexternalMemory* out,
                                             const CUDA_EXTERNAL_MEMORY_HANDLE_DESC* what) {
  DIVVY_NEED(cuImportExternalMemory);
  const int slice = what != nullptr && out != nullptr ? charged_slice() : -1;
  if (slice < 0) return g_cuda.cuImportExternalMemory(out, what);
  Reservation room(slice, divvy::shim::allocation_bytes(what->size));
  if (room.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = g_cuda.cuImportExternalMemory(out, what);
  if (result != CUDA_SUCCESS) return result;
  Allocation held;
  held.bytes = room.bytes();
  held.family = Family::kImport;
  held.slice = static_cast<int8_t>(slice);
  divvy::shim::g_external.insert(reinterpret_cast<uint64_t>(*out), held);
  room.keep();
  return result;
}

DIVVY_EXPORT CUresult cuDestroyExternalMemory(CUexternalMemory memory) {
  DIVVY_NEED(cuDestroyExternalMemory);
  Allocation held;
  const auto key = reinterpret_cast<uint64_t>(memory);
  const bool known = divvy::shim::g_external.remove(key, &held);
  const CUresult result = g_cuda.cuDestroyExternalMemory(memory);
  if (!known) return result;
  if (result == CUDA_SUCCESS) {
    divvy::shim::uncharge_slice(held.slice, held.bytes);
  } else {
    divvy::shim::g_external.insert(key, held);
  }
  return result;
}
