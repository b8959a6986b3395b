// Copies and memsets. Each is described as a 3D copy or a memset node and goes the way of all work
// (work.h); the synchronous forms then wait for the stream.
#include "simgpu/capture.h"
#include "simgpu/driver.h"
#include "simgpu/work.h"

namespace divvy::simgpu {
namespace {

enum class Wait { kNo, kYes };

CUresult submit(CUstream handle, Work work, Wait wait) {
  Call call(Call::kContext);
  if (call.error != CUDA_SUCCESS) return call.error;
  Stream* stream = nullptr;
  if (CUresult bad = call.driver.resolve_stream(handle, call.context, &stream)) return bad;
  if (wait == Wait::kYes) {
    if (CUresult refused = refuse_capturing_stream(*stream)) return refused;
  }
  if (CUresult bad = submit_work(call, *stream, std::move(work))) return bad;
  if (wait == Wait::kYes) call.driver.synchronize(call.lock, *stream);
  return call.context->sticky;
}

struct End {
  CUmemorytype type = CU_MEMORYTYPE_UNIFIED;
  void* host = nullptr;
  CUdeviceptr device = 0;
  CUarray array = nullptr;
  size_t offset = 0;
};

End host(const void* pointer) {
  return {CU_MEMORYTYPE_HOST, const_cast<void*>(pointer), 0, nullptr, 0};
}
End device(CUdeviceptr address) { return {CU_MEMORYTYPE_DEVICE, nullptr, address, nullptr, 0}; }
End unified(CUdeviceptr address) { return {CU_MEMORYTYPE_UNIFIED, nullptr, address, nullptr, 0}; }
End array(CUarray handle, size_t offset) {
  return {CU_MEMORYTYPE_ARRAY, nullptr, 0, handle, offset};
}

CUresult copy(const End& to, const End& from, size_t bytes, CUstream stream, Wait wait) {
  CopyWork work;
  CUDA_MEMCPY3D& c = work.copy;
  c.srcMemoryType = from.type;
  c.srcHost = from.host;
  c.srcDevice = from.device;
  c.srcArray = from.array;
  c.srcXInBytes = from.offset;
  c.dstMemoryType = to.type;
  c.dstHost = to.host;
  c.dstDevice = to.device;
  c.dstArray = to.array;
  c.dstXInBytes = to.offset;
  c.WidthInBytes = bytes;
  c.Height = 1;
  c.Depth = 1;
  return submit(stream, work, wait);
}

CUresult copy_2d(const CUDA_MEMCPY2D* p, CUstream stream, Wait wait) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CopyWork work;
  CUDA_MEMCPY3D& c = work.copy;
  c.srcXInBytes = p->srcXInBytes;
  c.srcY = p->srcY;
  c.srcMemoryType = p->srcMemoryType;
  c.srcHost = p->srcHost;
  c.srcDevice = p->srcDevice;
  c.srcArray = p->srcArray;
  c.srcPitch = p->srcPitch;
  c.dstXInBytes = p->dstXInBytes;
  c.dstY = p->dstY;
  c.dstMemoryType = p->dstMemoryType;
  c.dstHost = p->dstHost;
  c.dstDevice = p->dstDevice;
  c.dstArray = p->dstArray;
  c.dstPitch = p->dstPitch;
  c.WidthInBytes = p->WidthInBytes;
  c.Height = p->Height;
  c.Depth = 1;
  if (p->Height == 0) c.WidthInBytes = 0;
  return submit(stream, work, wait);
}

CUresult copy_3d(const CUDA_MEMCPY3D* p, CUstream stream, Wait wait) {
  if (p == nullptr) return CUDA_ERROR_INVALID_VALUE;
  CopyWork work{*p};
  if (p->Height == 0 || p->Depth == 0) work.copy.WidthInBytes = 0;
  return submit(stream, work, wait);
}

CUresult fill(CUdeviceptr address, size_t pitch, unsigned value, unsigned element, size_t width,
              size_t height, CUstream stream, Wait wait) {
  MemsetWork work;
  work.memset.dst = address;
  work.memset.pitch = pitch;
  work.memset.value = value;
  work.memset.elementSize = element;
  work.memset.width = width;
  work.memset.height = height;
  // A memset of the whole device memory returns before it is done, like a kernel launch.
  return submit(stream, work, wait);
}

constexpr CUstream kLegacyStream = nullptr;
inline CUstream own_stream() { return per_thread(nullptr); }

}  // namespace

