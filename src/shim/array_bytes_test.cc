#include "shim/array_bytes.h"

#include <gtest/gtest.h>

namespace divvy::shim {
namespace {

constexpr uint64_t kMiB = 1U << 20U;

CUDA_ARRAY3D_DESCRIPTOR shape(size_t width, size_t height, size_t depth, unsigned flags = 0) {
  CUDA_ARRAY3D_DESCRIPTOR made{};
  made.Width = width;
  made.Height = height;
  made.Depth = depth;
  made.Format = CU_AD_FORMAT_FLOAT;
  made.NumChannels = 4;
  made.Flags = flags;
  return made;
}

TEST(ArrayBytes, NeverLessThanTheTexels) {
  for (const size_t width : {1, 3, 64, 1000, 4097}) {
    for (const size_t height : {0, 1, 7, 8, 9, 130, 4096}) {
      for (const size_t depth : {0, 1, 5}) {
        const uint64_t texels = width * (height == 0 ? 1 : height) * (depth == 0 ? 1 : depth);
        EXPECT_GE(array_bytes(shape(width, height, depth)), texels * 16);
      }
    }
  }
}

TEST(ArrayBytes, ALargeOneIsNearItsTexels) {
  EXPECT_EQ(array_bytes(shape(8192, 2048, 0)), 256 * kMiB);
}

TEST(ArrayBytes, LevelsAddUp) {
  EXPECT_GE(mipmap_bytes(shape(1024, 1024, 0), 2), 20 * kMiB);
  EXPECT_LE(mipmap_bytes(shape(1024, 1024, 0), 11), 24 * kMiB);
  // Layers stay in every level, depth does not.
  EXPECT_GT(mipmap_bytes(shape(512, 512, 64, CUDA_ARRAY3D_LAYERED), 3),
            mipmap_bytes(shape(512, 512, 64), 3));
}

TEST(ArrayBytes, ArraysThatTheProgramFillsWithMemoryTakeNone) {
  EXPECT_EQ(array_bytes(shape(8192, 8192, 0, CUDA_ARRAY3D_SPARSE)), 0U);
  EXPECT_EQ(array_bytes(shape(8192, 8192, 0, CUDA_ARRAY3D_DEFERRED_MAPPING)), 0U);
}

TEST(ArrayBytes, ShapesBeyondAllSenseDoNotWrap) {
  EXPECT_GT(array_bytes(shape(SIZE_MAX / 2, SIZE_MAX / 2, 3)), uint64_t{1} << 60U);
}

}  // namespace
}  // namespace divvy::shim
