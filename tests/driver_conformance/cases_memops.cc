// Stream memory operations: waiting for and writing values, on memory of every kind that they may
// touch, shared with another process and read-only among them.

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "gpu.h"

namespace divvy::conformance {
namespace {

// A pinned page, zeroed, and its address for the GPU.
struct Page {
  void* host = nullptr;
  CUdeviceptr device_address = 0;
  explicit Page(Check& t) {
    t.ok("cuMemHostAlloc", cu.cuMemHostAlloc(&host, 4096, CU_MEMHOSTALLOC_DEVICEMAP));
    t.ok("cuMemHostGetDevicePointer", cu.cuMemHostGetDevicePointer_v2(&device_address, host, 0));
    if (host != nullptr) {
      for (int i = 0; i < 512; ++i) static_cast<uint64_t*>(host)[i] = 0;
    }
  }
  volatile uint32_t* word() { return static_cast<volatile uint32_t*>(host); }
  volatile uint64_t* wide() { return static_cast<volatile uint64_t*>(host); }
};

// The stream must be held at `held` and pass at `passes`.
void check_wait(Check& t, const char* what, unsigned flags, uint32_t value, uint32_t held,
                uint32_t passes) {
  Page page(t);
  CUstream stream = nullptr;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  store(page.word(), held);
  OK(cu.cuStreamWaitValue32_v2(stream, page.device_address, value, flags));
  t.code(what, cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  store(page.word(), passes);
  OK(cu.cuStreamSynchronize(stream));
}

void check_wait64(Check& t, const char* what, unsigned flags, uint64_t value, uint64_t held,
                  uint64_t passes) {
  Page page(t);
  CUstream stream = nullptr;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  store(page.wide(), held);
  OK(cu.cuStreamWaitValue64_v2(stream, page.device_address, value, flags));
  t.code(what, cu.cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
  store(page.wide(), passes);
  OK(cu.cuStreamSynchronize(stream));
}

CUstreamBatchMemOpParams wait32(CUdeviceptr address, uint32_t value, unsigned flags) {
  CUstreamBatchMemOpParams op{};
  op.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  op.waitValue.address = address;
  op.waitValue.value = value;
  op.waitValue.flags = flags;
  return op;
}

CUstreamBatchMemOpParams write32(CUdeviceptr address, uint32_t value) {
  CUstreamBatchMemOpParams op{};
  op.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  op.writeValue.address = address;
  op.writeValue.value = value;
  return op;
}

int sealed_memfd(bool future_write_sealed) {
  const int fd = memfd_create("conformance", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0 || ftruncate(fd, 4096) != 0) return -1;
  if (future_write_sealed) {
    constexpr int kSealFutureWrite = 0x0010;
    fcntl(fd, F_ADD_SEALS, kSealFutureWrite);
  }
  return fd;
}

}  // namespace

CASE(memops, wait_equal) {
  if (start_gpu(t)) check_wait(t, "5 is not 7", CU_STREAM_WAIT_VALUE_EQ, 7, 5, 7);
}
CASE(memops, wait_greater_or_equal) {
  if (start_gpu(t)) check_wait(t, "5 is below 7", CU_STREAM_WAIT_VALUE_GEQ, 7, 5, 8);
}
CASE(memops, wait_greater_or_equal_goes_round) {
  // 0xfffffff0 is sixteen before zero, so 3 is past it and 0xffffff00 is not.
  if (start_gpu(t)) {
    check_wait(t, "0xffffff00 is before 0xfffffff0", CU_STREAM_WAIT_VALUE_GEQ, 0xfffffff0U,
               0xffffff00U, 3);
  }
}
CASE(memops, wait_and) {
  if (start_gpu(t)) check_wait(t, "2 has no bit of 1", CU_STREAM_WAIT_VALUE_AND, 1, 2, 3);
}
CASE(memops, wait_nor) {
  // Passes when ~(value | wanted) is not zero.
  if (start_gpu(t)) {
    check_wait(t, "all bits are set", CU_STREAM_WAIT_VALUE_NOR, 0xffff0000U, 0x0000ffffU, 0xfffU);
  }
}
CASE(memops, wait64_equal) {
  if (start_gpu(t)) {
    check_wait64(t, "high half differs", CU_STREAM_WAIT_VALUE_EQ, 0x100000001ULL, 1,
                 0x100000001ULL);
  }
}
CASE(memops, wait64_greater_or_equal) {
  if (start_gpu(t)) {
    check_wait64(t, "below", CU_STREAM_WAIT_VALUE_GEQ, 1ULL << 40U, 1, (1ULL << 40U) + 1);
  }
}
CASE(memops, wait64_and) {
  if (start_gpu(t)) {
    check_wait64(t, "no bit", CU_STREAM_WAIT_VALUE_AND, 1ULL << 50U, 1, 1ULL << 50U);
  }
}
CASE(memops, wait64_nor) {
  if (start_gpu(t)) {
    check_wait64(t, "all bits", CU_STREAM_WAIT_VALUE_NOR, 0xffffffff00000000ULL, 0xffffffffULL, 0);
  }
}

CASE(memops, write_reaches_host_memory) {
  if (!start_gpu(t)) return;
  Page page(t);
  CUstream stream = nullptr;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuStreamWriteValue32_v2(stream, page.device_address, 41, 0));
  OK(cu.cuStreamWriteValue64_v2(stream, page.device_address + 8, 0x1122334455667788ULL, 0));
  t.recorded("without_barrier",
             cu.cuStreamWriteValue32_v2(stream, page.device_address + 16, 43,
                                        CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER));
  OK(cu.cuStreamSynchronize(stream));
  EQUAL(uint64_t{41}, uint64_t{page.word()[0]});
  EQUAL(uint64_t{0x1122334455667788ULL}, uint64_t{page.wide()[1]});
}

CASE(memops, work_on_device_memory) {
  if (!start_gpu(t)) return;
  CUdeviceptr memory = 0;
  CUstream stream = nullptr;
  OK(cu.cuMemAlloc_v2(&memory, 4096));
  OK(cu.cuMemsetD32_v2(memory, 0, 16));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuStreamWriteValue32_v2(stream, memory, 9, 0));
  OK(cu.cuStreamWaitValue32_v2(stream, memory, 9, CU_STREAM_WAIT_VALUE_EQ));
  OK(cu.cuStreamSynchronize(stream));
  EQUAL(uint64_t{9}, uint64_t{word_at(memory)});
}

CASE(memops, one_stream_lets_another_go) {
  if (!start_gpu(t)) return;
  Page page(t);
  CUstream waiter = nullptr;
  CUstream writer = nullptr;
  OK(cu.cuStreamCreate(&waiter, CU_STREAM_NON_BLOCKING));
  OK(cu.cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
  OK(cu.cuStreamWaitValue32_v2(waiter, page.device_address, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(waiter));
  OK(cu.cuStreamWriteValue32_v2(writer, page.device_address, 1, 0));
  OK(cu.cuStreamSynchronize(waiter));
}

CASE(memops, batch_runs_in_order) {
  if (!start_gpu(t)) return;
  Page page(t);
  CUstream stream = nullptr;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::array<CUstreamBatchMemOpParams, 3> ops = {
      wait32(page.device_address, 1, CU_STREAM_WAIT_VALUE_AND),
      write32(page.device_address + 4, 10), write32(page.device_address + 8, 11)};
  OK(cu.cuStreamBatchMemOp_v2(stream, 3, ops.data(), 0));
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
  EQUAL(uint64_t{0}, uint64_t{page.word()[1]});
  store(page.word(), 3);
  OK(cu.cuStreamSynchronize(stream));
  EQUAL(uint64_t{10}, uint64_t{page.word()[1]});
  EQUAL(uint64_t{11}, uint64_t{page.word()[2]});
}

CASE(memops, wrong_batches_are_refused) {
  if (!start_gpu(t)) return;
  Page page(t);
  CUstream stream = nullptr;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CUstreamBatchMemOpParams op = write32(page.device_address, 1);
  // NULL as the list ends a process on a real driver, so it is not asked here.
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuStreamBatchMemOp_v2(stream, 1, &op, 0x80));
  t.recorded("count_of_zero", cu.cuStreamBatchMemOp_v2(stream, 0, &op, 0));
  std::vector<CUstreamBatchMemOpParams> ops(257, op);
  // The documentation allows 256; an H200 takes one less.
  t.recorded("count_of_256", cu.cuStreamBatchMemOp_v2(stream, 256, ops.data(), 0));
  t.recorded("count_of_257", cu.cuStreamBatchMemOp_v2(stream, 257, ops.data(), 0));
  OK(cu.cuStreamBatchMemOp_v2(stream, 255, ops.data(), 0));
  op.operation = static_cast<CUstreamBatchMemOpType>(99);
  t.recorded("unknown_operation", cu.cuStreamBatchMemOp_v2(stream, 1, &op, 0));
  OK(cu.cuStreamSynchronize(stream));
}

CASE(memops, wrong_flags_and_addresses_are_refused) {
  if (!start_gpu(t)) return;
  Page page(t);
  CUstream stream = nullptr;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  t.recorded("write_flags_0x10", cu.cuStreamWriteValue32_v2(stream, page.device_address, 0, 0x10));
  t.recorded("wait_flags_0x10", cu.cuStreamWaitValue32_v2(stream, page.device_address, 0, 0x10));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuStreamWaitValue32_v2(stream, page.device_address + 1, 1, 0));
  t.recorded("wait64_at_4", cu.cuStreamWaitValue64_v2(stream, page.device_address + 4, 0, 0));
  CODE(CUDA_ERROR_INVALID_VALUE, cu.cuStreamWriteValue32_v2(stream, 0, 1, 0));
  static uint32_t ordinary[1024];
  t.recorded("ordinary_memory",
             cu.cuStreamWriteValue32_v2(stream, reinterpret_cast<CUdeviceptr>(ordinary), 1, 0));
  t.recorded("flush_flag",
             cu.cuStreamWaitValue32_v2(stream, page.device_address, 0,
                                       CU_STREAM_WAIT_VALUE_GEQ | CU_STREAM_WAIT_VALUE_FLUSH));
}

CASE(memops, first_versions_still_work) {
  if (!start_gpu(t)) return;
  Page page(t);
  CUstream stream = nullptr;
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  t.recorded("write32", cu.cuStreamWriteValue32(stream, page.device_address, 5, 0));
  t.recorded("wait32", cu.cuStreamWaitValue32(stream, page.device_address, 0, 0));
  CUstreamBatchMemOpParams op = write32(page.device_address, 6);
  t.recorded("batch", cu.cuStreamBatchMemOp(stream, 1, &op, 0));
  OK(cu.cuStreamSynchronize(stream));
}

CASE(memops, per_thread_variants_use_the_threads_stream) {
  if (!start_gpu(t)) return;
  Page page(t);
  OK(cu.cuStreamWaitValue32_v2_ptsz(nullptr, page.device_address, 1, CU_STREAM_WAIT_VALUE_EQ));
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(CU_STREAM_PER_THREAD));
  OK(cu.cuStreamWriteValue32_v2_ptsz(nullptr, page.device_address + 8, 4, 0));
  store(page.word(), 1);
  OK(cu.cuStreamSynchronize(CU_STREAM_PER_THREAD));
  EQUAL(uint64_t{4}, uint64_t{page.word()[2]});
}

