// Memory of a tenant, family by family: counted, refused beyond the slice, and given back.
#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "shim/tenant_fixture.h"

namespace divvy::shim {
namespace {

constexpr uint64_t kLimit = 8 * kGiB;
constexpr uint64_t kChunk = 256 * kMiB;
// What a family may leave unused at the end or keep for itself: pools and graphs grow in steps.
constexpr uint64_t kSlack = kChunk + 64 * kMiB;

// Takes chunks until one is refused. All of the slice must be had, never more than it, and
// everything must come back.
struct FamilyTest {
  std::function<CUresult()> take;
  std::function<void()> give_back;
};
void exhaust(const Cuda& cu, const FamilyTest& family) {
  const uint64_t room = cu.free_bytes();
  const Nvml nvml;
  uint64_t taken = 0;
  CUresult refusal = CUDA_SUCCESS;
  while (taken < 2 * kLimit) {
    refusal = family.take();
    if (refusal != CUDA_SUCCESS) break;
    taken += kChunk;
    ASSERT_LE(nvml.own_bytes(), kLimit) << "after " << taken / kMiB << " MiB";
  }
  EXPECT_EQ(refusal, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_LE(taken, room);
  EXPECT_GE(taken + kSlack, room) << "refused although there is room";
  family.give_back();
  EXPECT_EQ(cu.cuCtxSynchronize(), CUDA_SUCCESS);
  EXPECT_EQ(cu.free_bytes(), room) << "not everything was given back";
}

CUDA_ARRAY3D_DESCRIPTOR chunk_shape(uint64_t bytes) {
  CUDA_ARRAY3D_DESCRIPTOR shape{};
  shape.Width = 8192;
  shape.Height = bytes / (8192 * 16);
  shape.Format = CU_AD_FORMAT_FLOAT;
  shape.NumChannels = 4;
  return shape;
}

TEST(TenantMemory, StopsAtTheLimitAndNotBefore) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Cuda cu;
  cu.begin();
  EXPECT_EQ(cu.total_bytes(), kLimit);
  size_t total = 0;
  EXPECT_EQ(cu.cuDeviceTotalMem_v2(&total, 0), CUDA_SUCCESS);
  EXPECT_EQ(total, kLimit);
  EXPECT_LT(cu.free_bytes(), kLimit) << "the context costs something";
  std::vector<CUdeviceptr> held;
  exhaust(cu, {[&] {
                 CUdeviceptr pointer = 0;
                 const CUresult result = cu.cuMemAlloc_v2(&pointer, kChunk);
                 if (result == CUDA_SUCCESS) held.push_back(pointer);
                 return result;
               },
               [&] {
                 for (const CUdeviceptr each : held) cu.cuMemFree_v2(each);
               }});
}

TEST(TenantMemory, CountsPitchedMemory) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Cuda cu;
  cu.begin();
  std::vector<CUdeviceptr> held;
  exhaust(cu, {[&] {
                 CUdeviceptr pointer = 0;
                 size_t pitch = 0;
                 const CUresult result =
                     cu.cuMemAllocPitch_v2(&pointer, &pitch, 65536, kChunk / 65536, 16);
                 if (result == CUDA_SUCCESS) held.push_back(pointer);
                 return result;
               },
               [&] {
                 for (const CUdeviceptr each : held) cu.cuMemFree_v2(each);
               }});
}

TEST(TenantMemory, CountsManagedMemoryWhole) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Cuda cu;
  cu.begin();
  std::vector<CUdeviceptr> held;
  exhaust(cu, {[&] {
                 CUdeviceptr pointer = 0;
                 const CUresult result =
                     cu.cuMemAllocManaged(&pointer, kChunk, CU_MEM_ATTACH_GLOBAL);
                 if (result == CUDA_SUCCESS) held.push_back(pointer);
                 return result;
               },
               [&] {
                 for (const CUdeviceptr each : held) cu.cuMemFree_v2(each);
               }});
}

TEST(TenantMemory, CountsArrays) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Cuda cu;
  cu.begin();
  std::vector<CUarray> held;
  exhaust(cu, {[&] {
                 const CUDA_ARRAY3D_DESCRIPTOR shape = chunk_shape(kChunk);
                 CUarray array = nullptr;
                 const CUresult result = cu.cuArray3DCreate_v2(&array, &shape);
                 if (result == CUDA_SUCCESS) held.push_back(array);
                 return result;
               },
               [&] {
                 for (CUarray each : held) cu.cuArrayDestroy(each);
               }});
}

