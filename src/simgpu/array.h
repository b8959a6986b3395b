// Arrays and mipmapped arrays. The simulated GPU keeps the texels in plain rows, so that a copy can
// treat an array like pitched memory.
//
// Guarded by the driver's mutex.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "abi/cuda_types.h"

namespace divvy::simgpu {

struct Context;

struct Array {
  Context* context = nullptr;
  int device = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;          // of `address`; 0 in a level of a mipmapped array
  bool charged = true;         // sparse and deferred arrays take no memory of their own
  bool level = false;          // belongs to a mipmapped array
  uint32_t element_bytes = 0;  // of one texel, all channels
  size_t width = 0;
  size_t height = 0;  // 0 for one dimension
  size_t depth = 0;   // 0 for fewer than three; layers and cube faces count here
  size_t pitch = 0;   // bytes of a row
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
};

struct Mipmap {
  Context* context = nullptr;
  int device = 0;
  uint64_t address = 0;
  uint64_t bytes = 0;
  bool charged = true;
  std::vector<CUarray> levels;
};

// The array behind a handle; null for anything else.
Array* resolve_array(CUarray handle);

}  // namespace divvy::simgpu
