// Plain, pitched and managed memory, freeing, and how much there is.
#include "shim/charge.h"
#include "shim/export.h"
#include "shim/give_back.h"
#include "shim/graph_memory.h"
#include "shim/pools.h"

using divvy::shim::allocation_bytes;
using divvy::shim::charged_slice;
using divvy::shim::Family;
using divvy::shim::g_cuda;
using divvy::shim::g_pointers;
using divvy::shim::Reservation;
using divvy::shim::slice_memory;
using divvy::shim::SliceMemory;

namespace {

// `real` calls the driver; `out` is where it puts the pointer.
template <typename Pointer, typename Real>
CUresult allocate(const Pointer* out, uint64_t bytes, Family family, Real real) {
  const int slice = charged_slice();
  if (slice < 0 || out == nullptr) return real();
  Reservation room(slice, allocation_bytes(bytes));
  if (room.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = real();
  if (__builtin_expect(result != CUDA_SUCCESS, 0)) return result;
  g_pointers.insert(*out,
                    {.bytes = room.bytes(), .slice = static_cast<int8_t>(slice), .family = family});
  room.keep();
  return result;
}

// How the driver pads rows: to 512 bytes, on every GPU so far.
uint64_t row_bytes(uint64_t width) {
  constexpr uint64_t kAlignment = 512;
  return (width + kAlignment - 1) / kAlignment * kAlignment;
}

uint64_t product(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX / 2 : result;
}

template <typename Pointer, typename Real>
CUresult allocate_rows(const Pointer* out, uint64_t width, uint64_t height, Real real) {
  return allocate(out, product(row_bytes(width), height), Family::kPlain, real);
}

template <typename Size>
void show_slice(Size* free, Size* total) {
  const int slice = charged_slice();
  divvy::shim::pools_refresh(slice);
  SliceMemory memory;
  if (!slice_memory(slice, &memory)) return;
  if (total != nullptr && memory.total < *total) *total = static_cast<Size>(memory.total);
  // Beside other tenants the GPU may have less to give than the slice would allow.
  if (free != nullptr && memory.free < *free) *free = static_cast<Size>(memory.free);
}

}  // namespace

DIVVY_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr* out, size_t bytes) {
  DIVVY_NEED(cuMemAlloc_v2);
  return allocate(out, bytes, Family::kPlain, [&] { return g_cuda.cuMemAlloc_v2(out, bytes); });
}
DIVVY_EXPORT CUresult cuMemAlloc(uint32_t* out, unsigned int bytes) {
  DIVVY_NEED(cuMemAlloc);
  return allocate(out, bytes, Family::kPlain, [&] { return g_cuda.cuMemAlloc(out, bytes); });
}

DIVVY_EXPORT CUresult cuMemAllocPitch_v2(CUdeviceptr* out, size_t* pitch, size_t width,
                                         size_t height, unsigned int element) {
  DIVVY_NEED(cuMemAllocPitch_v2);
  return allocate_rows(out, width, height, [&] {
    return g_cuda.cuMemAllocPitch_v2(out, pitch, width, height, element);
  });
}
DIVVY_EXPORT CUresult cuMemAllocPitch(uint32_t* out, unsigned int* pitch, unsigned int width,
                                      unsigned int height, unsigned int element) {
  DIVVY_NEED(cuMemAllocPitch);
  return allocate_rows(out, width, height,
                       [&] { return g_cuda.cuMemAllocPitch(out, pitch, width, height, element); });
}

// Managed memory may be anywhere, and all of it may come to the GPU at once: it counts whole.
DIVVY_EXPORT CUresult cuMemAllocManaged(CUdeviceptr* out, size_t bytes, unsigned int flags) {
  DIVVY_NEED(cuMemAllocManaged);
  return allocate(out, bytes, Family::kManaged,
                  [&] { return g_cuda.cuMemAllocManaged(out, bytes, flags); });
}

DIVVY_EXPORT CUresult cuMemFree_v2(CUdeviceptr pointer) {
  DIVVY_NEED(cuMemFree_v2);
  return divvy::shim::release_pointer(pointer, [&] { return g_cuda.cuMemFree_v2(pointer); });
}
DIVVY_EXPORT CUresult cuMemFree(uint32_t pointer) {
  DIVVY_NEED(cuMemFree);
  return divvy::shim::release_pointer(pointer, [&] { return g_cuda.cuMemFree(pointer); });
}

DIVVY_EXPORT CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  DIVVY_NEED(cuMemGetInfo_v2);
  const CUresult result = g_cuda.cuMemGetInfo_v2(free, total);
  if (result == CUDA_SUCCESS) show_slice(free, total);
  return result;
}
DIVVY_EXPORT CUresult cuMemGetInfo(unsigned int* free, unsigned int* total) {
  DIVVY_NEED(cuMemGetInfo);
  const CUresult result = g_cuda.cuMemGetInfo(free, total);
  if (result == CUDA_SUCCESS) show_slice(free, total);
  return result;
}
