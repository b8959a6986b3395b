// Pinned and registered host memory.

#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "gpu.h"

namespace divvy::conformance {

CASE(host_memory, has_the_same_address_on_the_gpu) {
  if (!start_gpu(t)) return;
  void* host = nullptr;
  CUdeviceptr address = 0;
  unsigned flags = 0;
  OK(cu.cuMemHostAlloc(&host, kMiB, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
  OK(cu.cuMemHostGetDevicePointer_v2(&address, host, 0));
  EQUAL(reinterpret_cast<uint64_t>(host), uint64_t{address});
  OK(cu.cuMemHostGetFlags(&flags, host));
  t.recorded("flags", uint64_t{flags});
  unsigned type = 0;
  OK(cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address));
  EQUAL(uint64_t{CU_MEMORYTYPE_HOST}, uint64_t{type});
  OK(cu.cuMemFreeHost(host));
}

CASE(host_memory, takes_no_device_memory) {
  if (!start_gpu(t)) return;
  void* host = nullptr;
  OK(cu.cuMemHostAlloc(&host, kMiB, 0));
  const uint64_t before = free_bytes();
  void* more = nullptr;
  OK(cu.cuMemAllocHost_v2(&more, 16 * kMiB));
  EQUAL(before, free_bytes());
  OK(cu.cuMemFreeHost(more));
  OK(cu.cuMemFreeHost(host));
}

CASE(host_memory, wrong_calls_are_refused) {
  if (!start_gpu(t)) return;
  void* host = nullptr;
  static int ordinary = 0;
  unsigned flags = 0;
  CUdeviceptr address = 0;
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemHostAlloc(&host, 4096, 0x1000));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemHostAlloc(nullptr, 4096, 0));
  t.recorded("size_of_zero", cu.cuMemHostAlloc(&host, 0, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeHost(&ordinary));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemHostGetFlags(&flags, &ordinary));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemHostGetDevicePointer_v2(&address, &ordinary, 0));
  OK(cu.cuMemHostAlloc(&host, 4096, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemHostGetDevicePointer_v2(&address, host, 1));
  OK(cu.cuMemFreeHost(host));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemFreeHost(host));
  t.recorded("free_of_null", cu.cuMemFreeHost(nullptr));
}

CASE(host_memory, is_registered_once) {
  if (!start_gpu(t)) return;
  void* memory = std::aligned_alloc(4096, 65536);
  OK(cu.cuMemHostRegister_v2(memory, 65536, CU_MEMHOSTREGISTER_DEVICEMAP));
  CODE(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, cu.cuMemHostRegister_v2(memory, 65536, 0));
  t.recorded("inner_part", cu.cuMemHostRegister_v2(static_cast<char*>(memory) + 4096, 4096, 0));
  CUdeviceptr address = 0;
  OK(cu.cuMemHostGetDevicePointer_v2(&address, memory, 0));
  EQUAL(reinterpret_cast<uint64_t>(memory), uint64_t{address});
  OK(cu.cuMemHostUnregister(memory));
  CODE(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cu.cuMemHostUnregister(memory));
  OK(cu.cuMemHostRegister_v2(memory, 65536, 0));
  t.recorded("unregister_inner_pointer", cu.cuMemHostUnregister(static_cast<char*>(memory) + 4096));
  OK(cu.cuMemHostUnregister(memory));
  std::free(memory);
}

CASE(host_memory, unregistering_what_never_was) {
  if (!start_gpu(t)) return;
  void* memory = std::aligned_alloc(4096, 4096);
  CODE(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, cu.cuMemHostUnregister(memory));
  void* pinned = nullptr;
  OK(cu.cuMemHostAlloc(&pinned, 4096, 0));
  t.recorded("unregister_of_pinned", cu.cuMemHostUnregister(pinned));
  OK(cu.cuMemHostRegister_v2(memory, 4096, 0));
  t.recorded("free_of_registered", cu.cuMemFreeHost(memory));
  t.recorded("register_of_pinned", cu.cuMemHostRegister_v2(pinned, 4096, 0));
}

CASE(host_memory, wrong_registrations_are_refused) {
  if (!start_gpu(t)) return;
  void* memory = std::aligned_alloc(4096, 8192);
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemHostRegister_v2(nullptr, 4096, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemHostRegister_v2(memory, 0, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuMemHostRegister_v2(memory, 4096, 0x1000));
  void* gone = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  munmap(gone, 4096);
  t.recorded("unmapped", cu.cuMemHostRegister_v2(gone, 4096, 0));
  t.recorded("not_a_page", cu.cuMemHostRegister_v2(static_cast<char*>(memory) + 8, 100, 0));
}

CASE(host_memory, registered_file_memory_is_reachable) {
  const int fd = memfd_create("conformance", 0);
  TRUE_(fd >= 0 && ftruncate(fd, 65536) == 0);
  void* shared = mmap(nullptr, 65536, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  TRUE_(shared != MAP_FAILED);
  if (!load_kernels(t)) return;
  CUdeviceptr address = 0;
  OK(cu.cuMemHostRegister_v2(shared, 65536, CU_MEMHOSTREGISTER_DEVICEMAP));
  OK(cu.cuMemHostGetDevicePointer_v2(&address, shared, 0));
  OK(launch_fill(address, 64, 0x77, nullptr));
  OK(cu.cuCtxSynchronize());
  EQUAL(uint64_t{0x77}, uint64_t{static_cast<volatile unsigned*>(shared)[63]});
  OK(cu.cuMemHostUnregister(shared));
}

}  // namespace divvy::conformance
