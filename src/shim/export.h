// How a hook is defined: a C function that the library exports under the driver's own name, and
// that first sees to it that the driver is there and has the function.
#pragma once

#include "shim/real.h"

#define DIVVY_EXPORT extern "C" __attribute__((visibility("default")))

// First line of a hook. A driver too old for the function: the program reached our export by
// linking it, and is told that there is nothing behind.
#define DIVVY_NEED(symbol) \
  if (!::divvy::shim::have(::divvy::shim::g_cuda.symbol)) return CUDA_ERROR_NOT_FOUND
