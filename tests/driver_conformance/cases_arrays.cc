// Arrays and mipmapped arrays.

#include <array>
#include <vector>

#include "gpu.h"

namespace divvy::conformance {

CASE(arrays, keep_their_shape_and_contents) {
  if (!start_gpu(t)) return;
  CUDA_ARRAY_DESCRIPTOR shape{};
  shape.Width = 64;
  shape.Height = 0;
  shape.Format = CU_AD_FORMAT_UNSIGNED_INT32;
  shape.NumChannels = 1;
  CUarray array = nullptr;
  OK(cu.cuArrayCreate_v2(&array, &shape));
  CUDA_ARRAY_DESCRIPTOR seen{};
  OK(cu.cuArrayGetDescriptor_v2(&seen, array));
  EQUAL(uint64_t{64}, uint64_t{seen.Width});
  EQUAL(uint64_t{0}, uint64_t{seen.Height});
  EQUAL(uint64_t{CU_AD_FORMAT_UNSIGNED_INT32}, uint64_t{seen.Format});
  std::array<unsigned, 64> from{};
  std::array<unsigned, 64> back{};
  for (unsigned i = 0; i < 64; ++i) from[i] = i * i;
  OK(cu.cuMemcpyHtoA_v2(array, 0, from.data(), 256));
  OK(cu.cuMemcpyAtoH_v2(back.data(), array, 0, 256));
  TRUE_(from == back);
  CUdeviceptr memory = 0;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuMemcpyAtoD_v2(memory, array, 8, 128));
  EQUAL(uint64_t{4}, uint64_t{word_at(memory)});
  OK(cu.cuArrayDestroy(array));
}

CASE(arrays, of_two_dimensions_take_2d_copies) {
  if (!start_gpu(t)) return;
  CUDA_ARRAY_DESCRIPTOR shape{};
  shape.Width = 8;
  shape.Height = 4;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 4;
  CUarray array = nullptr;
  OK(cu.cuArrayCreate_v2(&array, &shape));
  std::vector<unsigned char> from(8 * 16 * 4);
  std::vector<unsigned char> back(from.size());
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<unsigned char>(i * 3);
  CUDA_MEMCPY2D copy{};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = from.data();
  copy.srcPitch = 8 * 16;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = array;
  copy.WidthInBytes = 8 * 16;
  copy.Height = 4;
  OK(cu.cuMemcpy2D_v2(&copy));
  copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = array;
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = back.data();
  copy.dstPitch = 8 * 16;
  copy.WidthInBytes = 8 * 16;
  copy.Height = 4;
  OK(cu.cuMemcpy2D_v2(&copy));
  TRUE_(from == back);
}

CASE(arrays, of_three_dimensions_keep_their_shape) {
  if (!start_gpu(t)) return;
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = 16;
  shape.Height = 8;
  shape.Depth = 4;
  shape.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  shape.NumChannels = 2;
  CUarray array = nullptr;
  OK(cu.cuArray3DCreate_v2(&array, &shape));
  CUDA_ARRAY3D_DESCRIPTOR seen{};
  OK(cu.cuArray3DGetDescriptor_v2(&seen, array));
  EQUAL(uint64_t{4}, uint64_t{seen.Depth});
  EQUAL(uint64_t{2}, uint64_t{seen.NumChannels});
  OK(cu.cuArrayDestroy(array));
}

CASE(arrays, take_device_memory) {
  if (!start_gpu(t)) return;
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = 8192;
  shape.Height = 512;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 4;
  CUarray array = nullptr;
  const uint64_t before = free_bytes();
  OK(cu.cuArray3DCreate_v2(&array, &shape));
  const uint64_t taken = before - free_bytes();
  TRUE_(taken >= 64 * kMiB);
  t.recorded("cost_of_64_mib", taken);
  OK(cu.cuArrayDestroy(array));
  EQUAL(before, free_bytes());
}

CASE(arrays, wrong_shapes_are_refused) {
  if (!start_gpu(t)) return;
  CUarray array = nullptr;
  CUDA_ARRAY_DESCRIPTOR shape{};
  shape.Width = 64;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 3;
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuArrayCreate_v2(&array, &shape));
  shape.NumChannels = 1;
  shape.Width = 0;
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuArrayCreate_v2(&array, &shape));
  shape.Width = 64;
  shape.Format = static_cast<CUarray_format>(0x77);
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuArrayCreate_v2(&array, &shape));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuArrayCreate_v2(&array, nullptr));
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.Width = 1U << 30U;
  t.recorded("too_wide", cu.cuArrayCreate_v2(&array, &shape));
}

CASE(arrays, mipmaps_have_levels) {
  if (!start_gpu(t)) return;
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = 256;
  shape.Height = 256;
  shape.Format = CU_AD_FORMAT_UNSIGNED_INT8;
  shape.NumChannels = 4;
  CUmipmappedArray mipmap = nullptr;
  CUarray level = nullptr;
  OK(cu.cuMipmappedArrayCreate(&mipmap, &shape, 3));
  OK(cu.cuMipmappedArrayGetLevel(&level, mipmap, 1));
  CUDA_ARRAY_DESCRIPTOR seen{};
  OK(cu.cuArrayGetDescriptor_v2(&seen, level));
  EQUAL(uint64_t{128}, uint64_t{seen.Width});
  EQUAL(uint64_t{128}, uint64_t{seen.Height});
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMipmappedArrayGetLevel(&level, mipmap, 3));
  OK(cu.cuMipmappedArrayDestroy(mipmap));
}

CASE(arrays, mipmaps_take_device_memory) {
  if (!start_gpu(t)) return;
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = 4096;
  shape.Height = 1024;
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 4;
  CUmipmappedArray mipmap = nullptr;
  const uint64_t before = free_bytes();
  OK(cu.cuMipmappedArrayCreate(&mipmap, &shape, 2));
  const uint64_t taken = before - free_bytes();
  TRUE_(taken >= 80 * kMiB);
  t.recorded("cost_of_80_mib", taken);
  OK(cu.cuMipmappedArrayDestroy(mipmap));
  EQUAL(before, free_bytes());
}

}  // namespace divvy::conformance