TEST(TenantMemory, CountsMipmappedArrays) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Cuda cu;
  cu.begin();
  std::vector<CUmipmappedArray> held;
  exhaust(cu, {[&] {
                 const CUDA_ARRAY3D_DESCRIPTOR shape = chunk_shape(kChunk / 5 * 4);
                 CUmipmappedArray array = nullptr;
                 const CUresult result = cu.cuMipmappedArrayCreate(&array, &shape, 2);
                 if (result == CUDA_SUCCESS) held.push_back(array);
                 return result;
               },
               [&] {
                 for (CUmipmappedArray each : held) cu.cuMipmappedArrayDestroy(each);
               }});
}

TEST(TenantMemory, CountsStreamOrderedMemory) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Cuda cu;
  cu.begin();
  std::vector<CUdeviceptr> held;
  exhaust(cu, {[&] {
                 CUdeviceptr pointer = 0;
                 const CUresult result = cu.cuMemAllocAsync(&pointer, kChunk, nullptr);
                 if (result == CUDA_SUCCESS) held.push_back(pointer);
                 return result;
               },
               [&] {
                 for (const CUdeviceptr each : held) cu.cuMemFreeAsync(each, nullptr);
               }});
}

TEST(TenantMemory, CountsMemAllocFromPoolAsync) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Cuda cu;
  cu.begin();
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemoryPool pool = nullptr;
  ASSERT_EQ(cu.cuMemPoolCreate(&pool, &props), CUDA_SUCCESS);
  std::vector<CUdeviceptr> held;
  exhaust(cu, {[&] {
                 CUdeviceptr pointer = 0;
                 const CUresult result =
                     cu.cuMemAllocFromPoolAsync_ptsz(&pointer, kChunk, pool, CU_STREAM_PER_THREAD);
                 if (result == CUDA_SUCCESS) held.push_back(pointer);
                 return result;
               },
               [&] {
                 for (const CUdeviceptr each : held) {
                   cu.cuMemFreeAsync_ptsz(each, CU_STREAM_PER_THREAD);
                 }
                 EXPECT_EQ(cu.cuMemPoolDestroy(pool), CUDA_SUCCESS);
               }});
}

// Memory that a pool keeps is the tenant's, also while nothing is allocated from it.
TEST(TenantMemory, CountsWhatAPoolKeepsInReserve) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Cuda cu;
  cu.begin();
  const uint64_t room = cu.free_bytes();
  CUmemoryPool pool = nullptr;
  ASSERT_EQ(cu.cuDeviceGetDefaultMemPool(&pool, 0), CUDA_SUCCESS);
  cuuint64_t keep = UINT64_MAX;
  ASSERT_EQ(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep), CUDA_SUCCESS);
  CUdeviceptr pointer = 0;
  ASSERT_EQ(cu.cuMemAllocAsync(&pointer, 2 * kGiB, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cu.cuMemFreeAsync(pointer, nullptr), CUDA_SUCCESS);
  ASSERT_EQ(cu.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cu.free_bytes(), room - 2 * kGiB);
  // Like the driver, an allocation that needs it gets it.
  ASSERT_EQ(cu.cuMemAlloc_v2(&pointer, room - kGiB), CUDA_SUCCESS);
  EXPECT_LE(Nvml().own_bytes(), kLimit);
  ASSERT_EQ(cu.cuMemFree_v2(pointer), CUDA_SUCCESS);
  EXPECT_EQ(cu.free_bytes(), room);
}

