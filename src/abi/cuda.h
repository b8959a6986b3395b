// The CUDA 13.0 driver's binary interface: the types, every entry point of cuda_functions.inc as a
// C function, and for each a pointer type `<symbol>_fn`. The simulated driver defines the
// functions; the load generator and the shim use the pointer types. Which thread may call what is
// the driver's own contract: every entry point may be called from any thread.

#ifndef DIVVY_ABI_CUDA_H
#define DIVVY_ABI_CUDA_H

#include "abi/cuda_types.h"

extern "C" {

#define DIVVY_CU(symbol, base, since, stream_kind, arguments) \
  CUresult symbol arguments;                                  \
  using symbol##_fn = CUresult(*) arguments;
#include "abi/cuda_functions.inc"

}  // extern "C"

#endif  // DIVVY_ABI_CUDA_H