// A synchronous function and its per-thread twin.
#define SIMGPU_SYNC(name, twin, params, body)  \
  SIMGPU_EXPORT CUresult name params {         \
    constexpr CUstream stream = kLegacyStream; \
    constexpr Wait wait = Wait::kYes;          \
    return body;                               \
  }                                            \
  SIMGPU_EXPORT CUresult twin params {         \
    const CUstream stream = own_stream();      \
    constexpr Wait wait = Wait::kYes;          \
    return body;                               \
  }

// An asynchronous one, whose last parameter is the stream, and its twin.
#define SIMGPU_ASYNC(name, twin, params, body) \
  SIMGPU_EXPORT CUresult name params {         \
    constexpr Wait wait = Wait::kNo;           \
    return body;                               \
  }                                            \
  SIMGPU_EXPORT CUresult twin params {         \
    stream = per_thread(stream);               \
    constexpr Wait wait = Wait::kNo;           \
    return body;                               \
  }

SIMGPU_SYNC(cuMemcpy, cuMemcpy_ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
            copy(unified(to), unified(from), bytes, stream, wait))
SIMGPU_ASYNC(cuMemcpyAsync, cuMemcpyAsync_ptsz,
             (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
             copy(unified(to), unified(from), bytes, stream, wait))
SIMGPU_SYNC(cuMemcpyHtoD_v2, cuMemcpyHtoD_v2_ptds, (CUdeviceptr to, const void* from, size_t bytes),
            copy(device(to), host(from), bytes, stream, wait))
SIMGPU_ASYNC(cuMemcpyHtoDAsync_v2, cuMemcpyHtoDAsync_v2_ptsz,
             (CUdeviceptr to, const void* from, size_t bytes, CUstream stream),
             copy(device(to), host(from), bytes, stream, wait))
SIMGPU_SYNC(cuMemcpyDtoH_v2, cuMemcpyDtoH_v2_ptds, (void* to, CUdeviceptr from, size_t bytes),
            copy(host(to), device(from), bytes, stream, wait))
SIMGPU_ASYNC(cuMemcpyDtoHAsync_v2, cuMemcpyDtoHAsync_v2_ptsz,
             (void* to, CUdeviceptr from, size_t bytes, CUstream stream),
             copy(host(to), device(from), bytes, stream, wait))
SIMGPU_SYNC(cuMemcpyDtoD_v2, cuMemcpyDtoD_v2_ptds, (CUdeviceptr to, CUdeviceptr from, size_t bytes),
            copy(device(to), device(from), bytes, stream, wait))
SIMGPU_ASYNC(cuMemcpyDtoDAsync_v2, cuMemcpyDtoDAsync_v2_ptsz,
             (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream),
             copy(device(to), device(from), bytes, stream, wait))
SIMGPU_SYNC(cuMemcpyPeer, cuMemcpyPeer_ptds,
            (CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes),
            copy(device(to), device(from), bytes, stream, wait))
SIMGPU_ASYNC(cuMemcpyPeerAsync, cuMemcpyPeerAsync_ptsz,
             (CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t bytes,
              CUstream stream),
             copy(device(to), device(from), bytes, stream, wait))
SIMGPU_SYNC(cuMemcpyHtoA_v2, cuMemcpyHtoA_v2_ptds,
            (CUarray to, size_t offset, const void* from, size_t bytes),
            copy(array(to, offset), host(from), bytes, stream, wait))
SIMGPU_ASYNC(cuMemcpyHtoAAsync_v2, cuMemcpyHtoAAsync_v2_ptsz,
             (CUarray to, size_t offset, const void* from, size_t bytes, CUstream stream),
             copy(array(to, offset), host(from), bytes, stream, wait))
SIMGPU_SYNC(cuMemcpyAtoH_v2, cuMemcpyAtoH_v2_ptds,
            (void* to, CUarray from, size_t offset, size_t bytes),
            copy(host(to), array(from, offset), bytes, stream, wait))
SIMGPU_ASYNC(cuMemcpyAtoHAsync_v2, cuMemcpyAtoHAsync_v2_ptsz,
             (void* to, CUarray from, size_t offset, size_t bytes, CUstream stream),
             copy(host(to), array(from, offset), bytes, stream, wait))
SIMGPU_SYNC(cuMemcpyAtoD_v2, cuMemcpyAtoD_v2_ptds,
            (CUdeviceptr to, CUarray from, size_t offset, size_t bytes),
            copy(device(to), array(from, offset), bytes, stream, wait))
SIMGPU_SYNC(cuMemcpyDtoA_v2, cuMemcpyDtoA_v2_ptds,
            (CUarray to, size_t offset, CUdeviceptr from, size_t bytes),
            copy(array(to, offset), device(from), bytes, stream, wait))
SIMGPU_SYNC(cuMemcpyAtoA_v2, cuMemcpyAtoA_v2_ptds,
            (CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t bytes),
            copy(array(to, to_offset), array(from, from_offset), bytes, stream, wait))
SIMGPU_SYNC(cuMemcpy2D_v2, cuMemcpy2D_v2_ptds, (const CUDA_MEMCPY2D* params),
            copy_2d(params, stream, wait))
SIMGPU_SYNC(cuMemcpy2DUnaligned_v2, cuMemcpy2DUnaligned_v2_ptds, (const CUDA_MEMCPY2D* params),
            copy_2d(params, stream, wait))
SIMGPU_ASYNC(cuMemcpy2DAsync_v2, cuMemcpy2DAsync_v2_ptsz,
             (const CUDA_MEMCPY2D* params, CUstream stream), copy_2d(params, stream, wait))
SIMGPU_SYNC(cuMemcpy3D_v2, cuMemcpy3D_v2_ptds, (const CUDA_MEMCPY3D* params),
            copy_3d(params, stream, wait))
SIMGPU_ASYNC(cuMemcpy3DAsync_v2, cuMemcpy3DAsync_v2_ptsz,
             (const CUDA_MEMCPY3D* params, CUstream stream), copy_3d(params, stream, wait))

#define SIMGPU_MEMSET(bits, type)                                                               \
  SIMGPU_SYNC(cuMemsetD##bits##_v2, cuMemsetD##bits##_v2_ptds,                                  \
              (CUdeviceptr to, type value, size_t count),                                       \
              fill(to, 0, value, bits / 8, count, 1, stream, wait))                             \
  SIMGPU_ASYNC(cuMemsetD##bits##Async, cuMemsetD##bits##Async_ptsz,                             \
               (CUdeviceptr to, type value, size_t count, CUstream stream),                     \
               fill(to, 0, value, bits / 8, count, 1, stream, wait))                            \
  SIMGPU_SYNC(cuMemsetD2D##bits##_v2, cuMemsetD2D##bits##_v2_ptds,                              \
              (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height),          \
              fill(to, pitch, value, bits / 8, width, height, stream, wait))                    \
  SIMGPU_ASYNC(                                                                                 \
      cuMemsetD2D##bits##Async, cuMemsetD2D##bits##Async_ptsz,                                  \
      (CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream stream), \
      fill(to, pitch, value, bits / 8, width, height, stream, wait))

SIMGPU_MEMSET(8, unsigned char)
SIMGPU_MEMSET(16, unsigned short)
SIMGPU_MEMSET(32, unsigned int)

}  // namespace divvy::simgpu
