#include "shim/array_bytes.h"

#include "shim/account.h"

namespace divvy::shim {

constinit AllocationTable g_arrays;

namespace {

// The smallest thing that a format stores: one texel, or a block of 4 x 4 compressed ones.
struct Texel {
  uint64_t bytes;
  uint64_t side = 1;
};

Texel texel_of(CUarray_format format, unsigned channels) {
  switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return {channels};
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return {uint64_t{2} * channels};
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return {uint64_t{4} * channels};
    case CU_AD_FORMAT_UNORM_INT8X1:
    case CU_AD_FORMAT_SNORM_INT8X1:
      return {1};
    case CU_AD_FORMAT_UNORM_INT8X2:
    case CU_AD_FORMAT_SNORM_INT8X2:
    case CU_AD_FORMAT_UNORM_INT16X1:
    case CU_AD_FORMAT_SNORM_INT16X1:
      return {2};
    case CU_AD_FORMAT_UNORM_INT8X4:
    case CU_AD_FORMAT_SNORM_INT8X4:
    case CU_AD_FORMAT_UNORM_INT16X2:
    case CU_AD_FORMAT_SNORM_INT16X2:
    case CU_AD_FORMAT_UNORM_INT_101010_2:
      return {4};
    case CU_AD_FORMAT_BC1_UNORM:
    case CU_AD_FORMAT_BC1_UNORM_SRGB:
    case CU_AD_FORMAT_BC4_UNORM:
    case CU_AD_FORMAT_BC4_SNORM:
      return {8, 4};
    case CU_AD_FORMAT_BC2_UNORM:
    case CU_AD_FORMAT_BC2_UNORM_SRGB:
    case CU_AD_FORMAT_BC3_UNORM:
    case CU_AD_FORMAT_BC3_UNORM_SRGB:
    case CU_AD_FORMAT_BC5_UNORM:
    case CU_AD_FORMAT_BC5_SNORM:
    case CU_AD_FORMAT_BC6H_UF16:
    case CU_AD_FORMAT_BC6H_SF16:
    case CU_AD_FORMAT_BC7_UNORM:
    case CU_AD_FORMAT_BC7_UNORM_SRGB:
      return {16, 4};
    default:
      // Video formats and those to come: none has more than 8 bytes for one pixel.
      return {8};
  }
}

uint64_t round_up(uint64_t value, uint64_t step) { return (value + step - 1) / step * step; }

uint64_t product(uint64_t a, uint64_t b) {
  uint64_t result = 0;
  return __builtin_mul_overflow(a, b, &result) ? UINT64_MAX / 4 : result;
}

// Texels are kept in tiles of 64 bytes by 8 rows, and tiles in stacks of up to 16; only as many as
// the height needs, in powers of two.
uint64_t level_bytes(uint64_t width, uint64_t height, uint64_t layers, const Texel& texel) {
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
  const Texel texel = texel_of(shape.Format, shape.NumChannels);
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
