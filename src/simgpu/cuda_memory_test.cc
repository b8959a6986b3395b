// Plain, pitched, managed and host memory, pointer attributes, arrays and peers. The numbers and
// the error codes are those of a real H200 (driver 580).
#include <sys/mman.h>

#include <thread>
#include <vector>

#include "simgpu/cuda_memory_fixture.h"

namespace divvy::simgpu {
namespace {

TEST_F(CudaMemory, AllocationsAreChargedAsOnHardware) {
  CUdeviceptr small = 0;
  CUdeviceptr large = 0;
  ASSERT_EQ(cuMemAlloc_v2(&small, 1), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 2u);
  ASSERT_EQ(cuMemAlloc_v2(&large, 2 * kMiB + 1), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 6u);
  EXPECT_EQ(cuMemFree_v2(small), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(large), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CudaMemory, PlainMemoryRefusesWhatTheDriverRefuses) {
  CUdeviceptr p = 0;
  size_t total = 0;
  EXPECT_EQ(cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAlloc_v2(nullptr, 16), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(0x1234000), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemGetInfo_v2(nullptr, &total), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetInfo_v2(nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc_v2(&p, total), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAlloc_v2(&p, ~size_t{0}), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(taken(), 0u);
  ASSERT_EQ(cuMemAlloc_v2(&p, 1000), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(p + 256), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(p), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaMemory, TheWholeGpuCanBeTakenAndNoMore) {
  std::vector<CUdeviceptr> all;
  CUdeviceptr p = 0;
  for (size_t step : {size_t{1} << 30, 64 * kMiB, 2 * kMiB}) {
    while (cuMemAlloc_v2(&p, step) == CUDA_SUCCESS) all.push_back(p);
  }
  EXPECT_LT(free_bytes(), 2 * kMiB);
  EXPECT_EQ(cuMemAlloc_v2(&p, 1), CUDA_ERROR_OUT_OF_MEMORY);
  for (const CUdeviceptr one : all) EXPECT_EQ(cuMemFree_v2(one), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CudaMemory, PitchIsAMultipleOf512) {
  CUdeviceptr p = 0;
  size_t pitch = 0;
  size_t size = 0;
  ASSERT_EQ(cuMemAllocPitch_v2(&p, &pitch, 513, 10, 16), CUDA_SUCCESS);
  EXPECT_EQ(pitch, 1024u);
  EXPECT_EQ(cuMemGetAddressRange_v2(nullptr, &size, p + 5), CUDA_SUCCESS);
  EXPECT_EQ(size, 10240u);
  EXPECT_EQ(cuMemAllocPitch_v2(&p, &pitch, 100, 10, 3), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAllocPitch_v2(&p, &pitch, 100, 10, 32), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAllocPitch_v2(&p, &pitch, 100, 0, 4), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaMemory, AddressRangeTellsWhatWasAskedFor) {
  CUdeviceptr p = 0;
  CUdeviceptr base = 0;
  size_t size = 0;
  ASSERT_EQ(cuMemAlloc_v2(&p, 1000), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetAddressRange_v2(&base, &size, p + 10), CUDA_SUCCESS);
  EXPECT_EQ(base, p);
  EXPECT_EQ(size, 1000u);
  EXPECT_EQ(cuMemGetAddressRange_v2(nullptr, nullptr, p), CUDA_SUCCESS);
  EXPECT_EQ(cuMemGetAddressRange_v2(&base, &size, p + 1000), CUDA_ERROR_NOT_FOUND);
  EXPECT_EQ(cuMemGetAddressRange_v2(&base, &size, 0x4242), CUDA_ERROR_NOT_FOUND);
}

TEST_F(CudaMemory, AContextTakesItsMemoryWithIt) {
  CUcontext other = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&other, 0, 0), CUDA_SUCCESS);
  CUdeviceptr plain = 0;
  CUdeviceptr pooled = 0;
  void* pinned = nullptr;
  CUarray array = nullptr;
  const CUDA_ARRAY_DESCRIPTOR descriptor{1024, 1024, CU_AD_FORMAT_FLOAT, 4};
  ASSERT_EQ(cuMemAlloc_v2(&plain, 100 * kMiB), CUDA_SUCCESS);
  ASSERT_EQ(cuMemHostAlloc(&pinned, 100, 0), CUDA_SUCCESS);
  ASSERT_EQ(cuArrayCreate_v2(&array, &descriptor), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&pooled, 100, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxDestroy_v2(other), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  unsigned type = 0;
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, plain),
            CUDA_ERROR_INVALID_VALUE);
  // Pools belong to the process.
  EXPECT_EQ(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pooled), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 32u);
  EXPECT_EQ(cuMemFreeAsync(pooled, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CudaMemory, ThreadsAllocateAndFreeAtOnce) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      cuCtxSetCurrent(context_);
      for (int i = 0; i < 200; ++i) {
        CUdeviceptr p = 0;
        EXPECT_EQ(cuMemAlloc_v2(&p, static_cast<size_t>(1 + i * (t + 1) * 3000)), CUDA_SUCCESS);
        EXPECT_EQ(cuMemFree_v2(p), CUDA_SUCCESS);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CudaMemory, PointerAttributesOfEachKind) {
  CUdeviceptr p = 0;
  CUdeviceptr managed = 0;
  void* host = nullptr;
  ASSERT_EQ(cuMemAlloc_v2(&p, 1000), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cuMemHostAlloc(&host, 100, 0), CUDA_SUCCESS);
  const auto number = [](CUpointer_attribute attribute, CUdeviceptr address) {
    uint64_t value = 0;
    EXPECT_EQ(cuPointerGetAttribute(&value, attribute, address), CUDA_SUCCESS);
    return value;
  };
  const auto pinned = reinterpret_cast<CUdeviceptr>(host);
  EXPECT_EQ(number(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p), CU_MEMORYTYPE_DEVICE);
  EXPECT_EQ(number(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, pinned), CU_MEMORYTYPE_HOST);
  EXPECT_EQ(number(CU_POINTER_ATTRIBUTE_IS_MANAGED, managed), 1u);
  EXPECT_EQ(number(CU_POINTER_ATTRIBUTE_HOST_POINTER, managed), managed);
  EXPECT_EQ(number(CU_POINTER_ATTRIBUTE_CONTEXT, p), reinterpret_cast<uint64_t>(context_));
  EXPECT_EQ(number(CU_POINTER_ATTRIBUTE_RANGE_SIZE, p + 10), 1000u);
  EXPECT_EQ(number(CU_POINTER_ATTRIBUTE_MAPPING_SIZE, p), 2 * kMiB);
  uint64_t value = 7;
  EXPECT_EQ(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_HOST_POINTER, p),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuPointerGetAttribute(&value, static_cast<CUpointer_attribute>(99), p),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaMemory, UnknownPointersReadAsNothing) {
  int local = 0;
  uint64_t value = 7;
  const auto address = reinterpret_cast<CUdeviceptr>(&local);
  EXPECT_EQ(cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(value, 7u);
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  unsigned type = 9;
  int ordinal = 9;
  void* data[] = {&type, &ordinal};
  EXPECT_EQ(cuPointerGetAttributes(2, attributes, data, address), CUDA_SUCCESS);
  EXPECT_EQ(type, 0u);
  EXPECT_EQ(ordinal, CU_DEVICE_INVALID);
  EXPECT_EQ(cuPointerGetAttributes(0, attributes, data, address), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaMemory, PinnedMemoryIsReachedAtItsOwnAddress) {
  void* host = nullptr;
  unsigned flags = 0;
  CUdeviceptr device = 0;
  EXPECT_EQ(cuMemHostAlloc(&host, 16, 0x100), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostAlloc(&host, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cuMemHostAlloc(&host, 100, CU_MEMHOSTALLOC_PORTABLE), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostGetFlags(&flags, host), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&device, host, 0), CUDA_SUCCESS);
  EXPECT_EQ(device, reinterpret_cast<CUdeviceptr>(host));
  EXPECT_EQ(cuMemHostGetDevicePointer_v2(&device, host, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(device), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostUnregister(host), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister_v2(host, 64, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaMemory, RegistrationChecksThePages) {
  constexpr size_t kPage = 4096;
  auto* pages = static_cast<char*>(
      mmap(nullptr, 8 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  EXPECT_EQ(cuMemHostRegister_v2(pages, 0, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister_v2(nullptr, 64, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister_v2(pages, 64, 0x100), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister_v2(pages, 2 * kPage, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostRegister_v2(pages, 2 * kPage, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cuMemHostRegister_v2(pages + kPage, 2 * kPage, 0),
            CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  EXPECT_EQ(cuMemHostRegister_v2(pages + 2 * kPage, kPage, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostUnregister(pages + 64), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostUnregister(pages + 5 * kPage), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  EXPECT_EQ(cuMemFreeHost(pages), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostUnregister(pages), CUDA_SUCCESS);
  EXPECT_EQ(cuMemHostUnregister(pages), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);

  ASSERT_EQ(mprotect(pages + 4 * kPage, kPage, PROT_READ), 0);
  EXPECT_EQ(cuMemHostRegister_v2(pages + 4 * kPage, kPage, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemHostRegister_v2(pages + 4 * kPage, kPage, CU_MEMHOSTREGISTER_READ_ONLY),
            CUDA_SUCCESS);
  ASSERT_EQ(mprotect(pages + 6 * kPage, kPage, PROT_NONE), 0);
  EXPECT_EQ(cuMemHostRegister_v2(pages + 6 * kPage, kPage, 0), CUDA_ERROR_INVALID_VALUE);
  munmap(pages + 7 * kPage, kPage);
  EXPECT_EQ(cuMemHostRegister_v2(pages + 7 * kPage, 64, 0), CUDA_ERROR_INVALID_VALUE);
  munmap(pages, 7 * kPage);
}

TEST_F(CudaMemory, ManagedMemoryIsChargedWhereItIsPrefetched) {
  const CUmemLocation gpu{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
  CUdeviceptr m = 0;
  EXPECT_EQ(cuMemAllocManaged(&m, 100, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemAllocManaged(&m, 100, CU_MEM_ATTACH_SINGLE), CUDA_ERROR_INVALID_VALUE);
  ASSERT_EQ(cuMemAllocManaged(&m, 8 * kMiB, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(cuMemPrefetchAsync_v2(m, 4 * kMiB, gpu, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 4u);
  int where = 7;
  EXPECT_EQ(cuMemRangeGetAttribute(&where, sizeof(where),
                                   CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, m, 4 * kMiB),
            CUDA_SUCCESS);
  EXPECT_EQ(where, 0);
  EXPECT_EQ(cuMemRangeGetAttribute(&where, sizeof(where),
                                   CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, m, 8 * kMiB),
            CUDA_SUCCESS);
  EXPECT_EQ(where, CU_DEVICE_INVALID);
  EXPECT_EQ(cuMemPrefetchAsync_v2(m, 8 * kMiB, gpu, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 8u);
  EXPECT_EQ(cuMemPrefetchAsync_v2(m, 8 * kMiB, host, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(cuMemPrefetchAsync_v2(m, 9 * kMiB, gpu, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPrefetchAsync_v2(m, 1, {CU_MEM_LOCATION_TYPE_DEVICE, 9}, 0, nullptr),
            CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuMemPrefetchAsync(m, 8 * kMiB, 0, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFree_v2(m), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CudaMemory, AdviceIsRemembered) {
  const CUmemLocation gpu{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUdeviceptr m = 0;
  ASSERT_EQ(cuMemAllocManaged(&m, 64 << 10, CU_MEM_ATTACH_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAdvise_v2(m, 64 << 10, CU_MEM_ADVISE_SET_READ_MOSTLY, gpu), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAdvise_v2(m, 64 << 10, CU_MEM_ADVISE_SET_ACCESSED_BY, gpu), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAdvise(m, 64 << 10, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, CU_DEVICE_CPU),
            CUDA_SUCCESS);
  EXPECT_EQ(cuMemAdvise_v2(m, 1, static_cast<CUmem_advise>(99), gpu), CUDA_ERROR_INVALID_VALUE);
  int read_mostly = 0;
  int preferred = 9;
  int accessed[2] = {9, 9};
  void* data[] = {&read_mostly, &preferred, accessed};
  size_t sizes[] = {4, 4, 8};
  CUmem_range_attribute attributes[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                        CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
                                        CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY};
  EXPECT_EQ(cuMemRangeGetAttributes(data, sizes, attributes, 3, m, 64 << 10), CUDA_SUCCESS);
  EXPECT_EQ(read_mostly, 1);
  EXPECT_EQ(preferred, CU_DEVICE_CPU);
  EXPECT_EQ(accessed[0], 0);
  EXPECT_EQ(accessed[1], CU_DEVICE_INVALID);
  EXPECT_EQ(cuMemRangeGetAttribute(&preferred, 3, attributes[0], m, 4096),
            CUDA_ERROR_INVALID_VALUE);
}

TEST_F(CudaMemory, ArraysAreCheckedAndCharged) {
  CUarray array = nullptr;
  const auto create = [&](size_t w, size_t h, size_t d, unsigned channels, unsigned flags) {
    const CUDA_ARRAY3D_DESCRIPTOR shape{w, h, d, CU_AD_FORMAT_FLOAT, channels, flags};
    return cuArray3DCreate_v2(&array, &shape);
  };
  EXPECT_EQ(create(0, 1, 0, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(16, 1, 0, 3, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(64, 0, 16, 1, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(64, 64, 5, 1, CUDA_ARRAY3D_CUBEMAP), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(create(16384, 16384, 4096, 1, 0), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuArrayDestroy(nullptr), CUDA_ERROR_INVALID_HANDLE);
  ASSERT_EQ(create(128, 128, 128, 1, 0), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 8u);
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  EXPECT_EQ(cuArray3DGetDescriptor_v2(&shape, array), CUDA_SUCCESS);
  EXPECT_EQ(shape.Depth, 128u);
  CUDA_ARRAY_MEMORY_REQUIREMENTS requirements{};
  EXPECT_EQ(cuArrayGetMemoryRequirements(&requirements, array, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuArrayDestroy(array), CUDA_SUCCESS);
  EXPECT_EQ(cuArrayDestroy(array), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CudaMemory, ArraysKeepWhatIsCopiedIn) {
  CUarray array = nullptr;
  const CUDA_ARRAY_DESCRIPTOR shape{16, 4, CU_AD_FORMAT_UNSIGNED_INT32, 1};
  ASSERT_EQ(cuArrayCreate_v2(&array, &shape), CUDA_SUCCESS);
  std::vector<uint32_t> in(16);
  for (uint32_t i = 0; i < 16; ++i) in[i] = i * i;
  std::vector<uint32_t> out(16);
  ASSERT_EQ(cuMemcpyHtoA_v2(array, 0, in.data(), 64), CUDA_SUCCESS);
  ASSERT_EQ(cuMemcpyAtoH_v2(out.data(), array, 0, 64), CUDA_SUCCESS);
  EXPECT_EQ(in, out);
}

TEST_F(CudaMemory, MipmapsEndAtOneTexel) {
  CUmipmappedArray mipmap = nullptr;
  CUarray level = nullptr;
  const CUDA_ARRAY3D_DESCRIPTOR shape{256, 256, 0, CU_AD_FORMAT_FLOAT, 1, 0};
  ASSERT_EQ(cuMipmappedArrayCreate(&mipmap, &shape, 99), CUDA_SUCCESS);
  CUDA_ARRAY_DESCRIPTOR last{};
  ASSERT_EQ(cuMipmappedArrayGetLevel(&level, mipmap, 8), CUDA_SUCCESS);
  EXPECT_EQ(cuArrayGetDescriptor_v2(&last, level), CUDA_SUCCESS);
  EXPECT_EQ(last.Width, 1u);
  EXPECT_EQ(cuMipmappedArrayGetLevel(&level, mipmap, 9), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMipmappedArrayDestroy(mipmap), CUDA_SUCCESS);
  EXPECT_EQ(cuMipmappedArrayDestroy(mipmap), CUDA_ERROR_INVALID_HANDLE);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CudaMemory, PeersAreEnabledOnce) {
  int can = 9;
  EXPECT_EQ(cuDeviceCanAccessPeer(&can, 0, 0), CUDA_SUCCESS);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cuDeviceCanAccessPeer(&can, 0, 9), CUDA_ERROR_INVALID_DEVICE);
  EXPECT_EQ(cuDeviceCanAccessPeer(&can, 0, 1), CUDA_SUCCESS);
  ASSERT_EQ(can, 1);
  CUcontext peer = nullptr;
  ASSERT_EQ(cuCtxCreate_v2(&peer, 0, 1), CUDA_SUCCESS);
  ASSERT_EQ(cuCtxSetCurrent(context_), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxEnablePeerAccess(context_, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
  EXPECT_EQ(cuCtxEnablePeerAccess(nullptr, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxEnablePeerAccess(peer, 1), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuCtxDisablePeerAccess(peer), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  EXPECT_EQ(cuCtxEnablePeerAccess(peer, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxEnablePeerAccess(peer, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  EXPECT_EQ(cuCtxDisablePeerAccess(peer), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxDestroy_v2(peer), CUDA_SUCCESS);
  EXPECT_EQ(cuDeviceGetP2PAttribute(&can, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0),
            CUDA_ERROR_INVALID_DEVICE);
  cuCtxSetCurrent(context_);
}

}  // namespace
}  // namespace divvy::simgpu
