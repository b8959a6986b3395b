// Stream-ordered memory and its pools.

#include "gpu.h"

namespace divvy::conformance {
namespace {

CUmemPoolProps device_pool() {
  CUmemPoolProps props{};
  props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  props.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return props;
}

uint64_t read_attribute(Check& t, CUmemoryPool pool, CUmemPool_attribute which) {
  cuuint64_t value = 0;
  t.ok("cuMemPoolGetAttribute", cu.cuMemPoolGetAttribute(pool, which, &value));
  return value;
}

}  // namespace

CASE(pools, default_one_is_the_current_one) {
  if (!start_gpu(t)) return;
  CUmemoryPool standard = nullptr;
  CUmemoryPool current = nullptr;
  OK(cu.cuDeviceGetDefaultMemPool(&standard, device));
  OK(cu.cuDeviceGetMemPool(&current, device));
  TRUE_(standard != nullptr && standard == current);
  CUmemoryPool made = nullptr;
  const CUmemPoolProps props = device_pool();
  OK(cu.cuMemPoolCreate(&made, &props));
  OK(cu.cuDeviceSetMemPool(device, made));
  OK(cu.cuDeviceGetMemPool(&current, device));
  TRUE_(current == made);
  OK(cu.cuDeviceGetDefaultMemPool(&current, device));
  TRUE_(current == standard);
  OK(cu.cuDeviceSetMemPool(device, standard));
  OK(cu.cuMemPoolDestroy(made));
  t.recorded("destroy_default", cu.cuMemPoolDestroy(standard));
}

CASE(pools, memory_is_usable_in_stream_order) {
  if (!load_kernels(t)) return;
  CUstream stream = nullptr;
  CUdeviceptr pointer = 0;
  void* host = nullptr;
  OK(cu.cuMemHostAlloc(&host, 4096, 0));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuMemAllocAsync(&pointer, kMiB, stream));
  OK(launch_fill(pointer, 64, 55, stream));
  OK(cu.cuMemcpyDtoHAsync_v2(host, pointer, 256, stream));
  OK(cu.cuMemFreeAsync(pointer, stream));
  OK(cu.cuStreamSynchronize(stream));
  EQUAL(uint64_t{55}, uint64_t{static_cast<unsigned*>(host)[63]});
}

CASE(pools, wrong_calls_are_refused) {
  if (!start_gpu(t)) return;
  CUdeviceptr pointer = 0;
  t.recorded("size_of_zero", cu.cuMemAllocAsync(&pointer, 0, nullptr));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemAllocAsync(nullptr, 4096, nullptr));
  CODE(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocAsync(&pointer, size_t{1} << 46U, nullptr));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeAsync(0x1234, nullptr));
  t.recorded("free_of_null", cu.cuMemFreeAsync(0, nullptr));
  OK(cu.cuMemAllocAsync(&pointer, 4096, nullptr));
  OK(cu.cuMemFreeAsync(pointer, nullptr));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeAsync(pointer, nullptr));
  OK(cu.cuCtxSynchronize());
}

CASE(pools, either_free_takes_either_pointer) {
  if (!start_gpu(t)) return;
  CUdeviceptr plain = 0;
  CUdeviceptr ordered = 0;
  OK(cu.cuMemAlloc_v2(&plain, 2 * kMiB));
  OK(cu.cuMemAllocAsync(&ordered, 2 * kMiB, nullptr));
  OK(cu.cuCtxSynchronize());
  t.recorded("async_free_of_plain", cu.cuMemFreeAsync(plain, nullptr));
  OK(cu.cuMemFree_v2(ordered));
  OK(cu.cuCtxSynchronize());
}

