// In a forked child that starts CUDA itself: none of the memory that the tables know is its own.
#pragma once

namespace divvy::shim {

void forget_memory_of_parent();

}  // namespace divvy::shim
