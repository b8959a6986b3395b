// Memory that goes without being freed: with its context, or in a forked child.
#pragma once

#include "abi/cuda.h"

namespace divvy::shim {

// After a context is gone: uncharges what the driver has taken down with it.
void drop_lost_memory(CUcontext context, int slice);

void forget_contexts_of_parent();

}  // namespace divvy::shim