TEST(TenantMemory, CountsVirtualMemoryUntilHandlesAndMappingsAreGone) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Cuda cu;
  cu.begin();
  const uint64_t room = cu.free_bytes();
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CUmemGenericAllocationHandle handle = 0;
  EXPECT_EQ(cu.cuMemCreate(&handle, kLimit, &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
  ASSERT_EQ(cu.cuMemCreate(&handle, kChunk, &prop, 0), CUDA_SUCCESS);
  EXPECT_EQ(cu.free_bytes(), room - kChunk);
  CUdeviceptr pointer = 0;
  ASSERT_EQ(cu.cuMemAddressReserve(&pointer, kChunk, 0, 0, 0), CUDA_SUCCESS);
  ASSERT_EQ(cu.cuMemMap(pointer, kChunk, 0, handle, 0), CUDA_SUCCESS);
  ASSERT_EQ(cu.cuMemRelease(handle), CUDA_SUCCESS);
  EXPECT_EQ(cu.free_bytes(), room - kChunk) << "it is still mapped";
  CUmemGenericAllocationHandle again = 0;
  ASSERT_EQ(cu.cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(pointer)), CUDA_SUCCESS);
  ASSERT_EQ(cu.cuMemUnmap(pointer, kChunk), CUDA_SUCCESS);
  EXPECT_EQ(cu.free_bytes(), room - kChunk) << "a handle was retained";
  ASSERT_EQ(cu.cuMemRelease(again), CUDA_SUCCESS);
  EXPECT_EQ(cu.free_bytes(), room);
}

TEST(TenantMemory, CountsGraphMemoryNodes) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Cuda cu;
  cu.begin();
  struct Held {
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr pointer;
  };
  std::vector<Held> held;
  exhaust(cu, {[&] {
                 Held each{};
                 EXPECT_EQ(cu.cuGraphCreate(&each.graph, 0), CUDA_SUCCESS);
                 CUDA_MEM_ALLOC_NODE_PARAMS params{};
                 params.poolProps.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
                 params.poolProps.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
                 params.bytesize = kChunk;
                 CUgraphNode node = nullptr;
                 EXPECT_EQ(cu.cuGraphAddMemAllocNode(&node, each.graph, nullptr, 0, &params),
                           CUDA_SUCCESS);
                 EXPECT_EQ(cu.cuGraphInstantiateWithFlags(&each.exec, each.graph, 0), CUDA_SUCCESS);
                 const CUresult result = cu.cuGraphLaunch(each.exec, nullptr);
                 EXPECT_EQ(cu.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
                 each.pointer = params.dptr;
                 if (result == CUDA_SUCCESS) held.push_back(each);
                 return result;
               },
               [&] {
                 for (const Held& each : held) {
                   EXPECT_EQ(cu.cuMemFreeAsync(each.pointer, nullptr), CUDA_SUCCESS);
                 }
                 EXPECT_EQ(cu.cuStreamSynchronize(nullptr), CUDA_SUCCESS);
                 for (const Held& each : held) cu.cuGraphExecDestroy(each.exec);
                 for (const Held& each : held) cu.cuGraphDestroy(each.graph);
                 EXPECT_EQ(cu.cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
               }});
}

TEST(TenantMemory, CountsMemoryAllocatedInACapture) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Cuda cu;
  cu.begin();
  const uint64_t room = cu.free_bytes();
  CUstream stream = nullptr;
  ASSERT_EQ(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), CUDA_SUCCESS);
  for (const uint64_t bytes : {2 * kGiB, kLimit}) {
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    CUdeviceptr pointer = 0;
    ASSERT_EQ(cu.cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED), CUDA_SUCCESS);
    ASSERT_EQ(cu.cuMemAllocAsync(&pointer, bytes, stream), CUDA_SUCCESS);
    ASSERT_EQ(cu.cuMemFreeAsync(pointer, stream), CUDA_SUCCESS);
    ASSERT_EQ(cu.cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
    ASSERT_EQ(cu.cuGraphInstantiateWithFlags(&exec, graph, 0), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuGraphLaunch(exec, stream),
              bytes < kLimit ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
    EXPECT_EQ(cu.cuStreamSynchronize(stream), CUDA_SUCCESS);
    EXPECT_LE(Nvml().own_bytes(), kLimit);
    if (bytes < kLimit) {
      EXPECT_LE(cu.free_bytes(), room - bytes) << "kept for the next launch";
    }
    EXPECT_EQ(cu.cuGraphExecDestroy(exec), CUDA_SUCCESS);
    EXPECT_EQ(cu.cuGraphDestroy(graph), CUDA_SUCCESS);
  }
  EXPECT_EQ(cu.cuDeviceGraphMemTrim(0), CUDA_SUCCESS);
  EXPECT_EQ(cu.free_bytes(), room);
}

