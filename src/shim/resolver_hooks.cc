// cuGetProcAddress: what the CUDA runtime asks for every function it uses.
#include "shim/export.h"
#include "shim/real.h"
#include "shim/resolve.h"

using divvy::shim::g_cuda;
using divvy::shim::swap_entry_point;

DIVVY_EXPORT CUresult cuGetProcAddress(const char* symbol, void** out, int version,
                                       cuuint64_t flags) {
  DIVVY_NEED(cuGetProcAddress);
  const CUresult result = g_cuda.cuGetProcAddress(symbol, out, version, flags);
  if (result == CUDA_SUCCESS && out != nullptr) {
    *out = swap_entry_point(symbol, version, flags, *out);
  }
  return result;
}

DIVVY_EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** out, int version,
                                          cuuint64_t flags,
                                          CUdriverProcAddressQueryResult* status) {
  DIVVY_NEED(cuGetProcAddress_v2);
  const CUresult result = g_cuda.cuGetProcAddress_v2(symbol, out, version, flags, status);
  if (result == CUDA_SUCCESS && out != nullptr) {
    *out = swap_entry_point(symbol, version, flags, *out);
  }
  return result;
}
