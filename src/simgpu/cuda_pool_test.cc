// Stream-ordered memory and pools, and memory nodes as far as the memory side goes. The numbers are
// those of a real H200 (driver 580).
#include "simgpu/cuda_memory_fixture.h"

namespace divvy::simgpu {
namespace {

class CudaPool : public CudaMemory {
 protected:
  CudaPool() {
    EXPECT_EQ(cuDeviceGetDefaultMemPool(&pool_, 0), CUDA_SUCCESS);
    EXPECT_EQ(cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
    set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, 0);
  }
  uint64_t get(CUmemPool_attribute attribute) const {
    uint64_t value = 0;
    EXPECT_EQ(cuMemPoolGetAttribute(pool_, attribute, &value), CUDA_SUCCESS);
    return value;
  }
  void set(CUmemPool_attribute attribute, uint64_t value) {
    EXPECT_EQ(cuMemPoolSetAttribute(pool_, attribute, &value), CUDA_SUCCESS);
  }
  uint64_t reserved() const { return get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) / kMiB; }
  CUdeviceptr allocate(size_t bytes) {
    CUdeviceptr p = 0;
    EXPECT_EQ(cuMemAllocAsync(&p, bytes, stream_), CUDA_SUCCESS);
    return p;
  }
  void free(CUdeviceptr p) { EXPECT_EQ(cuMemFreeAsync(p, stream_), CUDA_SUCCESS); }
  // Holds everything behind it in the stream back until open() is called.
  void close_gate() {
    EXPECT_EQ(cuMemAllocHost_v2(reinterpret_cast<void**>(&gate_), 4), CUDA_SUCCESS);
    *gate_ = 0;
    EXPECT_EQ(cuStreamWaitValue32_v2(stream_, reinterpret_cast<CUdeviceptr>(gate_), 1,
                                     CU_STREAM_WAIT_VALUE_GEQ),
              CUDA_SUCCESS);
  }
  void open_gate() { __atomic_store_n(gate_, 1, __ATOMIC_RELEASE); }