CASE(pools, attributes_count_what_is_used) {
  if (!start_gpu(t)) return;
  const CUmemPoolProps props = device_pool();
  CUmemoryPool pool = nullptr;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemPoolCreate(&pool, &props));
  EQUAL(uint64_t{0}, read_attribute(t, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  EQUAL(uint64_t{0}, read_attribute(t, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
  OK(cu.cuMemAllocFromPoolAsync(&pointer, 64 * kMiB, pool, nullptr));
  EQUAL(64 * kMiB, read_attribute(t, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  const uint64_t reserved = read_attribute(t, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT);
  TRUE_(reserved >= 64 * kMiB);
  t.recorded("reserved_for_64_mib", reserved);
  OK(cu.cuMemFreeAsync(pointer, nullptr));
  OK(cu.cuCtxSynchronize());
  EQUAL(uint64_t{0}, read_attribute(t, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  EQUAL(64 * kMiB, read_attribute(t, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
  cuuint64_t zero = 0;
  OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
  EQUAL(uint64_t{0}, read_attribute(t, pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH));
  cuuint64_t one = 1;
  t.recorded("set_high_to_one",
             cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one));
  t.recorded("set_current",
             cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &zero));
  OK(cu.cuMemPoolDestroy(pool));
}

CASE(pools, small_allocation_reserves_a_block) {
  if (!start_gpu(t)) return;
  const CUmemPoolProps props = device_pool();
  CUmemoryPool pool = nullptr;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemPoolCreate(&pool, &props));
  OK(cu.cuMemAllocFromPoolAsync(&pointer, 1, pool, nullptr));
  t.recorded("used_for_1_byte", read_attribute(t, pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT));
  t.recorded("reserved_for_1_byte", read_attribute(t, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
}

CASE(pools, threshold_keeps_memory_until_trimmed) {
  if (!start_gpu(t)) return;
  const CUmemPoolProps props = device_pool();
  CUmemoryPool pool = nullptr;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemPoolCreate(&pool, &props));
  EQUAL(uint64_t{0}, read_attribute(t, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
  cuuint64_t all = ~cuuint64_t{0};
  OK(cu.cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
  EQUAL(uint64_t{all}, read_attribute(t, pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD));
  const uint64_t before = free_bytes();
  OK(cu.cuMemAllocFromPoolAsync(&pointer, 64 * kMiB, pool, nullptr));
  OK(cu.cuMemFreeAsync(pointer, nullptr));
  OK(cu.cuCtxSynchronize());
  TRUE_(free_bytes() + 64 * kMiB <= before);
  TRUE_(read_attribute(t, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 64 * kMiB);
  OK(cu.cuMemPoolTrimTo(pool, 0));
  EQUAL(before, free_bytes());
  EQUAL(uint64_t{0}, read_attribute(t, pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT));
}

CASE(pools, without_threshold_memory_goes_back_at_synchronization) {
  if (!start_gpu(t)) return;
  const CUmemPoolProps props = device_pool();
  CUmemoryPool pool = nullptr;
  CUdeviceptr pointer = 0;
  CUstream stream = nullptr;
  OK(cu.cuMemPoolCreate(&pool, &props));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const uint64_t before = free_bytes();
  OK(cu.cuMemAllocFromPoolAsync(&pointer, 64 * kMiB, pool, stream));
  OK(cu.cuMemFreeAsync(pointer, stream));
  OK(cu.cuStreamSynchronize(stream));
  EQUAL(before, free_bytes());
}

CASE(pools, freed_memory_is_used_again_in_the_same_stream) {
  if (!start_gpu(t)) return;
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  CUstream stream = nullptr;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate(t, stream);
  if (!gate.works()) return;
  OK(cu.cuMemAllocAsync(&first, 32 * kMiB, stream));
  OK(cu.cuMemFreeAsync(first, stream));
  OK(cu.cuMemAllocAsync(&second, 32 * kMiB, stream));
  EQUAL(uint64_t{first}, uint64_t{second});
  OK(cu.cuMemFreeAsync(second, stream));
  gate.open();
  OK(cu.cuStreamSynchronize(stream));
}

CASE(pools, limited_one_refuses_more) {
  if (!start_gpu(t)) return;
  CUmemPoolProps props = device_pool();
  props.maxSize = 64 * kMiB;
  CUmemoryPool pool = nullptr;
  CUdeviceptr pointer = 0;
  OK(cu.cuMemPoolCreate(&pool, &props));
  OK(cu.cuMemAllocFromPoolAsync(&pointer, 32 * kMiB, pool, nullptr));
  CODE(CUDA_ERROR_OUT_OF_MEMORY, cu.cuMemAllocFromPoolAsync(&pointer, 64 * kMiB, pool, nullptr));
}

CASE(pools, wrong_properties_are_refused) {
  if (!start_gpu(t)) return;
  CUmemPoolProps props = device_pool();
  CUmemoryPool pool = nullptr;
  props.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemPoolCreate(&pool, &props));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemPoolCreate(&pool, nullptr));
  props = device_pool();
  props.location.id = 4711;
  t.recorded("unknown_device", cu.cuMemPoolCreate(&pool, &props));
}

CASE(pools, destroyed_one_lives_until_its_memory_is_freed) {
  if (!start_gpu(t)) return;
  const CUmemPoolProps props = device_pool();
  CUmemoryPool pool = nullptr;
  CUdeviceptr pointer = 0;
  const uint64_t before = free_bytes();
  OK(cu.cuMemPoolCreate(&pool, &props));
  OK(cu.cuMemAllocFromPoolAsync(&pointer, 32 * kMiB, pool, nullptr));
  OK(cu.cuMemPoolDestroy(pool));
  OK(cu.cuMemsetD32_v2(pointer, 6, 16));
  EQUAL(uint64_t{6}, uint64_t{word_at(pointer)});
  OK(cu.cuMemFreeAsync(pointer, nullptr));
  OK(cu.cuCtxSynchronize());
  TRUE_(free_bytes() + 2 * kMiB >= before);
}

CASE(pools, pointer_names_its_pool) {
  if (!start_gpu(t)) return;
  CUmemoryPool standard = nullptr;
  CUmemoryPool of = nullptr;
  CUdeviceptr pointer = 0;
  OK(cu.cuDeviceGetDefaultMemPool(&standard, device));
  OK(cu.cuMemAllocAsync(&pointer, kMiB, nullptr));
  OK(cu.cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, pointer));
  TRUE_(of == standard);
  CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, device};
  CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
  OK(cu.cuMemPoolGetAccess(&flags, standard, &location));
  EQUAL(uint64_t{CU_MEM_ACCESS_FLAGS_PROT_READWRITE}, uint64_t{flags});
}

}  // namespace divvy::conformance
