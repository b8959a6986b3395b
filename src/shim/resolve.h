// Which of the program's questions for a function are answered with one of ours.
//
// The real resolver is always asked first, with the same arguments, and what it answered is swapped
// here: by its address where that is one of the exported functions we hook, and otherwise by what
// was asked for. So versions, per-thread-stream variants and functions we do not know come out as
// they would without the shim. Any thread.
#pragma once

#include "abi/cuda.h"

namespace divvy::shim {

// What stands in for the function `real` that the dynamic linker knows as `name`; `real` itself
// when it is none of the driver's or of NVML's that we hook.
void* swap_symbol(const char* name, void* real);

// The same for what cuGetProcAddress answered to (base, version, flags).
void* swap_entry_point(const char* base, int version, cuuint64_t flags, void* real);

// Whether the shim exports `name`; the wrapper, or null.
void* wrapper_of(const char* name);

}  // namespace divvy::shim
