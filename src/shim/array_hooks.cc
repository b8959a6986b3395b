// Arrays and mipmapped arrays.
#include "shim/array_bytes.h"
#include "shim/charge.h"
#include "shim/export.h"

using divvy::shim::Allocation;
using divvy::shim::charged_slice;
using divvy::shim::Family;
using divvy::shim::g_arrays;
using divvy::shim::g_cuda;
using divvy::shim::Reservation;

namespace {

CUDA_ARRAY3D_DESCRIPTOR flat(size_t width, size_t height, CUarray_format format,
                             unsigned int channels) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = width;
  shape.Height = height;
  shape.Format = format;
  shape.NumChannels = channels;
  return shape;
}

// Arrays have no address that the driver could be asked about, so they are remembered with the
// context that takes them down.
template <typename Handle, typename Real>
CUresult create(const Handle* out, uint64_t bytes, Real real) {
  const int slice = charged_slice();
  if (slice < 0 || out == nullptr) return real();
  Reservation room(slice, bytes);
  if (room.refused()) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result = real();
  if (result != CUDA_SUCCESS) return result;
  CUcontext context = nullptr;
  g_cuda.cuCtxGetCurrent(&context);
  Allocation allocation;
  allocation.bytes = bytes;
  allocation.slice = static_cast<int8_t>(slice);
  allocation.family = Family::kArray;
  allocation.owner = reinterpret_cast<uint64_t>(context);
  g_arrays.insert(reinterpret_cast<uint64_t>(*out), allocation);
  room.keep();
  return result;
}

template <typename Handle, typename Real>
CUresult destroy(Handle array, Real real) {
  Allocation held;
  const bool known = g_arrays.remove(reinterpret_cast<uint64_t>(array), &held);
  const CUresult result = real(array);
  if (!known) return result;
  if (result == CUDA_SUCCESS) {
    divvy::shim::uncharge_slice(held.slice, held.bytes);
  } else {
    g_arrays.insert(reinterpret_cast<uint64_t>(array), held);
  }
  return result;
}

}  // namespace

DIVVY_EXPORT CUresult cuArrayCreate_v2(CUarray* out, const CUDA_ARRAY_DESCRIPTOR* shape) {
  DIVVY_NEED(cuArrayCreate_v2);
  if (shape == nullptr) return g_cuda.cuArrayCreate_v2(out, shape);
  const auto whole = flat(shape->Width, shape->Height, shape->Format, shape->NumChannels);
  return create(out, divvy::shim::array_bytes(whole),
                [&] { return g_cuda.cuArrayCreate_v2(out, shape); });
}

DIVVY_EXPORT CUresult cuArrayCreate(CUarray* out, const divvy::shim::OldArrayShape* shape) {
  DIVVY_NEED(cuArrayCreate);
  if (shape == nullptr) return g_cuda.cuArrayCreate(out, shape);
  const auto whole = flat(shape->width, shape->height, shape->format, shape->channels);
  return create(out, divvy::shim::array_bytes(whole),
                [&] { return g_cuda.cuArrayCreate(out, shape); });
}

DIVVY_EXPORT CUresult cuArray3DCreate_v2(CUarray* out, const CUDA_ARRAY3D_DESCRIPTOR* shape) {
  DIVVY_NEED(cuArray3DCreate_v2);
  if (shape == nullptr) return g_cuda.cuArray3DCreate_v2(out, shape);
  return create(out, divvy::shim::array_bytes(*shape),
                [&] { return g_cuda.cuArray3DCreate_v2(out, shape); });
}

DIVVY_EXPORT CUresult cuArray3DCreate(CUarray* out, const divvy::shim::OldArray3dShape* shape) {
  DIVVY_NEED(cuArray3DCreate);
  if (shape == nullptr) return g_cuda.cuArray3DCreate(out, shape);
  auto whole = flat(shape->width, shape->height, shape->format, shape->channels);
  whole.Depth = shape->depth;
  whole.Flags = shape->flags;
  return create(out, divvy::shim::array_bytes(whole),
                [&] { return g_cuda.cuArray3DCreate(out, shape); });
}

DIVVY_EXPORT CUresult cuArrayDestroy(CUarray array) {
  DIVVY_NEED(cuArrayDestroy);
  return destroy(array, g_cuda.cuArrayDestroy);
}

DIVVY_EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray* out,
                                             const CUDA_ARRAY3D_DESCRIPTOR* shape,
                                             unsigned int levels) {
  DIVVY_NEED(cuMipmappedArrayCreate);
  if (shape == nullptr) return g_cuda.cuMipmappedArrayCreate(out, shape, levels);
  return create(out, divvy::shim::mipmap_bytes(*shape, levels),
                [&] { return g_cuda.cuMipmappedArrayCreate(out, shape, levels); });
}

DIVVY_EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  DIVVY_NEED(cuMipmappedArrayDestroy);
  return destroy(array, g_cuda.cuMipmappedArrayDestroy);
}
