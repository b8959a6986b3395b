#include "shim/array_bytes.h"

#include "abi/cuda_array_formats.h"
#include "shim/account.h"

namespace divvy::shim {

constinit AllocationTable g_arrays;

namespace {

// Of formats that are not in the table (video, and those to come) none has more than 8 bytes for
// one pixel.
abi::ArrayTexel texel_of(CUarray_format format, unsigned channels) {
  const abi::ArrayTexel known = abi::array_texel(format, channels);
  return known.bytes != 0 ? known : abi::ArrayTexel{8};
}

uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

uint64_t product(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX / 4 : result;
}

// Texels are kept in tiles of 64 bytes by 8 rows, and tiles in stacks of up to 16; only as many as
// the height needs, in powers of two.
uint64_t level_bytes(uint64_t width, uint64_t height, uint64_t layers,
                     const abi::ArrayTexel& texel) {
  const uint64_t row = round_up(product((width + texel.side - 1) / texel.side, texel.bytes), 64);
  uint64_t rows = height == 0 ? 1 : (height + texel.side - 1) / texel.side;
  if (height != 0) {
    uint64_t stack = 8;
    while (stack < rows && stack < 128) stack *= 2;
    rows = round_up(rows, stack);
  }
  return product(product(row, rows), layers == 0 ? 1 : layers);
}

bool has_memory(const CUDA_ARRAY3D_DESCRIPTOR& shape) {
  return (shape.Flags & (CUDA_ARRAY3D_SPARSE | CUDA_ARRAY3D_DEFERRED_MAPPING)) == 0;
}

}  // namespace

uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR& shape) { return mipmap_bytes(shape, 1); }

uint64_t mipmap_bytes(const CUDA_ARRAY3D_DESCRIPTOR& shape, unsigned int levels) {
  if (!has_memory(shape)) return 0;
  const abi::ArrayTexel texel = texel_of(shape.Format, shape.NumChannels);
  const bool layered = (shape.Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP)) != 0;
  uint64_t width = shape.Width;
  uint64_t height = shape.Height;
  uint64_t depth = shape.Depth;
  uint64_t bytes = 0;
  for (unsigned int i = 0; i < levels && i < 32; ++i) {
    bytes += level_bytes(width, height, depth, texel);
    if (width > 1) width /= 2;
    if (height > 1) height /= 2;
    if (depth > 1 && !layered) depth /= 2;
  }
  return allocation_bytes(bytes);
}

}  // namespace divvy::shim
