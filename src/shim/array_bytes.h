// How much memory an array takes. The driver says so only of arrays without memory, so it is
// reckoned from the shape, never below what the hardware's tiles need.
#pragma once

#include "abi/cuda.h"
#include "shim/allocations.h"

namespace divvy::shim {

// 0 for arrays whose memory is mapped in by the program (sparse and deferred ones).
uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR& shape);
uint64_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned int levels);

// Arrays and mipmapped arrays by handle.
extern constinit AllocationTable g_arrays;

}  // namespace divvy::shim
