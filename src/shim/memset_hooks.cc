// Hooks of fills and of copies inside the GPU's memory: they take the time of a kernel, so they
// pass the gate like one. Copies to and from the host use engines of their own and pass freely.
#include "shim/export.h"
#include "shim/gate.h"

using divvy::shim::g_cuda;
using divvy::shim::gated;
using divvy::shim::Passage;

namespace {

// A fill or copy at about 2 TB/s plus a launch; only the order of magnitude matters, for how many
// go into one batch.
uint32_t transfer_ns(uint64_t bytes) {
  const uint64_t ns = 2000 + bytes / 2000;
  return ns > 1'000'000'000 ? 1'000'000'000 : static_cast<uint32_t>(ns);
}

template <typename Real, typename... Arguments>
CUresult transfer(uint64_t bytes, CUstream stream, bool per_thread, Real real,
                  Arguments... arguments) {
  if (!gated()) return real(arguments...);
  const Passage passage = divvy::shim::before_launch(stream, per_thread, 0, transfer_ns(bytes));
  const CUresult result = real(arguments...);
  divvy::shim::after_launch(passage);
  return result;
}

}  // namespace

#define DIVVY_COPY_HOOK(suffix, per_thread)                                                       \
  DIVVY_EXPORT CUresult cuMemcpyDtoDAsync_v2##suffix(CUdeviceptr to, CUdeviceptr from,            \
                                                     size_t bytes, CUstream stream) {             \
    DIVVY_NEED(cuMemcpyDtoDAsync_v2##suffix);                                                     \
    return transfer(2 * bytes, stream, per_thread, g_cuda.cuMemcpyDtoDAsync_v2##suffix, to, from, \
                    bytes, stream);                                                               \
  }
DIVVY_COPY_HOOK(, false)
DIVVY_COPY_HOOK(_ptsz, true)

#define DIVVY_FILL_HOOKS(bits, type, async, sync, per_thread)                                     \
  DIVVY_EXPORT CUresult cuMemsetD##bits##Async##async(CUdeviceptr to, type value, size_t count,   \
                                                      CUstream stream) {                          \
    DIVVY_NEED(cuMemsetD##bits##Async##async);                                                    \
    return transfer(count * sizeof(type), stream, per_thread,                                     \
                    g_cuda.cuMemsetD##bits##Async##async, to, value, count, stream);              \
  }                                                                                               \
  DIVVY_EXPORT CUresult cuMemsetD2D##bits##Async##async(                                          \
      CUdeviceptr to, size_t pitch, type value, size_t width, size_t height, CUstream stream) {   \
    DIVVY_NEED(cuMemsetD2D##bits##Async##async);                                                  \
    return transfer(width * height * sizeof(type), stream, per_thread,                            \
                    g_cuda.cuMemsetD2D##bits##Async##async, to, pitch, value, width, height,      \
                    stream);                                                                      \
  }                                                                                               \
  DIVVY_EXPORT CUresult cuMemsetD##bits##_v2##sync(CUdeviceptr to, type value, size_t count) {    \
    DIVVY_NEED(cuMemsetD##bits##_v2##sync);                                                       \
    return transfer(count * sizeof(type), nullptr, per_thread, g_cuda.cuMemsetD##bits##_v2##sync, \
                    to, value, count);                                                            \
  }                                                                                               \
  DIVVY_EXPORT CUresult cuMemsetD2D##bits##_v2##sync(CUdeviceptr to, size_t pitch, type value,    \
                                                     size_t width, size_t height) {               \
    DIVVY_NEED(cuMemsetD2D##bits##_v2##sync);                                                     \
    return transfer(width * height * sizeof(type), nullptr, per_thread,                           \
                    g_cuda.cuMemsetD2D##bits##_v2##sync, to, pitch, value, width, height);        \
  }

DIVVY_FILL_HOOKS(8, unsigned char, , , false)
DIVVY_FILL_HOOKS(8, unsigned char, _ptsz, _ptds, true)
DIVVY_FILL_HOOKS(16, unsigned short, , , false)
DIVVY_FILL_HOOKS(16, unsigned short, _ptsz, _ptds, true)
DIVVY_FILL_HOOKS(32, unsigned int, , , false)
DIVVY_FILL_HOOKS(32, unsigned int, _ptsz, _ptds, true)
