// Memory by handle, and where it is mapped (virtual_memory_hooks.cc).
#pragma once

#include "shim/allocations.h"

namespace divvy::shim {

// By handle; `count` is how many handles and mappings hold the memory.
extern constinit AllocationTable g_handles;
// By address; `owner` is the handle.
extern constinit AllocationTable g_mappings;

}  // namespace divvy::shim
