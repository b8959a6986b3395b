// Virtual memory management: reserve, create, map, and the errors of the wrong order.

#include "gpu.h"

namespace divvy::conformance {
namespace {

CUmemAllocationProp device_memory() {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return prop;
}

CUmemAccessDesc read_write() {
  return {{CU_MEM_LOCATION_TYPE_DEVICE, device}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
}

}  // namespace

CASE(vmm, granularity_is_2_mib) {
  if (!start_gpu(t)) return;
  CUmemAllocationProp prop = device_memory();
  size_t minimum = 0;
  size_t recommended = 0;
  OK(cu.cuMemGetAllocationGranularity(&minimum, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  OK(cu.cuMemGetAllocationGranularity(&recommended, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  EQUAL(2 * kMiB, uint64_t{minimum});
  t.recorded("recommended", uint64_t{recommended});
  CODE(CUDA_ERROR_INVALID_VALUE,
       cu.cuMemGetAllocationGranularity(nullptr, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CODE(CUDA_ERROR_INVALID_VALUE,
       cu.cuMemGetAllocationGranularity(&minimum, nullptr, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

CASE(vmm, mapped_memory_works) {
  if (!load_kernels(t)) return;
  const CUmemAllocationProp prop = device_memory();
  const CUmemAccessDesc access = read_write();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  OK(cu.cuMemCreate(&handle, 4 * kMiB, &prop, 0));
  OK(cu.cuMemAddressReserve(&address, 4 * kMiB, 0, 0, 0));
  EQUAL(uint64_t{0}, uint64_t{address % (2 * kMiB)});
  OK(cu.cuMemMap(address, 4 * kMiB, 0, handle, 0));
  OK(cu.cuMemSetAccess(address, 4 * kMiB, &access, 1));
  OK(launch_fill(address + 2 * kMiB, 16, 9, nullptr));
  EQUAL(uint64_t{9}, uint64_t{word_at(address + 2 * kMiB)});
  unsigned long long flags = 0;
  OK(cu.cuMemGetAccess(&flags, &access.location, address));
  EQUAL(uint64_t{CU_MEM_ACCESS_FLAGS_PROT_READWRITE}, uint64_t{flags});
  OK(cu.cuMemUnmap(address, 4 * kMiB));
  OK(cu.cuMemAddressFree(address, 4 * kMiB));
  OK(cu.cuMemRelease(handle));
}

CASE(vmm, creating_takes_the_memory_and_releasing_gives_it_back) {
  if (!start_gpu(t)) return;
  const CUmemAllocationProp prop = device_memory();
  CUmemGenericAllocationHandle handle = 0;
  const uint64_t before = free_bytes();
  OK(cu.cuMemCreate(&handle, 64 * kMiB, &prop, 0));
  EQUAL(uint64_t{64 * kMiB}, before - free_bytes());
  OK(cu.cuMemRelease(handle));
  EQUAL(before, free_bytes());
}

CASE(vmm, released_memory_lives_while_mapped) {
  if (!start_gpu(t)) return;
  const CUmemAllocationProp prop = device_memory();
  const CUmemAccessDesc access = read_write();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  OK(cu.cuMemCreate(&handle, 64 * kMiB, &prop, 0));
  OK(cu.cuMemAddressReserve(&address, 64 * kMiB, 0, 0, 0));
  OK(cu.cuMemMap(address, 64 * kMiB, 0, handle, 0));
  OK(cu.cuMemSetAccess(address, 64 * kMiB, &access, 1));
  const uint64_t before = free_bytes();
  OK(cu.cuMemRelease(handle));
  EQUAL(before, free_bytes());
  OK(cu.cuMemsetD32_v2(address, 4, 16));
  EQUAL(uint64_t{4}, uint64_t{word_at(address)});
  OK(cu.cuMemUnmap(address, 64 * kMiB));
  EQUAL(before + 64 * kMiB, free_bytes());
  OK(cu.cuMemAddressFree(address, 64 * kMiB));
}

CASE(vmm, reserving_takes_no_memory) {
  if (!start_gpu(t)) return;
  const uint64_t before = free_bytes();
  CUdeviceptr address = 0;
  OK(cu.cuMemAddressReserve(&address, 1024 * kMiB, 0, 0, 0));
  EQUAL(before, free_bytes());
  OK(cu.cuMemAddressFree(address, 1024 * kMiB));
}

CASE(vmm, wrong_sizes_are_refused) {
  if (!start_gpu(t)) return;
  CUmemAllocationProp prop = device_memory();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, 0, &prop, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, kMiB, &prop, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, 2 * kMiB, nullptr, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, 2 * kMiB, &prop, 1));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemAddressReserve(&address, 0, 0, 0, 0));
  t.recorded("reserve_1_mib", cu.cuMemAddressReserve(&address, kMiB, 0, 0, 0));
  size_t total = 0;
  OK(cu.cuDeviceTotalMem_v2(&total, device));
  CODE(CUDA_ERROR_OUT_OF_MEMORY,
       cu.cuMemCreate(&handle, (total / (2 * kMiB) + 1) * 2 * kMiB, &prop, 0));
  prop.location.id = 4711;
  t.recorded("unknown_device", cu.cuMemCreate(&handle, 2 * kMiB, &prop, 0));
  prop = device_memory();
  prop.type = CU_MEM_ALLOCATION_TYPE_INVALID;
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemCreate(&handle, 2 * kMiB, &prop, 0));
}

CASE(vmm, wrong_orders_are_refused) {
  if (!start_gpu(t)) return;
  const CUmemAllocationProp prop = device_memory();
  const CUmemAccessDesc access = read_write();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  OK(cu.cuMemCreate(&handle, 4 * kMiB, &prop, 0));
  OK(cu.cuMemAddressReserve(&address, 8 * kMiB, 0, 0, 0));
  t.recorded("access_before_map", cu.cuMemSetAccess(address, 4 * kMiB, &access, 1));
  t.recorded("unmap_before_map", cu.cuMemUnmap(address, 4 * kMiB));
  t.recorded("map_more_than_there_is", cu.cuMemMap(address, 8 * kMiB, 0, handle, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemMap(address + 4096, 4 * kMiB, 0, handle, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemMap(0x1234, 4 * kMiB, 0, handle, 0));
  OK(cu.cuMemMap(address, 4 * kMiB, 0, handle, 0));
  t.recorded("map_twice", cu.cuMemMap(address, 4 * kMiB, 0, handle, 0));
  t.recorded("address_free_while_mapped", cu.cuMemAddressFree(address, 8 * kMiB));
  t.recorded("unmap_half", cu.cuMemUnmap(address, 2 * kMiB));
  t.recorded("plain_free", cu.cuMemFree_v2(address));
  t.recorded("unmap", cu.cuMemUnmap(address, 4 * kMiB));
  t.recorded("address_free_of_half", cu.cuMemAddressFree(address, 4 * kMiB));
  t.recorded("address_free", cu.cuMemAddressFree(address, 8 * kMiB));
  OK(cu.cuMemRelease(handle));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemRelease(handle));
}

CASE(vmm, one_allocation_may_be_mapped_twice) {
  if (!start_gpu(t)) return;
  const CUmemAllocationProp prop = device_memory();
  const CUmemAccessDesc access = read_write();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr first = 0;
  CUdeviceptr second = 0;
  OK(cu.cuMemCreate(&handle, 2 * kMiB, &prop, 0));
  OK(cu.cuMemAddressReserve(&first, 2 * kMiB, 0, 0, 0));
  OK(cu.cuMemAddressReserve(&second, 2 * kMiB, 0, 0, 0));
  OK(cu.cuMemMap(first, 2 * kMiB, 0, handle, 0));
  OK(cu.cuMemMap(second, 2 * kMiB, 0, handle, 0));
  OK(cu.cuMemSetAccess(first, 2 * kMiB, &access, 1));
  OK(cu.cuMemSetAccess(second, 2 * kMiB, &access, 1));
  OK(cu.cuMemsetD32_v2(first, 321, 16));
  EQUAL(uint64_t{321}, uint64_t{word_at(second)});
}

CASE(vmm, properties_come_back_from_the_handle) {
  if (!start_gpu(t)) return;
  CUmemAllocationProp prop = device_memory();
  CUmemAllocationProp seen{};
  CUmemGenericAllocationHandle handle = 0;
  CUmemGenericAllocationHandle again = 0;
  CUdeviceptr address = 0;
  OK(cu.cuMemCreate(&handle, 2 * kMiB, &prop, 0));
  OK(cu.cuMemGetAllocationPropertiesFromHandle(&seen, handle));
  EQUAL(uint64_t{prop.type}, uint64_t{seen.type});
  EQUAL(uint64_t{prop.location.type}, uint64_t{seen.location.type});
  OK(cu.cuMemAddressReserve(&address, 2 * kMiB, 0, 0, 0));
  OK(cu.cuMemMap(address, 2 * kMiB, 0, handle, 0));
  OK(cu.cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(address)));
  EQUAL(uint64_t{handle}, uint64_t{again});
  OK(cu.cuMemRelease(again));
  OK(cu.cuMemRelease(handle));
}

CASE(vmm, handles_travel_to_another_process) {
  Peer peer([](int socket) {
    const int fd = receive_fd(socket);
    CUcontext here = nullptr;
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr address = 0;
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                 CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    if (fd < 0 || cu.cuInit(0) != 0 || cu.cuDevicePrimaryCtxRetain(&here, 0) != 0) return 1;
    if (cu.cuCtxSetCurrent(here) != 0) return 2;
    auto* os_handle = reinterpret_cast<void*>(static_cast<intptr_t>(fd));
    if (cu.cuMemImportFromShareableHandle(&handle, os_handle,
                                          CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) != 0) {
      return 3;
    }
    if (cu.cuMemAddressReserve(&address, 2 * kMiB, 0, 0, 0) != 0) return 4;
    if (cu.cuMemMap(address, 2 * kMiB, 0, handle, 0) != 0) return 5;
    if (cu.cuMemSetAccess(address, 2 * kMiB, &access, 1) != 0) return 6;
    if (word_at(address) != 1234) return 7;
    if (cu.cuMemsetD32_v2(address, 4321, 16) != 0 || cu.cuCtxSynchronize() != 0) return 8;
    return 0;
  });
  if (!start_gpu(t)) return;
  CUmemAllocationProp prop = device_memory();
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const CUmemAccessDesc access = read_write();
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  int fd = -1;
  OK(cu.cuMemCreate(&handle, 2 * kMiB, &prop, 0));
  OK(cu.cuMemAddressReserve(&address, 2 * kMiB, 0, 0, 0));
  OK(cu.cuMemMap(address, 2 * kMiB, 0, handle, 0));
  OK(cu.cuMemSetAccess(address, 2 * kMiB, &access, 1));
  OK(cu.cuMemsetD32_v2(address, 1234, 16));
  OK(cu.cuCtxSynchronize());
  OK(cu.cuMemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  TRUE_(fd >= 0);
  TRUE_(send_fd(peer.socket(), fd));
  EQUAL(uint64_t{0}, static_cast<uint64_t>(peer.wait()));
  EQUAL(uint64_t{4321}, uint64_t{word_at(address)});
}

CASE(vmm, export_must_have_been_asked_for) {
  if (!start_gpu(t)) return;
  const CUmemAllocationProp prop = device_memory();
  CUmemGenericAllocationHandle handle = 0;
  int fd = -1;
  OK(cu.cuMemCreate(&handle, 2 * kMiB, &prop, 0));
  t.recorded("export", cu.cuMemExportToShareableHandle(
                           &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  t.recorded("import_of_nothing",
             cu.cuMemImportFromShareableHandle(&handle, reinterpret_cast<void*>(intptr_t{-1}),
                                               CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}

}  // namespace divvy::conformance