TEST(TenantMemory, HostMemoryIsNotTheSlices) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Cuda cu;
  cu.begin();
  const uint64_t room = cu.free_bytes();
  void* page = nullptr;
  ASSERT_EQ(cu.cuMemHostAlloc(&page, 64 * kMiB, 0), CUDA_SUCCESS);
  EXPECT_EQ(cu.free_bytes(), room);
  EXPECT_EQ(cu.cuMemFreeHost(page), CUDA_SUCCESS);
}

TEST(TenantMemory, NullOutParametersAreLegal) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Cuda cu;
  cu.begin();
  EXPECT_EQ(cu.cuMemGetInfo_v2(nullptr, nullptr), CUDA_SUCCESS);
  EXPECT_EQ(cu.cuMemAlloc_v2(nullptr, kMiB), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemAllocAsync(nullptr, kMiB, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemCreate(nullptr, 2 * kMiB, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuArray3DCreate_v2(nullptr, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuGraphInstantiateWithFlags(nullptr, nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuDeviceTotalMem_v2(nullptr, 0), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuGetProcAddress_v2("cuInit", nullptr, 12000, 0, nullptr), CUDA_ERROR_INVALID_VALUE);
  void* found = nullptr;
  EXPECT_EQ(cu.cuGetProcAddress_v2("cuInit", &found, 12000, 0, nullptr), CUDA_SUCCESS);
  EXPECT_NE(found, nullptr);
}

TEST(TenantMemory, UnknownPointersGoToTheRealFree) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Cuda cu;
  cu.begin();
  const uint64_t room = cu.free_bytes();
  EXPECT_EQ(cu.cuMemFree_v2(0), CUDA_SUCCESS) << "as the driver answers";
  EXPECT_EQ(cu.cuMemFree_v2(0x1234500), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.cuMemFreeAsync(0x1234500, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cu.free_bytes(), room);
}

TEST(TenantMemory, ADestroyedContextGivesItsMemoryBack) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  const Cuda cu;
  cu.begin();
  const uint64_t room = cu.free_bytes();
  for (int round = 0; round < 3; ++round) {
    CUcontext context = nullptr;
    ASSERT_EQ(cu.cuCtxCreate_v2(&context, 0, 0), CUDA_SUCCESS);
    EXPECT_LT(cu.free_bytes(), room) << "a second context costs something too";
    CUdeviceptr pointer = 0;
    CUarray array = nullptr;
    const CUDA_ARRAY3D_DESCRIPTOR shape = chunk_shape(kChunk);
    ASSERT_EQ(cu.cuMemAlloc_v2(&pointer, 4 * kGiB), CUDA_SUCCESS);
    ASSERT_EQ(cu.cuArray3DCreate_v2(&array, &shape), CUDA_SUCCESS);
    ASSERT_EQ(cu.cuCtxDestroy_v2(context), CUDA_SUCCESS);
    CUcontext primary = nullptr;
    ASSERT_EQ(cu.cuDevicePrimaryCtxRetain(&primary, 0), CUDA_SUCCESS);
    ASSERT_EQ(cu.cuCtxSetCurrent(primary), CUDA_SUCCESS);
    EXPECT_EQ(cu.free_bytes(), room);
  }
  ASSERT_EQ(cu.cuDevicePrimaryCtxReset_v2(0), CUDA_SUCCESS);
}

// The load generator takes every family until it is refused, from one process after another.
TEST(TenantMemory, AWholeProgramStaysInsideItsSlice) {
  if (!inside_tenant()) return run_as_tenant({.limits = {kLimit}});
  FILE* pipe = popen(GPULOAD_PROGRAM " alloc --family all --chunk 512MiB", "r");
  ASSERT_NE(pipe, nullptr);
  std::string report;
  char buffer[4096];
  while (const size_t got = fread(buffer, 1, sizeof buffer, pipe)) report.append(buffer, got);
  EXPECT_EQ(pclose(pipe), 0) << report;
  EXPECT_EQ(report.find("\"all_came_back\": false"), std::string::npos) << report;
  // No family got as much as the slice has: the context is in it as well.
  const std::string label = "\"bytes\": ";
  int families = 0;
  for (size_t at = report.find(label); at != std::string::npos; at = report.find(label, at + 1)) {
    EXPECT_LT(std::stoull(report.substr(at + label.size())), kLimit) << report.substr(0, at);
    ++families;
  }
  EXPECT_GE(families, 9) << report;
}

}  // namespace
}  // namespace divvy::shim