CASE(memops, another_process_opens_the_gate) {
  const int fd = sealed_memfd(false);
  TRUE_(fd >= 0);
  Peer peer([fd](int socket) {
    void* shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    char byte = 0;
    if (shared == MAP_FAILED || !receive_bytes(socket, &byte, 1)) return 1;
    auto* words = static_cast<volatile uint32_t*>(shared);
    words[0] = 1;
    // The answer of the GPU arrives in the same page.
    while (words[1] != 2) sched_yield();
    return 0;
  });
  if (!start_gpu(t)) return;
  void* shared = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  TRUE_(shared != MAP_FAILED);
  CUdeviceptr address = 0;
  CUstream stream = nullptr;
  OK(cu.cuMemHostRegister_v2(shared, 4096,
                             CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_PORTABLE));
  OK(cu.cuMemHostGetDevicePointer_v2(&address, shared, 0));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  std::array<CUstreamBatchMemOpParams, 2> ops = {wait32(address, 1, CU_STREAM_WAIT_VALUE_AND),
                                                 write32(address + 4, 2)};
  OK(cu.cuStreamBatchMemOp_v2(stream, 2, ops.data(), 0));
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
  TRUE_(send_bytes(peer.socket(), "g", 1));
  OK(cu.cuStreamSynchronize(stream));
  EQUAL(uint64_t{0}, static_cast<uint64_t>(peer.wait()));
}

