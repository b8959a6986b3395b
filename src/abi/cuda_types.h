// Our own declarations of the CUDA 13.0 driver's types, for the simulated driver, the load
// generator and the shim; no toolkit is needed to build. Names, values and layouts are those of the
// driver's binary interface, so they keep its spelling and live in no namespace. There is no code
// here, and only <stddef.h> and <stdint.h> are used, so that the shim can include this without
// libstdc++.
//
// Enumerations have a fixed underlying type although the toolkit's have none: a program may pass
// any number where the driver takes an enumeration, and with a fixed type reading it is well
// defined.
//
// Never include this in a translation unit that includes the toolkit's cuda.h: the names collide.
// Where a toolkit is present, abi_toolkit_test compares the two.

#ifndef DIVVY_ABI_CUDA_TYPES_H
#define DIVVY_ABI_CUDA_TYPES_H

#include "abi/cuda_device_types.h"
#include "abi/cuda_graph_types.h"
#include "abi/cuda_handles.h"
#include "abi/cuda_memory_types.h"
#include "abi/cuda_module_types.h"
#include "abi/cuda_results.h"
#include "abi/cuda_stream_types.h"

#endif  // DIVVY_ABI_CUDA_TYPES_H
