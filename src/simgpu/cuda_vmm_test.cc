// Virtual memory management. The error codes are those of a real H200 (driver 580).
#include <fcntl.h>
#include <sys/mman.h>

#include "simgpu/cuda_memory_fixture.h"

namespace divvy::simgpu {
namespace {

class CudaVmm : public CudaMemory {
 protected:
  CUmemGenericAllocationHandle create(size_t size) {
    const CUmemAllocationProp prop = device_prop();
    CUmemGenericAllocationHandle handle = 0;
    EXPECT_EQ(cuMemCreate(&handle, size, &prop, 0), CUDA_SUCCESS);
    return handle;
  }
  CUdeviceptr reserve(size_t size) {
    CUdeviceptr address = 0;
    EXPECT_EQ(cuMemAddressReserve(&address, size, 0, 0, 0), CUDA_SUCCESS);
    return address;
  }
  const CUmemAccessDesc access_{{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
};

TEST_F(CudaVmm, CreateChecksAndCharges) {
  CUmemAllocationProp prop = device_prop();
  CUmemGenericAllocationHandle handle = 0;
  size_t unit = 0;
  EXPECT_EQ(cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
            CUDA_SUCCESS);
  EXPECT_EQ(unit, 2 * kMiB);
  EXPECT_EQ(cuMemCreate(&handle, 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, 0, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, 2 * kMiB, &prop, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemCreate(&handle, size_t{1} << 40, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
  prop.location.id = 9;
  EXPECT_EQ(cuMemCreate(&handle, 2 * kMiB, &prop, 0), CUDA_ERROR_INVALID_DEVICE);
  prop = device_prop(CU_MEM_HANDLE_TYPE_FABRIC);
  EXPECT_EQ(cuMemCreate(&handle, 2 * kMiB, &prop, 0), CUDA_ERROR_NOT_PERMITTED);
  EXPECT_EQ(taken(), 0u);
  handle = create(4 * kMiB);
  EXPECT_EQ(taken(), 4u);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CudaVmm, ReservationsAreChecked) {
  CUdeviceptr address = 0;
  EXPECT_EQ(cuMemAddressReserve(&address, kMiB, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, 0, 0, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressReserve(&address, 2 * kMiB, 3, 0, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemAddressReserve(&address, 2 * kMiB, size_t{1} << 30, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(address % (size_t{1} << 30), 0u);
  CUdeviceptr elsewhere = 0;
  ASSERT_EQ(cuMemAddressReserve(&elsewhere, 2 * kMiB, 0, address, 0), CUDA_SUCCESS);
  EXPECT_NE(elsewhere, address);
  EXPECT_EQ(cuMemAddressFree(address, 4 * kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(address, 2 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(address, 2 * kMiB), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemAddressReserve(&elsewhere, 2 * kMiB, 0, address, 0), CUDA_SUCCESS);
  EXPECT_EQ(elsewhere, address);
}

TEST_F(CudaVmm, MappingTwiceShowsTheSameMemory) {
  const CUdeviceptr at = reserve(16 * kMiB);
  const auto handle = create(4 * kMiB);
  ASSERT_EQ(cuMemMap(at, 4 * kMiB, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemMap(at + 4 * kMiB, 4 * kMiB, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemsetD8_v2(at, 1, 16), CUDA_ERROR_INVALID_VALUE) << "nobody has access yet";
  ASSERT_EQ(cuMemSetAccess(at, 8 * kMiB, &access_, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8_v2(at, 7, 16), CUDA_SUCCESS);
  unsigned char read = 0;
  ASSERT_EQ(cuMemcpyDtoH_v2(&read, at + 4 * kMiB, 1), CUDA_SUCCESS);
  EXPECT_EQ(read, 7);
  CUdeviceptr base = 0;
  size_t size = 0;
  EXPECT_EQ(cuMemGetAddressRange_v2(&base, &size, at + 5 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(base, at + 4 * kMiB);
  EXPECT_EQ(size, 4 * kMiB);
  EXPECT_EQ(cuMemGetAddressRange_v2(&base, &size, at + 9 * kMiB), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuMemFree_v2(at), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(at, 16 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAddressFree(at, 16 * kMiB), CUDA_SUCCESS);
}

TEST_F(CudaVmm, MapTakesWholeAllocationsAtFreeAddresses) {
  const CUdeviceptr at = reserve(8 * kMiB);
  const auto handle = create(4 * kMiB);
  EXPECT_EQ(cuMemMap(at, 4 * kMiB, 0, handle, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(at, 2 * kMiB, 0, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemMap(at, 2 * kMiB, 2 * kMiB, handle, 0), CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(cuMemMap(at + kMiB, 4 * kMiB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(0x7000000000, 4 * kMiB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(at + 6 * kMiB, 4 * kMiB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemMap(at, 4 * kMiB, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemMap(at, 4 * kMiB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemMap(at + 2 * kMiB, 4 * kMiB, 0, handle, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAddressFree(at, 8 * kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(at, 2 * kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(at + 4 * kMiB, 2 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(cuMemUnmap(at, 4 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(CudaVmm, AccessIsSetOnWholeMappings) {
  const CUdeviceptr at = reserve(8 * kMiB);
  const auto handle = create(4 * kMiB);
  const CUmemLocation gpu{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  unsigned long long flags = 9;
  EXPECT_EQ(cuMemSetAccess(at, 4 * kMiB, &access_, 1), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemMap(at, 4 * kMiB, 0, handle, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetAccess(&flags, &gpu, at), CUDA_SUCCESS);
  EXPECT_EQ(flags, 0u);
  EXPECT_EQ(cuMemSetAccess(at, 2 * kMiB, &access_, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemSetAccess(at, 8 * kMiB, &access_, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemSetAccess(at, 4 * kMiB, &access_, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemSetAccess(at, 4 * kMiB, &access_, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetAccess(&flags, &gpu, at + 100), CUDA_SUCCESS);
  EXPECT_EQ(flags, 3u);
  EXPECT_EQ(cuMemGetAccess(&flags, &gpu, at + 4 * kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemUnmap(at, 4 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
}

TEST_F(CudaVmm, MemoryLivesUntilReleasedAndUnmapped) {
  const CUdeviceptr at = reserve(4 * kMiB);
  const auto handle = create(4 * kMiB);
  ASSERT_EQ(cuMemMap(at, 4 * kMiB, 0, handle, 0), CUDA_SUCCESS);
  CUmemGenericAllocationHandle again = 0;
  EXPECT_EQ(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(at + 100)), CUDA_SUCCESS);
  EXPECT_EQ(again, handle);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 4u);
  EXPECT_EQ(cuMemUnmap(at, 4 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(cuMemAddressFree(at, 4 * kMiB), CUDA_SUCCESS);
}

TEST_F(CudaVmm, AnImportOfOnesOwnExportIsTheSameMemory) {
  const CUmemAllocationProp prop = device_prop(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  CUmemGenericAllocationHandle handle = 0;
  CUmemGenericAllocationHandle other = 0;
  int fd = -1;
  ASSERT_EQ(cuMemCreate(&handle, 4 * kMiB, &prop, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_SUCCESS);
  ASSERT_EQ(cuMemImportFromShareableHandle(&other, reinterpret_cast<void*>(intptr_t{fd}),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_SUCCESS);
  EXPECT_EQ(taken(), 4u);
  EXPECT_EQ(cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 4u);
  EXPECT_EQ(cuMemRelease(other), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  close(fd);
  EXPECT_EQ(cuMemImportFromShareableHandle(&other, reinterpret_cast<void*>(intptr_t{999}),
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
            CUDA_ERROR_UNKNOWN);
  const auto plain = create(2 * kMiB);
  EXPECT_EQ(cuMemExportToShareableHandle(&fd, plain, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemRelease(plain), CUDA_SUCCESS);
}

}  // namespace
}  // namespace divvy::simgpu
