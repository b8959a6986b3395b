// NVML's binary interface as far as this tree uses it: the types, every entry point of
// nvml_functions.inc as a C function, and for each a pointer type `<symbol>_fn`. The simulated
// driver defines the functions; the nvml room and the shim use the pointer types. Every entry point
// may be called from any thread, as in the real library.

#ifndef DIVVY_ABI_NVML_H
#define DIVVY_ABI_NVML_H

#include "abi/nvml_telemetry_types.h"
#include "abi/nvml_types.h"

extern "C" {

#define DIVVY_NVML(symbol, arguments) \
  nvmlReturn_t symbol arguments;      \
  using symbol##_fn = nvmlReturn_t(*) arguments;
#include "abi/nvml_functions.inc"

// The one entry point that returns text: never null, and it lives as long as the library.
const char* nvmlErrorString(nvmlReturn_t result);
using nvmlErrorString_fn = const char* (*)(nvmlReturn_t result);

}  // extern "C"

#endif  // DIVVY_ABI_NVML_H