CASE(memops, read_only_page_can_be_a_gate) {
  const int fd = sealed_memfd(false);
  TRUE_(fd >= 0);
  void* writable = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  TRUE_(writable != MAP_FAILED);
  constexpr int kSealFutureWrite = 0x0010;
  TRUE_(fcntl(fd, F_ADD_SEALS, kSealFutureWrite) == 0);
  void* readable = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  TRUE_(readable != MAP_FAILED);
  if (!start_gpu(t)) return;
  t.recorded("plain_registration",
             cu.cuMemHostRegister_v2(readable, 4096, CU_MEMHOSTREGISTER_DEVICEMAP));
  if (attribute(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED) != 1) {
    t.skip("this GPU cannot register read-only memory");
    return;
  }
  OK(cu.cuMemHostRegister_v2(readable, 4096,
                             CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY));
  CUdeviceptr address = 0;
  CUstream stream = nullptr;
  OK(cu.cuMemHostGetDevicePointer_v2(&address, readable, 0));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cu.cuStreamWaitValue32_v2(stream, address, 1, CU_STREAM_WAIT_VALUE_AND));
  CODE(CUDA_ERROR_NOT_READY, cu.cuStreamQuery(stream));
  *static_cast<volatile uint32_t*>(writable) = 1;
  OK(cu.cuStreamSynchronize(stream));
  OK(cu.cuMemHostUnregister(readable));
}