  CUmemoryPool pool_ = nullptr;
  CUstream stream_ = nullptr;
  uint32_t* gate_ = nullptr;
};

TEST_F(CudaPool, GrowsInChunksAndShrinksAfterAWait) {
  const CUdeviceptr a = allocate(1);
  EXPECT_EQ(taken(), 32u);
  const CUdeviceptr b = allocate(1000);
  EXPECT_EQ(b - a, 512u);
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 1001u);
  const CUdeviceptr c = allocate(3 * kMiB);
  EXPECT_EQ(reserved(), 32u);
  const CUdeviceptr d = allocate(100 * kMiB);
  EXPECT_EQ(reserved(), 128u);
  free(d);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(reserved(), 32u);
  EXPECT_EQ(taken(), 32u);
  for (const CUdeviceptr p : {a, b, c}) free(p);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CudaPool, KeepsMemoryUpToTheThreshold) {
  set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
  free(allocate(64 * kMiB));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(reserved(), 64u);
  const CUdeviceptr again = allocate(40 * kMiB);
  EXPECT_EQ(reserved(), 64u);
  free(again);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPoolTrimTo(pool_, 10 * kMiB), CUDA_SUCCESS);
  EXPECT_EQ(reserved(), 32u);
  EXPECT_EQ(cuMemPoolTrimTo(pool_, 0), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CudaPool, TheSameStreamUsesFreedMemoryAgainAtOnce) {
  close_gate();
  const CUdeviceptr a = allocate(40 * kMiB);
  free(a);
  const CUdeviceptr b = allocate(10 * kMiB);
  EXPECT_EQ(a, b);
  const CUdeviceptr c = allocate(30 * kMiB);
  EXPECT_EQ(c, a + 10 * kMiB);
  EXPECT_EQ(reserved(), 64u);
  open_gate();
  free(b);
  free(c);
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CudaPool, AnotherStreamDoesNotUseMemoryThatIsNotYetFree) {
  close_gate();
  const CUdeviceptr a = allocate(40 * kMiB);
  free(a);
  CUstream other = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  CUdeviceptr b = 0;
  ASSERT_EQ(cuMemAllocAsync(&b, 40 * kMiB, other), CUDA_SUCCESS);
  EXPECT_NE(a, b);
  open_gate();
  EXPECT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(b, other), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CudaPool, AFullGpuLendsWhatAnotherStreamIsAboutToFree) {
  const size_t most = free_bytes() / kMiB / 64 * 64 * kMiB - 64 * kMiB;
  close_gate();
  const CUdeviceptr a = allocate(most);
  free(a);
  CUstream other = nullptr;
  ASSERT_EQ(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  CUdeviceptr b = 0;
  ASSERT_EQ(cuMemAllocAsync(&b, most, other), CUDA_SUCCESS);
  EXPECT_EQ(a, b);
  // It waits for the stream that has not freed it yet.
  EXPECT_EQ(cuStreamQuery(other), CUDA_ERROR_NOT_READY);
  open_gate();
  EXPECT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(b, other), CUDA_SUCCESS);
  EXPECT_EQ(cuStreamSynchronize(other), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CudaPool, IdlePoolMemoryMakesRoomForOthers) {
  set(CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, UINT64_MAX);
  const size_t most = free_bytes() / kMiB / 64 * 64 * kMiB - 64 * kMiB;
  free(allocate(most));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  CUdeviceptr p = 0;
  EXPECT_EQ(cuMemAlloc_v2(&p, most), CUDA_SUCCESS);
  EXPECT_EQ(reserved(), 0u);
  EXPECT_EQ(cuMemFree_v2(p), CUDA_SUCCESS);
}

TEST_F(CudaPool, RefusesWhatTheDriverRefuses) {
  CUdeviceptr p = 7;
  EXPECT_EQ(cuMemAllocAsync(&p, 0, stream_), CUDA_SUCCESS);
  EXPECT_EQ(p, 0u);
  EXPECT_EQ(cuMemAllocAsync(&p, size_t{1} << 40, stream_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(cuMemAllocFromPoolAsync(&p, 100, nullptr, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFreeAsync(0, stream_), CUDA_SUCCESS);
  EXPECT_EQ(cuMemFreeAsync(0x1234, stream_), CUDA_ERROR_INVALID_VALUE);
  p = allocate(2048);
  EXPECT_EQ(cuMemFreeAsync(p + 512, stream_), CUDA_ERROR_INVALID_VALUE);
  free(p);
  EXPECT_EQ(cuMemFreeAsync(p, stream_), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPoolDestroy(pool_), CUDA_ERROR_INVALID_VALUE);
  uint64_t value = 5;
  EXPECT_EQ(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, &value),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPoolSetAttribute(pool_, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT, &value),
            CUDA_ERROR_INVALID_VALUE);
  set(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH, 0);
  EXPECT_EQ(get(CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH), get(CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
}

TEST_F(CudaPool, EitherFreeTakesEitherMemory) {
  CUdeviceptr plain = 0;
  ASSERT_EQ(cuMemAlloc_v2(&plain, 4 * kMiB), CUDA_SUCCESS);
  const CUdeviceptr pooled = allocate(100);
  free(plain);
  EXPECT_EQ(cuMemFree_v2(plain), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemFree_v2(pooled), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CudaPool, ADestroyedPoolLivesAsLongAsItsMemory) {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemoryPool pool = nullptr;
  ASSERT_EQ(cuMemPoolCreate(&pool, &props), CUDA_SUCCESS);
  ASSERT_EQ(cuDeviceSetMemPool(0, pool), CUDA_SUCCESS);
  const CUdeviceptr p = allocate(100);
  CUmemoryPool owner = nullptr;
  EXPECT_EQ(cuPointerGetAttribute(&owner, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p), CUDA_SUCCESS);
  EXPECT_EQ(owner, pool);
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_ERROR_INVALID_VALUE);
  CUmemoryPool current = nullptr;
  EXPECT_EQ(cuDeviceGetMemPool(&current, 0), CUDA_SUCCESS);
  EXPECT_EQ(current, pool_);
  EXPECT_EQ(taken(), 32u);
  free(p);
  EXPECT_EQ(cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
}

TEST_F(CudaPool, PropertiesAreChecked) {
  CUmemPoolProps props{};
  CUmemoryPool pool = nullptr;
  EXPECT_EQ(cuMemPoolCreate(&pool, &props), CUDA_ERROR_INVALID_VALUE);
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 9};
  EXPECT_EQ(cuMemPoolCreate(&pool, &props), CUDA_ERROR_INVALID_VALUE);
  props.location.id = 0;
  props.maxSize = 4 * kMiB;
  ASSERT_EQ(cuMemPoolCreate(&pool, &props), CUDA_SUCCESS);
  CUdeviceptr p = 0;
  EXPECT_EQ(cuMemAllocFromPoolAsync(&p, 64 * kMiB, pool, stream_), CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_EQ(cuMemAllocFromPoolAsync(&p, 2 * kMiB, pool, stream_), CUDA_SUCCESS);
  free(p);
  int fd = -1;
  EXPECT_EQ(
      cuMemPoolExportToShareableHandle(&fd, pool, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
      CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuMemPoolDestroy(pool), CUDA_SUCCESS);
}

TEST_F(CudaPool, AccessIsReadAndWriteOrNone) {
  CUmemLocation own{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemLocation peer{CU_MEM_LOCATION_TYPE_DEVICE, 1};
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  EXPECT_EQ(cuMemPoolGetAccess(&flags, pool_, &own), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  CUmemAccessDesc access{own, CU_MEM_ACCESS_FLAGS_PROT_NONE};
  EXPECT_EQ(cuMemPoolSetAccess(pool_, &access, 1), CUDA_ERROR_INVALID_DEVICE);
  access = {peer, CU_MEM_ACCESS_FLAGS_PROT_READ};
  EXPECT_EQ(cuMemPoolSetAccess(pool_, &access, 1), CUDA_ERROR_NOT_SUPPORTED);
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  EXPECT_EQ(cuMemPoolSetAccess(pool_, &access, 1), CUDA_SUCCESS);
  EXPECT_EQ(cuMemPoolGetAccess(&flags, pool_, &peer), CUDA_SUCCESS);
  EXPECT_EQ(flags, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

TEST_F(CudaPool, GraphMemoryIsKeptUntilTrimmed) {
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  CUdeviceptr p = 0;
  ASSERT_EQ(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  EXPECT_EQ(cuMemAlloc_v2(&p, 16), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  EXPECT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ASSERT_EQ(cuStreamBeginCapture_v2(stream_, CU_STREAM_CAPTURE_MODE_GLOBAL), CUDA_SUCCESS);
  ASSERT_EQ(cuMemAllocAsync(&p, 5 * kMiB, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemsetD8Async(p, 1, 5 * kMiB, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuMemFreeAsync(p, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamEndCapture(stream_, &graph), CUDA_SUCCESS);
  ASSERT_EQ(cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  ASSERT_EQ(cuGraphLaunch(exec, stream_), CUDA_SUCCESS);
  ASSERT_EQ(cuStreamSynchronize(stream_), CUDA_SUCCESS);
  uint64_t kept = 0;
  EXPECT_EQ(cuDeviceGetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT, &kept),
            CUDA_SUCCESS);
  EXPECT_EQ(kept, 32 * kMiB);
  EXPECT_EQ(taken(), 32u);
  EXPECT_EQ(cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
  EXPECT_EQ(taken(), 0u);
  EXPECT_EQ(cuDeviceGraphMemTrim(9), CUDA_ERROR_INVALID_DEVICE);
  kept = 1;
  EXPECT_EQ(cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &kept),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuGraphExecDestroy(exec), CUDA_SUCCESS);
  EXPECT_EQ(cuGraphDestroy(graph), CUDA_SUCCESS);
}

}  // namespace
}  // namespace divvy::simgpu
