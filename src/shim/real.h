// The real driver's entry points, as the shim calls them. Filled once, before any hook does its
// work; an entry point that this driver does not have is null.
#pragma once

#include "abi/cuda.h"

namespace divvy::shim {

// Shapes of arrays as the entry points without a suffix take them.
struct OldArrayShape {
  unsigned int width;
  unsigned int height;
  CUarray_format format;
  unsigned int channels;
};
struct OldArray3dShape {
  unsigned int width;
  unsigned int height;
  unsigned int depth;
  CUarray_format format;
  unsigned int channels;
  unsigned int flags;
};

struct RealCuda {
#define DIVVY_CU(symbol, base, since, kind, arguments) CUresult(*symbol) arguments;
#include "abi/cuda_functions.inc"
#define DIVVY_CU_EXTRA(symbol, arguments) CUresult(*symbol) arguments;
#include "shim/extra_functions.inc"
};

// Valid after load_real_cuda() has returned true, and constant from then on.
extern constinit RealCuda g_cuda;

// Finds libcuda.so.1 and fills g_cuda. False when there is no driver. Idempotent, thread-safe.
bool load_real_cuda();

// Whether the driver has the entry point `pointer`, a member of g_cuda. A hook asks this first:
// the program may call anything before cuInit.
template <typename Function>
inline bool have(Function* const& pointer) {
  if (__builtin_expect(pointer != nullptr, true)) return true;
  return load_real_cuda() && pointer != nullptr;
}

}  // namespace divvy::shim

extern "C" {
#define DIVVY_CU_EXTRA(symbol, arguments) CUresult symbol arguments;
#include "shim/extra_functions.inc"
}