CASE(memops, write_to_a_read_only_page_breaks_the_context) {
  const int fd = sealed_memfd(true);
  TRUE_(fd >= 0);
  void* readable = mmap(nullptr, 4096, PROT_READ, MAP_SHARED, fd, 0);
  TRUE_(readable != MAP_FAILED);
  if (!start_gpu(t)) return;
  if (attribute(CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED) != 1) {
    t.skip("this GPU cannot register read-only memory");
    return;
  }
  OK(cu.cuMemHostRegister_v2(readable, 4096,
                             CU_MEMHOSTREGISTER_DEVICEMAP | CU_MEMHOSTREGISTER_READ_ONLY));
  CUdeviceptr address = 0;
  CUstream stream = nullptr;
  OK(cu.cuMemHostGetDevicePointer_v2(&address, readable, 0));
  OK(cu.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  t.recorded("write", cu.cuStreamWriteValue32_v2(stream, address, 1, 0));
  t.recorded("synchronize", cu.cuStreamSynchronize(stream));
  CUdeviceptr memory = 0;
  t.recorded("allocation_afterwards", cu.cuMemAlloc_v2(&memory, 4096));
  EQUAL(uint64_t{0}, uint64_t{*static_cast<volatile uint32_t*>(readable)});
}

}  // namespace divvy::conformance
